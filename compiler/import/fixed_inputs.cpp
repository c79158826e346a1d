// Inputs whose value is fixed for compilation because shapes depend on it: constants of the import that remain inputs
// of the model. Also finds the inputs to fix when a shape turns out to depend on one.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import/graph_importer.h"
#include "compiler/import/limits.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "onnx/onnx.pb.h"
#include "proto/support/shell_quote.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

constexpr size_t kWalkedOperations = 20'000;  // when searching the inputs of a value

}  // namespace

std::optional<Shape> declaredShape(const onnx::ValueInfoProto& info) {
  const auto& tensor = info.type().tensor_type();
  if (!tensor.has_shape()) return std::nullopt;
  Shape shape;
  for (const auto& dim : tensor.shape().dim()) {
    if (!dim.has_dim_value()) return std::nullopt;
    shape.push_back(dim.dim_value());
  }
  return shape;
}

const Shape* GraphImporter::givenShape(const std::string& input) const {
  if (auto fixed = fixed_.find(input); fixed != fixed_.end()) return &fixed->second->shape;
  auto given = options_.input_shapes.find(input);
  return given == options_.input_shapes.end() ? nullptr : &given->second;
}

absl::StatusOr<ConstantPtr> GraphImporter::fixedValue(const onnx::ValueInfoProto& info,
                                                      const v1::TensorValue& given) const {
  const v1::TensorSpec& spec = given.spec();
  const std::string what = absl::StrCat("the value given for input '", printable(info.name()), "'");
  auto invalid = [&](const std::string& message, const std::string& found, const std::string& accepted,
                     const std::string& remedy = "") {
    return fault(v1::Failure::INVALID_INPUT, absl::StrCat(what, " ", message),
                 {.attribute = info.name(), .found = found, .accepted = accepted, .remedy = remedy});
  };
  const auto bytes = static_cast<int64_t>(given.data().size());
  if (!given.has_data() || bytes > limits::kFixedInputBytes) {
    return fault(v1::Failure::LIMIT_EXCEEDED, absl::StrCat(what, " is too large"),
                 {.attribute = info.name(),
                  .found = given.has_data() ? absl::StrCat(bytes, " bytes") : "a blob",
                  .accepted = absl::StrCat("up to ", limits::kFixedInputBytes, " bytes, inline")});
  }
  const auto declared = elementType(info.type().tensor_type().elem_type());
  // NumPy has no bfloat16: its bits come as u16, as for outputs.
  const bool bits_of_bf16 = declared == v1::DATA_TYPE_BF16 && spec.dtype() == v1::DATA_TYPE_U16;
  if (declared && *declared != spec.dtype() && !bits_of_bf16) {
    return invalid(absl::StrCat("is ", typeName(spec.dtype()), ", the model's input is ", typeName(*declared)),
                   typeName(spec.dtype()), typeName(*declared),
                   absl::StrCat("convert it: --fix ",
                                shellQuote(absl::StrCat(printable(info.name()), "=", typeName(*declared), ":..."))));
  }
  Shape shape(spec.shape().begin(), spec.shape().end());
  TESSERA_RETURN_IF_ERROR(checkShape(shape, spec.dtype(), what));
  if (elementCount(shape) * elementBytes(spec.dtype()) != bytes) {
    return invalid("has a length that does not match its shape", absl::StrCat(bytes, " bytes"),
                   absl::StrCat(elementCount(shape) * elementBytes(spec.dtype()), " bytes for ", shapeText(shape)));
  }
  if (spec.dtype() == v1::DATA_TYPE_BOOL &&
      std::any_of(given.data().begin(), given.data().end(), [](char byte) { return byte != 0 && byte != 1; })) {
    return invalid("has a bool that is neither 0 nor 1", "another byte", "0 or 1");
  }
  // One number may mean a scalar or a list of one; the declaration decides.
  const auto wanted = declaredShape(info);
  if (wanted && elementCount(shape) == 1 &&
      std::all_of(wanted->begin(), wanted->end(), [](int64_t extent) { return extent == 1; })) {
    shape = *wanted;
  }
  return makeConstant(bits_of_bf16 ? v1::DATA_TYPE_BF16 : spec.dtype(), std::move(shape), given.data());
}

absl::Status GraphImporter::readFixedInputs(const onnx::GraphProto& graph, const Scope& scope) {
  std::map<std::string, const onnx::ValueInfoProto*> inputs;
  for (const auto& input : graph.input()) {
    if (!scope.values.contains(input.name())) inputs.emplace(input.name(), &input);
  }
  for (const auto& [name, given] : options_.fixed_inputs) {
    auto input = inputs.find(name);
    if (input == inputs.end()) {
      const bool weight = scope.values.contains(name);
      return fault(v1::Failure::INVALID_INPUT,
                   absl::StrCat("a value is given for '", printable(name), "', which is ",
                                weight ? "an initializer: its value is the model's" : "no input of the model"),
                   {.attribute = name,
                    .found = name,
                    .accepted = absl::StrJoin(inputs, ", ", [](std::string* out, const auto& entry) {
                      absl::StrAppend(out, printable(entry.first));
                    })});
    }
    TESSERA_ASSIGN_OR_RETURN(ConstantPtr value, fixedValue(*input->second, given));
    auto shape = options_.input_shapes.find(name);
    if (shape != options_.input_shapes.end() && shape->second != value->shape) {
      return fault(v1::Failure::INVALID_INPUT,
                   absl::StrCat("input '", printable(name), "' is given a shape and a value of another shape"),
                   {.attribute = name, .found = shapeText(shape->second), .accepted = shapeText(value->shape)});
    }
    fixed_.emplace(name, std::move(value));
  }
  return absl::OkStatus();
}

std::vector<std::string> GraphImporter::inputsComputing(const Tensor& value) const {
  if (!value.value) return {};
  mlir::func::FuncOp main = main_;
  mlir::Block& body = main.getBody().front();
  llvm::SetVector<mlir::Value> reached;
  std::vector<std::string> names;
  reached.insert(value.value);
  for (size_t i = 0; i < reached.size(); ++i) {
    if (reached.size() > kWalkedOperations) return {};
    if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(reached[i])) {
      // Inputs come first; later arguments are weights.
      if (argument.getOwner() != &body || argument.getArgNumber() >= result_.inputs.size()) continue;
      const v1::TensorSpec& spec = result_.inputs[argument.getArgNumber()];
      const int64_t bytes = elementCount(Shape(spec.shape().begin(), spec.shape().end())) * elementBytes(spec.dtype());
      const bool is_count = std::any_of(result_.dimensions.begin(), result_.dimensions.end(), [&](const auto& each) {
        return each.size() < 0 && each.name() == spec.name();
      });
      if (bytes > limits::kFixedInputBytes || is_count) return {};
      names.push_back(spec.name());
      continue;
    }
    // Bodies of structured operations may read outer tensors.
    reached[i].getDefiningOp()->walk([&](mlir::Operation* op) {
      for (mlir::Value operand : op->getOperands()) reached.insert(operand);
    });
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<int64_t> GraphImporter::valueCompared(const Tensor& condition) const {
  if (!condition.value) return std::nullopt;
  llvm::SetVector<mlir::Value> reached;
  reached.insert(condition.value);
  for (size_t i = 0; i < reached.size() && i < kWalkedOperations; ++i) {
    mlir::Operation* op = reached[i].getDefiningOp();
    if (!op) continue;
    std::optional<int64_t> value;
    bool decides = true;  // only the comparison decides
    op->walk([&](mlir::Operation* inner) {
      mlir::APInt known;
      auto compare = mlir::dyn_cast<mlir::arith::CmpIOp>(inner);
      decides &= compare != nullptr || !mlir::isa<mlir::arith::XOrIOp, mlir::arith::AndIOp, mlir::arith::OrIOp>(inner);
      if (compare && compare.getPredicate() == mlir::arith::CmpIPredicate::eq &&
          (mlir::matchPattern(compare.getRhs(), mlir::m_ConstantInt(&known)) ||
           mlir::matchPattern(compare.getLhs(), mlir::m_ConstantInt(&known))))
        value = known.getSExtValue();
    });
    if (!decides) return std::nullopt;
    if (value) return value;
    for (mlir::Value operand : op->getOperands()) reached.insert(operand);
  }
  return std::nullopt;
}

void GraphImporter::suggestFixing(const Tensor& condition) {
  const std::vector<std::string> names = inputsComputing(condition);
  const std::optional<int64_t> value = valueCompared(condition);
  if (input_to_fix_ || names.size() != 1 || !value) return;
  for (const v1::TensorSpec& spec : result_.inputs) {
    const bool one = elementCount(Shape(spec.shape().begin(), spec.shape().end())) == 1;
    if (spec.name() != names[0] || !one || !isInteger(spec.dtype())) continue;
    input_to_fix_.emplace();
    *input_to_fix_->mutable_spec() = spec;
    // Little-endian, as on all targets: the first bytes are the value in a shorter type.
    std::string bytes(sizeof(*value), '\0');
    std::memcpy(bytes.data(), &*value, sizeof(*value));
    input_to_fix_->set_data(bytes.substr(0, static_cast<size_t>(elementBytes(spec.dtype()))));
  }
}

}  // namespace tessera::compiler
