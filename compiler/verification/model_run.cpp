#include "compiler/verification/model_run.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "proto/element_size.h"

namespace tessera::compiler::verification {
namespace {

using interpreter::Array;
using interpreter::Element;

/// A section of memory, and what is known of the error of the elements that begin at each of its bytes.
class Section {
 public:
  explicit Section(int64_t bytes) : bytes_(bytes, '\xff'), error_(bytes, interpreter::kUndecidable) {}

  absl::StatusOr<Array> read(const v1::Buffer& buffer, mlir::RankedTensorType type) const {
    const Element element = interpreter::elementOf(type.getElementType());
    const int64_t width = interpreter::elementBytes(element), size = type.getNumElements() * width;
    if (!holds(buffer, size)) return outside(buffer);
    Array array =
        interpreter::fromBytes(element, type.getShape(), std::string_view(bytes_).substr(buffer.offset(), size));
    for (int64_t i = 0; i < array.elements(); ++i) array.storage->error[i] = error_[buffer.offset() + i * width];
    return array;
  }

  absl::Status write(const v1::Buffer& buffer, const Array& array) {
    const std::string bytes = interpreter::toBytes(array);
    const int64_t width = interpreter::elementBytes(array.storage->element);
    if (!holds(buffer, static_cast<int64_t>(bytes.size()))) return outside(buffer);
    std::memcpy(bytes_.data() + buffer.offset(), bytes.data(), bytes.size());
    int64_t at = buffer.offset();
    interpreter::forEachPosition(array, [&](int64_t position) {
      error_[at] = array.storage->error[position];
      at += width;
    });
    return absl::OkStatus();
  }

 private:
  bool holds(const v1::Buffer& buffer, int64_t size) const {
    return buffer.offset() % 64 == 0 && buffer.offset() >= 0 && size <= buffer.size_bytes() &&
           buffer.offset() + buffer.size_bytes() <= static_cast<int64_t>(bytes_.size());
  }
  static absl::Status outside(const v1::Buffer& buffer) {
    return absl::OutOfRangeError("buffer out of its section: " + buffer.ShortDebugString());
  }

  std::string bytes_;
  std::vector<double> error_;
};

class PlanMemory {
 public:
  PlanMemory(const PlannedGraph& planned, const std::vector<Array>& inputs, std::vector<Array> prepared)
      : planned_(planned),
        inputs_(inputs),
        prepared_(std::move(prepared)),
        outputs_(planned.plan.outputs_size()),
        arena_(planned.plan.arena_bytes()) {}

  absl::StatusOr<Array> read(const v1::Buffer& buffer, mlir::RankedTensorType type) const {
    switch (buffer.kind()) {
      case v1::Buffer::INPUT:
        return interpreter::reshaped(inputs_[buffer.index()], type.getShape());
      case v1::Buffer::OUTPUT:
        if (!outputs_[buffer.index()].storage)
          return absl::InternalError("a step reads an output before it is written");
        return interpreter::reshaped(outputs_[buffer.index()], type.getShape());
      case v1::Buffer::WEIGHT:
        return weight(buffer, type);
      case v1::Buffer::PREPARED:
        if (buffer.offset() != 0)
          return absl::OutOfRangeError("a part of a prepared weight: " + buffer.ShortDebugString());
        return interpreter::reshaped(prepared_[buffer.index()], type.getShape());
      default:
        return arena_.read(buffer, type);
    }
  }
  absl::Status write(const v1::Buffer& buffer, const Array& array) {
    if (buffer.kind() == v1::Buffer::ARENA) return arena_.write(buffer, array);
    if (buffer.kind() != v1::Buffer::OUTPUT) return absl::InternalError("a step writes to a weight or an input");
    outputs_[buffer.index()] = array;
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Array> weight(const v1::Buffer& buffer, mlir::RankedTensorType type) const {
    // The last one that begins at or before the buffer: readers may want a part of it.
    const PlannedGraph::PlacedWeight* found = nullptr;
    for (const PlannedGraph::PlacedWeight& placed : planned_.weights) {
      if (placed.offset <= buffer.offset()) found = &placed;
    }
    const Element element = interpreter::elementOf(type.getElementType());
    const int64_t size = type.getNumElements() * interpreter::elementBytes(element);
    if (!found) return absl::OutOfRangeError("no weight lies there: " + buffer.ShortDebugString());
    const int64_t skip = buffer.offset() - found->offset;
    if (skip + size > static_cast<int64_t>(found->weight.bytes.size())) {
      return absl::OutOfRangeError("a step reads beyond a weight: " + buffer.ShortDebugString());
    }
    return interpreter::fromBytes(element, type.getShape(), found->weight.bytes.substr(skip, size));
  }

  const PlannedGraph& planned_;
  const std::vector<Array>& inputs_;
  const std::vector<Array> prepared_;
  std::vector<Array> outputs_;
  Section arena_;
};

absl::Status inStep(const v1::Step& step, const absl::Status& status) {
  return {status.code(), absl::StrCat(status.message(), "; in step ", step.name())};
}

}  // namespace

Element elementOf(const v1::TensorSpec& spec) {
  using Kind = Element::Kind;
  switch (spec.dtype()) {
    case v1::DATA_TYPE_F16:
      return {Kind::kF16, 16};
    case v1::DATA_TYPE_BF16:
      return {Kind::kBF16, 16};
    case v1::DATA_TYPE_F32:
      return {Kind::kF32, 32};
    case v1::DATA_TYPE_F64:
      return {Kind::kF64, 64};
    default:
      return {Kind::kInteger, static_cast<unsigned>(8 * tessera::elementBytes(spec.dtype()))};
  }
}

const Array& WeightArrays::of(const Weight& weight, mlir::RankedTensorType type) {
  Entry& entry = entries_[{weight.bytes.data(), weight.bytes.size()}];
  const Element element = interpreter::elementOf(type.getElementType());
  const bool same = entry.array.storage && entry.array.storage->element == element &&
                    llvm::ArrayRef<int64_t>(entry.array.shape) == type.getShape();
  if (!same) entry = {weight.owner, interpreter::fromBytes(element, type.getShape(), weight.bytes)};
  return entry.array;
}

absl::StatusOr<std::vector<Array>> runMain(const ImportedModel& model, const std::vector<Array>& inputs,
                                           WeightArrays& weights, const interpreter::Options& options) {
  auto main = mlir::ModuleOp(*model.module).lookupSymbol<mlir::func::FuncOp>("main");
  std::vector<Array> arguments;
  size_t input = 0;
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    auto type = llvm::cast<mlir::RankedTensorType>(main.getArgumentTypes()[i]);
    auto weight = main.getArgAttrOfType<mlir::IntegerAttr>(i, "tessera.weight");
    if (weight) {
      arguments.push_back(weights.of(model.weights[weight.getInt()], type));
    } else if (input < inputs.size()) {
      arguments.push_back(inputs[input++]);
    } else {
      return absl::InternalError("@main takes more inputs than the model has");
    }
  }
  return interpreter::interpret(main, std::move(arguments), options);
}

absl::StatusOr<std::vector<Array>> runPlan(mlir::MLIRContext& context, const PlannedGraph& planned,
                                           const std::vector<Array>& inputs, const interpreter::Options& options,
                                           const StepObserver& observer) {
  const v1::Plan& plan = planned.plan;
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules;
  for (const v1::Workload& workload : plan.workloads()) {
    modules.push_back(mlir::parseSourceString<mlir::ModuleOp>(workload.ir(), mlir::ParserConfig(&context)));
    if (!modules.back()) return absl::InternalError("a workload does not parse: " + workload.summary());
  }
  std::vector<Array> prepared;
  for (const PlannedGraph::PreparedWeight& weight : planned.prepared) {
    absl::StatusOr<std::vector<Array>> value =
        runPlan(context, {.plan = weight.plan, .weights = weight.weights}, {}, options, nullptr);
    if (!value.ok()) return value.status();
    prepared.push_back(std::move(value->front()));
  }
  PlanMemory memory(planned, inputs, std::move(prepared));
  for (const v1::Step& step : plan.steps()) {
    mlir::func::FuncOp func = *modules[step.workload()]->getOps<mlir::func::FuncOp>().begin();
    std::vector<Array> arguments;
    const int count = static_cast<int>(func.getNumArguments());
    for (int i = 0; i < count; ++i) {
      auto type = llvm::cast<mlir::RankedTensorType>(func.getArgumentTypes()[i]);
      absl::StatusOr<Array> argument = memory.read(plan.buffers(step.operands(i)), type);
      if (!argument.ok()) return inStep(step, argument.status());
      arguments.push_back(*std::move(argument));
    }
    absl::StatusOr<std::vector<Array>> results = interpreter::interpret(func, std::move(arguments), options);
    if (!results.ok()) return inStep(step, results.status());
    for (size_t r = 0; r < results->size(); ++r) {
      absl::Status status = memory.write(plan.buffers(step.operands(count + static_cast<int>(r))), (*results)[r]);
      if (!status.ok()) return inStep(step, status);
    }
    if (observer) observer(step, *results);
  }
  std::vector<Array> outputs;
  mlir::Builder types(&context);
  for (int output = 0; output < plan.outputs_size(); ++output) {
    const v1::TensorSpec& spec = plan.outputs(output);
    v1::Buffer buffer;
    buffer.set_kind(v1::Buffer::OUTPUT);
    buffer.set_index(output);
    const llvm::SmallVector<int64_t> shape(spec.shape().begin(), spec.shape().end());
    // It has the type that its step gave it.
    absl::StatusOr<Array> value = memory.read(buffer, mlir::RankedTensorType::get(shape, types.getI8Type()));
    if (!value.ok()) return value.status();
    outputs.push_back(*std::move(value));
  }
  for (const v1::RuntimeExtent& extent : plan.runtime_extents()) {
    absl::StatusOr<Array> value =
        memory.read(plan.buffers(extent.buffer()), mlir::RankedTensorType::get({}, types.getI64Type()));
    if (!value.ok()) return value.status();
    outputs.push_back(*std::move(value));
  }
  return outputs;
}

}  // namespace tessera::compiler::verification
