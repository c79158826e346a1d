#include "compiler/import/sixteen_bit_floats.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "compiler/import/limits.h"

namespace tessera::compiler {
namespace {

/// Operators whose results all have the type of their first input. Normalizations with statistics of another type
/// (BatchNormalization, LayerNormalization) choose their arithmetic themselves. Operators that only move, select or
/// round once are not listed, unless an attribute decides or scales: it is an f32, which f16 and bf16 may not
/// represent.
constexpr std::string_view kInSinglePrecision[] = {"AveragePool",
                                                   "BiasGelu",
                                                   "Celu",
                                                   "Conv",
                                                   "ConvTranspose",
                                                   "CumSum",
                                                   "DFT",
                                                   "Det",
                                                   "Einsum",
                                                   "Elu",
                                                   "FastGelu",
                                                   "FusedConv",
                                                   "FusedMatMul",
                                                   "GRU",
                                                   "Gelu",
                                                   "Gemm",
                                                   "GlobalAveragePool",
                                                   "HardSigmoid",
                                                   "HardSwish",
                                                   "InstanceNormalization",
                                                   "LRN",
                                                   "LSTM",
                                                   "LeakyRelu",
                                                   "LogSoftmax",
                                                   "LpNormalization",
                                                   "LpPool",
                                                   "MatMul",
                                                   "Mean",
                                                   "MeanVarianceNormalization",
                                                   "Mish",
                                                   "NegativeLogLikelihoodLoss",
                                                   "QuickGelu",
                                                   "RNN",
                                                   "ReduceL1",
                                                   "ReduceL2",
                                                   "ReduceLogSum",
                                                   "ReduceLogSumExp",
                                                   "ReduceMean",
                                                   "ReduceProd",
                                                   "ReduceSum",
                                                   "ReduceSumSquare",
                                                   "STFT",
                                                   "Selu",
                                                   "Shrink",
                                                   "Sigmoid",
                                                   "Softmax",
                                                   "SoftmaxCrossEntropyLoss",
                                                   "Softplus",
                                                   "Softsign",
                                                   "Sum",
                                                   "Swish",
                                                   "ThresholdedRelu",
                                                   "TransposeMatMul"};

static_assert(std::is_sorted(std::begin(kInSinglePrecision), std::end(kInSinglePrecision)));

bool isHalf(const Tensor& x) { return !x.sequence && (x.dtype == v1::DATA_TYPE_F16 || x.dtype == v1::DATA_TYPE_BF16); }

Tensor inSingle(Emitter& e, const Tensor& x) {
  if (!isHalf(x) || (!x.value && !x.constant)) return x;
  // Large constants stay in their type and are converted where they are read.
  if (x.constant && static_cast<int64_t>(x.constant->bytes.size()) <= limits::kInlineConstantBytes) {
    std::vector<double> values(x.elements());
    for (int64_t i = 0; i < x.elements(); ++i) values[i] = x.constant->realAt(i);
    return Emitter::wrap(realConstant(v1::DATA_TYPE_F32, x.shape, values));
  }
  Tensor result = e.cast(x, v1::DATA_TYPE_F32);
  result.extents = x.extents;
  return result;
}

}  // namespace

Results lowerOperator(const Operator& op, Node& node, Emitter& e) {
  const bool listed = std::binary_search(std::begin(kInSinglePrecision), std::end(kInSinglePrecision), op.name);
  if (!listed || node.numInputs() == 0 || !isHalf(node.in(0))) return op.lower(node, e);
  const v1::DataType type = node.in(0).dtype;
  std::vector<Tensor> inputs;
  for (const Tensor& input : node.inputs()) inputs.push_back(inSingle(e, input));
  std::vector<Tensor> given = node.exchangeInputs(std::move(inputs));
  Results results = op.lower(node, e);
  node.exchangeInputs(std::move(given));
  if (!results.ok()) return results;
  for (Tensor& result : *results) {
    if (result.dtype != v1::DATA_TYPE_F32 || (!result.value && !result.constant)) continue;
    Tensor rounded = e.cast(result, type);
    rounded.extents = result.extents;
    result = std::move(rounded);
  }
  return results;
}

}  // namespace tessera::compiler
