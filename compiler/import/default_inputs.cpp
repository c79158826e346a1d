// Inputs with a default value: initializers that the graph also lists as inputs.
//
// Before IR version 4 every initializer had to be listed, and ONNX Runtime treats all of them as constants. From
// version 4 on a run may give such an input another value, or omit it. Two kinds are constants nevertheless, because
// compilation depends on their value:
// - Weights that an exporter lists by default (keep_initializers_as_inputs): more than kDefaultInputs of them, or one
//   of more than kFixedInputBytes. As inputs they could be neither folded nor packed. The artifact does not have them
//   as inputs.
// - Short lists of integers and bools (shapes, axes, counts, modes), and all others if the model does not compile
//   without their values. These are fixed inputs: a run may omit them, and any other value is an error.
#include "compiler/import/graph_importer.h"
#include "compiler/import/limits.h"
#include "onnx/onnx.pb.h"

namespace tessera::compiler {
namespace {

constexpr int kFirstWithDefaults = 4;     // IR version
constexpr size_t kDefaultInputs = 16;     // more suggest an exporter's habit
constexpr int64_t kStructuralValues = 8;  // an integer list that decides a shape has one value per dimension

/// Whether the value probably decides shapes, axes or modes, instead of being an operand of arithmetic.
bool isStructural(const Constant& value) {
  return !isFloat(value.dtype) && value.shape.size() <= 1 && value.elements() <= kStructuralValues;
}

/// Whether the declaration matches the initializer exactly. If it leaves sizes open, the caller may bind other sizes,
/// which the default would not fit.
bool declaredAs(const onnx::ValueInfoProto& info, const Constant& value) {
  return elementType(info.type().tensor_type().elem_type()) == value.dtype && declaredShape(info) == value.shape;
}

}  // namespace

void GraphImporter::findDefaults(const onnx::GraphProto& graph, Scope& scope) {
  // Older models list every initializer as an input; there the two together mean a constant.
  if (model_->ir_version() < kFirstWithDefaults) return;
  // Training chooses among all initializers (variables.cpp).
  if (options_.is_variable) return;
  std::map<std::string, ConstantPtr> found;
  for (const auto& input : graph.input()) {
    const auto known = scope.values.find(input.name());
    if (known == scope.values.end()) continue;
    const ConstantPtr& value = known->second.constant;
    if (!value) continue;  // has a problem; only while a model is checked
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
    fixed_.emplace(name, value);  // keeps the user's value, if there is one
    known = defaults_.erase(known);
  }
}

}  // namespace tessera::compiler
