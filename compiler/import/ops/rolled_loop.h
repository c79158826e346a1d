#pragma once

#include "compiler/import/operator.h"

namespace onnx {
class GraphProto;
}  // namespace onnx

namespace tessera::compiler {

/// Largest known number of iterations for which a loop is unrolled: unrolled iterations fold their constants, and
/// neighbouring ones are fused. Measured for an MI-LSTM: 16 unrolled steps take 0.87 of the loop's time; 64 take the
/// same time.
inline constexpr int64_t kMaxUnrolled = 16;

/// Largest number of iterations for which a loop over constants alone is unrolled. Its results are constants then and
/// may decide shapes.
inline constexpr int64_t kMaxUnrolledOfConstants = 1024;

/// The inputs of a Loop.
struct LoopInputs {
  const onnx::GraphProto* body = nullptr;
  std::optional<Tensor> trip_count = std::nullopt;  ///< i64, one element
  std::optional<Tensor> condition = std::nullopt;   ///< bool, one element
  std::vector<Tensor> carried = {};
  size_t scans = 0;  ///< number of scan outputs
};

/// Reshapes `x`, one element (the iteration number or the condition), to the rank that the body declares for its input
/// number `input`: 0 or 1.
Tensor asDeclared(Emitter& e, const onnx::GraphProto& body, int input, const Tensor& x);

/// Returns the results of a body, at least the given number. `active`: whether runs execute the iteration, if it
/// depends on the run.
absl::StatusOr<std::vector<Tensor>> runBody(Node& n, const onnx::GraphProto& body, const std::vector<Tensor>& arguments,
                                            size_t least, const Tensor& active = {});

/// Lowers a Loop to a loop of the module. Returns nothing if it should be unrolled: its results would be constants, or
/// its first iteration is the last. Fails if it cannot stay a loop: its shapes change between iterations, or a stacked
/// result has no bound.
absl::StatusOr<std::optional<std::vector<Tensor>>> lowerRolledLoop(Node& n, Emitter& e, const LoopInputs& inputs);

/// Lowers a Scan's body to a loop of the module over tensors that are scanned along their first dimension. Returns the
/// final states, then the results stacked along a new first dimension. Returns nothing if the loop should be unrolled.
absl::StatusOr<std::optional<std::vector<Tensor>>> lowerRolledScan(Node& n, Emitter& e, const onnx::GraphProto& body,
                                                                   const std::vector<Tensor>& states,
                                                                   const std::vector<Tensor>& scanned,
                                                                   const std::vector<int64_t>& scanned_reversed,
                                                                   const std::vector<int64_t>& stacked_reversed);

}  // namespace tessera::compiler
