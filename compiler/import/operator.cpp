#include "compiler/import/operator.h"

#include "absl/strings/str_join.h"

namespace tessera::compiler {

namespace {

struct Family {
  const char* name;
  std::vector<Operator> (*operators)();
};

constexpr Family kFamilies[] = {
    {"elementwise", elementwiseOperators},
    {"activation", activationOperators},
    {"convolution", convolutionOperators},
    {"convolution", deformableConvolutionOperators},
    {"matmul", matmulOperators},
    {"normalization", normalizationOperators},
    {"pooling", poolingOperators},
    {"reduction", reductionOperators},
    {"shape", shapeOperators},
    {"slice", sliceOperators},
    {"gather", gatherOperators},
    {"constant", constantOperators},
    {"loss", lossOperators},
    {"resize", resizeOperators},
    {"accumulation", accumulationOperators},
    {"selection", selectionOperators},
    {"einsum", einsumOperators},
    {"sampling", samplingOperators},
    {"roi", roiOperators},
    {"determinant", determinantOperators},
    {"signal", signalOperators},
    {"quantized", quantizedOperators},
    {"scatter", scatterOperators},
    {"order", orderOperators},
    {"recurrent", recurrentOperators},
    {"control-flow", controlFlowOperators},
    {"data-dependent", dataDependentOperators},
    {"suppression", suppressionOperators},
    {"unique", uniqueOperators},
    {"text", textOperators},
    {"sequence", sequenceOperators},
    {"attention", attentionOperators},
    {"attention", flexAttentionOperators},
    {"attention", rotaryEmbeddingOperators},
    {"attention", linearAttentionOperators},
    {"normalization", layerNormalizationOperators},
    {"image", imageOperators},
    {"fused", microsoftOperators},
    {"attention", microsoftAttentionOperators},
    {"attention", groupQueryAttentionOperators},
    {"quantized", microsoftQuantizedOperators},
    {"quantized", blockQuantizedOperators},
    {"estimator", treeOperators},
    {"estimator", estimatorOperators},
    {"estimator", featureOperators},
};

}  // namespace

const std::vector<Operator>& allOperators() {
  static const auto* const operators = [] {
    auto* all = new std::vector<Operator>;
    for (const Family& family : kFamilies) {
      for (Operator op : family.operators()) {
        op.family = family.name;
        all->push_back(op);
      }
    }
    return all;
  }();
  return *operators;
}

std::vector<Operator> withExtents(ExtentRule rule, std::vector<Operator> operators) {
  for (Operator& op : operators) {
    if (!op.extents) op.extents = rule;
  }
  return operators;
}

const Operator* findOperator(std::string_view domain, std::string_view name, int64_t version) {
  for (const Operator& op : allOperators()) {
    if (op.name == name && op.domain == domain && op.since <= version && version <= op.until) return &op;
  }
  return nullptr;
}

bool knowsOperator(std::string_view domain, std::string_view name) {
  for (const Operator& op : allOperators()) {
    if (op.name == name && op.domain == domain) return true;
  }
  return false;
}

bool takesSequences(const Operator& op) {
  const std::string_view family = op.family, name = op.name;
  return family == "sequence" || family == "control-flow" || name == "Identity";
}

bool contains(TypeSet types, v1::DataType type) {
  if (isNarrow(type)) return types & kNarrow;
  if (isFloat(type)) return types & kFloats;
  if (isUnsigned(type)) return types & kUnsigned;
  if (isInteger(type)) return types & kSigned;
  return types & kBool;
}

std::string typeSetText(TypeSet types) {
  std::vector<std::string> names;
  if (types & kFloats) names.emplace_back("floating point");
  if (types & kSigned) names.emplace_back("signed integers");
  if (types & kUnsigned) names.emplace_back("unsigned integers");
  if (types & kBool) names.emplace_back("bool");
  if (types & kNarrow) names.emplace_back("float8, float4, integers of 2 and 4 bits");
  return absl::StrJoin(names, ", ");
}

}  // namespace tessera::compiler
