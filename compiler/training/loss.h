#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "compiler/import/emitter.h"

/// Losses: the value that training reduces, and its gradient by the output that it reads.
namespace tessera::compiler::training {

/// A further input of the step, with the expected values.
struct Labels {
  std::string name = {};  ///< empty: the loss needs none
  v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
  Shape shape = {};
};

struct Loss {
  Tensor value;     ///< a scalar of f32
  Tensor gradient;  ///< of the output
};

/// Returns the labels of loss `name` for an output. INVALID_INPUT for an unknown name, or an output that does not fit.
absl::StatusOr<Labels> labelsOf(const std::string& name, const v1::TensorSpec& output);

/// Emits the loss, the mean over all labels:
/// - cross-entropy: -log(softmax(output)[label]) over the output's last dimension. Labels outside of the classes are
///   ignored, and their number does not count.
/// - mean-squared-error: (output - label)^2.
/// - output: the output itself, which has one element.
Loss emitLoss(Emitter& e, const std::string& name, const Tensor& output, const Tensor& labels);

}  // namespace tessera::compiler::training
