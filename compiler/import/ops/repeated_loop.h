#pragma once

#include "compiler/import/operator.h"

namespace onnx {
class GraphProto;
}  // namespace onnx

namespace tessera::compiler {

/// Iterations up to which a loop is written out where their number is known: what each computes of constants is known
/// then, and neighbouring iterations are fused. An MI-LSTM of 16 steps takes 0.87 of the loop's time so; of 64, the
/// same.
inline constexpr int64_t kWrittenOut = 16;

/// Iterations up to which a loop over constants alone is written out: its results are constants then, and may decide
/// shapes.
inline constexpr int64_t kWrittenOutOfConstants = 1024;

/// What a Loop reads.
struct LoopInputs {
  const onnx::GraphProto* body = nullptr;
  std::optional<Tensor> trip_count = std::nullopt;  ///< i64, one element
  std::optional<Tensor> condition = std::nullopt;   ///< bool, one element
  std::vector<Tensor> carried = {};
  size_t scans = 0;  ///< outputs that are made of rows
};

/// The iteration's number or the condition: one element of the rank that the body declares for its input, 0 or 1.
Tensor asDeclared(Emitter& e, const onnx::GraphProto& body, int input, const Tensor& x);

/// The results of a body, at least so many.
absl::StatusOr<std::vector<Tensor>> runBody(Node& n, const onnx::GraphProto& body, const std::vector<Tensor>& arguments,
                                            size_t least);

/// A Loop as a loop of the module. Nothing where it is to be written out: its results would be constants, or its first
/// iteration is the last. An error where it cannot stay a loop: its shapes change from iteration to iteration, or no
/// bound is known for what is stacked.
absl::StatusOr<std::optional<std::vector<Tensor>>> repeatedLoop(Node& n, Emitter& e, const LoopInputs& inputs);

/// A Scan's body along tensors whose parts lie along their first dimension, as a loop of the module: the states behind
/// the last part, then what is stacked along new first dimensions. Nothing where it is to be written out.
absl::StatusOr<std::optional<std::vector<Tensor>>> repeatedScan(Node& n, Emitter& e, const onnx::GraphProto& body,
                                                                const std::vector<Tensor>& states,
                                                                const std::vector<Tensor>& scanned,
                                                                const std::vector<int64_t>& scanned_reversed,
                                                                const std::vector<int64_t>& stacked_reversed);

}  // namespace tessera::compiler
