#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "compiler/gradient/gradient.h"

namespace tessera::compiler::gradient::testing {

/// How values are drawn and compared.
struct CheckOptions {
  uint64_t seed = 0;
  bool exact = false;       ///< integers, for expressions that are linear in each input: both sides are equal
  double tolerance = 1e-9;  ///< otherwise: of the difference, relative to the sum of the terms' sizes
};

/// Differentiates the text, prints the gradients, parses them again, and compares <dy, J v> with <transposed J dy, v>
/// for each wanted input, with random inputs, directions v and output gradients dy. J v is computed by forward mode on
/// the original expression. Returns the largest relative difference; fails with the texts in question if it is too
/// large.
absl::StatusOr<double> checkAdjoint(const std::string& text, const GradientOptions& gradient,
                                    const CheckOptions& options);

}  // namespace tessera::compiler::gradient::testing
