// Inputs with a default value: initializers that the graph lists as inputs too.
//
// Before IR version 4 every initializer had to be listed, and is a constant: so ONNX Runtime takes them. From version 4
// on a run may give such an input another value, or leave it out. Two kinds are constants all the same, since what they
// decide is decided when the model is compiled:
// - Weights that an exporter listed by habit (keep_initializers_as_inputs): more than kDefaultInputs of them, or one of
//   more than kFixedInputBytes. As inputs they could be neither folded nor packed. They are no inputs of the artifact.
// - Short lists of integers and bools (shapes, axes, counts, modes), and all others where the model is not compiled
//   without their values. These are fixed inputs: a run may leave them out, and giving another value is an error.
#include "compiler/import/graph_importer.h"
#include "compiler/import/limits.h"
#include "onnx/onnx.pb.h"

namespace tessera::compiler {
namespace {

constexpr int kFirstWithDefaults = 4;     // IR version
constexpr size_t kDefaultInputs = 16;     // more are an exporter's habit
constexpr int64_t kStructuralValues = 8;  // integers that decide a shape are as many as a tensor has dimensions

/// Whether the value probably decides shapes, axes or modes, rather than being an operand of arithmetic.
bool isStructural(const Constant& value) {
  return !isFloat(value.dtype) && value.shape.size() <= 1 && value.elements() <= kStructuralValues;
}

/// Whether the input is declared as the tensor that the initializer is. Where sizes are left open, others than the
/// default's may be bound, which it would not fit.
bool declaredAs(const onnx::ValueInfoProto& info, const Constant& value) {
  return elementType(info.type().tensor_type().elem_type()) == value.dtype && declaredShape(info) == value.shape;
}

}  // namespace

void GraphImporter::findDefaults(const onnx::GraphProto& graph, Scope& scope) {
  if (model_->ir_version() < kFirstWithDefaults) return;
  std::map<std::string, ConstantPtr> found;
  for (const auto& input : graph.input()) {
    const auto known = scope.values.find(input.name());
    if (known == scope.values.end()) continue;
    const ConstantPtr& value = known->second.constant;
    if (!value) continue;  // with a problem, while a model is checked
    const auto bytes = static_cast<int64_t>(value->bytes.size());
    if (bytes > limits::kFixedInputBytes) return;
    if (!isNarrow(value->dtype) && declaredAs(input, *value)) found.emplace(input.name(), value);
  }
  if (found.size() > kDefaultInputs) return;
  for (const auto& [name, value] : found) scope.values.erase(name);
  defaults_ = std::move(found);
}

void GraphImporter::fixDefaults() {
  for (auto known = defaults_.begin(); known != defaults_.end();) {
    const auto& [name, value] = *known;
    if (!fixed_.contains(name) && !fix_defaults_ && !isStructural(*value)) {
      ++known;
      continue;
    }
    fixed_.emplace(name, value);  // the user's value stays
    known = defaults_.erase(known);
  }
}

}  // namespace tessera::compiler
