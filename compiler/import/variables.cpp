// Initializers that become inputs with default values, because training changes them.
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "compiler/import/graph_importer.h"
#include "onnx/onnx.pb.h"

namespace tessera::compiler {
namespace {

/// Of all variables: plans contain the default values of inputs, and must fit into a message.
constexpr int64_t kVariableBytes = int64_t{1} << 24;

/// Inputs of an operator whose values decide shapes or are statistics: they are no parameters, although they are
/// floats.
struct ConstantInputs {
  std::string_view op;
  int first, last;
};
constexpr ConstantInputs kConstantInputs[] = {
    {"BatchNormalization", 3, 4},
    {"Clip", 1, 2},
    {"DequantizeLinear", 1, 2},
    {"Dropout", 1, 1},
    {"OneHot", 2, 2},
    {"Pad", 2, 2},
    {"QuantizeLinear", 1, 2},
    {"Range", 0, 2},
    {"Resize", 1, 2},
    {"Upsample", 1, 1},
};

std::set<std::string> constantInputs(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const onnx::NodeProto& node : graph.node()) {
    for (const ConstantInputs& row : kConstantInputs) {
      if (row.op != node.op_type()) continue;
      for (int i = row.first; i <= row.last && i < node.input_size(); ++i) names.insert(node.input(i));
    }
  }
  return names;
}

}  // namespace

absl::Status GraphImporter::bindVariables(const onnx::GraphProto& graph, Emitter& e, Scope& scope) {
  const std::set<std::string> constant = constantInputs(graph);
  int64_t bytes = 0;
  for (const onnx::TensorProto& initializer : graph.initializer()) {
    const std::string& name = initializer.name();
    const auto known = scope.values.find(name);
    if (known == scope.values.end() || !known->second.constant) continue;
    const ConstantPtr value = known->second.constant;
    // Numbers that exporters write as scalars, such as a divisor, are no parameters.
    if (!isFloat(value->dtype) || value->shape.empty() || value->elements() == 0 || constant.contains(name)) continue;
    if (!options_.is_variable(name)) continue;
    const bool doubles = value->dtype == v1::DATA_TYPE_F64;
    const v1::DataType dtype = doubles ? v1::DATA_TYPE_F64 : v1::DATA_TYPE_F32;
    const ConstantPtr stored = dtype == value->dtype ? value : realConstant(dtype, value->shape, value->reals());
    bytes += static_cast<int64_t>(stored->bytes.size());
    if (bytes > kVariableBytes)
      return fault(v1::Failure::LIMIT_EXCEEDED,
                   absl::StrCat("the trainable initializers have more than ", kVariableBytes >> 20, " MiB"),
                   {.attribute = name,
                    .found = absl::StrCat(bytes, " bytes with initializer '", printable(name), "'"),
                    .accepted = absl::StrCat("at most ", kVariableBytes, " bytes"),
                    .remedy = "train fewer of them: --trainable NAME, or --frozen NAME"});
    v1::TensorSpec spec;
    spec.set_name(name);
    spec.set_dtype(dtype);
    for (const int64_t extent : value->shape) spec.add_shape(extent);
    const mlir::Value argument =
        main_.getBody().front().addArgument(e.type(dtype, value->shape), mlir::NameLoc::get(e.b.getStringAttr(name)));
    v1::TensorValue& initial = result_.default_inputs.emplace_back();
    *initial.mutable_spec() = spec;
    initial.set_data(std::string(stored->bytes));
    result_.inputs.push_back(std::move(spec));
    known->second = e.cast(Emitter::wrap(argument, dtype), value->dtype);
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler
