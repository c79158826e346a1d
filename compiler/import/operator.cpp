#include "compiler/import/operator.h"

#include "absl/strings/str_join.h"

namespace tessera::compiler {

const std::vector<Operator>& allOperators() {
  static const auto* const operators = [] {
    auto* all = new std::vector<Operator>;
    for (auto family : {elementwiseOperators,   activationOperators,    convolutionOperators, matmulOperators,
                        normalizationOperators, poolingOperators,       reductionOperators,   shapeOperators,
                        sliceOperators,         gatherOperators,        constantOperators,    lossOperators,
                        resizeOperators,        accumulationOperators,  selectionOperators,   einsumOperators,
                        samplingOperators,      roiOperators,           determinantOperators, signalOperators,
                        quantizedOperators,     scatterOperators,       orderOperators,       recurrentOperators,
                        controlFlowOperators,   dataDependentOperators, suppressionOperators, uniqueOperators,
                        textOperators,          sequenceOperators}) {
      for (const Operator& op : family()) all->push_back(op);
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

bool contains(TypeSet types, v1::DataType type) {
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
  return absl::StrJoin(names, ", ");
}

}  // namespace tessera::compiler
