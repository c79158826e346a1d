#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/expression/syntax.h"

/// Differentiates tensor expressions (thesis, 4.6.1): a program that computes outputs from inputs becomes one that
/// computes the gradients of the inputs from the gradients of the outputs.
namespace tessera::compiler::gradient {

struct GradientOptions {
  std::vector<std::string> inputs = {};  ///< inputs to differentiate by; empty: all inputs of float types
  bool pads = true;                      ///< replace conditions by zero padding and phases where possible
};

struct InputGradient {
  std::string input, gradient;      ///< names of the tensors
  std::vector<int64_t> shape = {};  ///< shape of either
};

struct Gradient {
  /// The inputs are those of the original that a statement reads, then the gradient of each output. The outputs are the
  /// gradients of the inputs, in order. The program repeats the statements of the original that a gradient reads.
  expression::Program program;
  std::vector<InputGradient> inputs = {};
  std::vector<std::string> output_gradients = {};  ///< in the order of the original's outputs
};

/// Each statement is differentiated by each tensor that it reads. The gradients of several reads of a tensor are
/// summed. The result has gathers only: no statement writes an element from several places.
///
/// Fails with INVALID_MODEL at the place of what has no gradient: integer outputs and inputs, casts to integers,
/// functions without a rule, subscripts that are no quasi-affine function of loops, extents without a value.
absl::StatusOr<Gradient> gradientOf(const expression::Program& program, const GradientOptions& options = {});

}  // namespace tessera::compiler::gradient
