#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "compiler/backends/hls/design.h"

/// The design of a nest with the least predicted time.
namespace tessera::compiler::hls {

struct SearchCount {
  size_t tried = 0, fitting = 0;  ///< designs that were built, and those that fit the limits
};

/// Enumerates unroll factors in the order of the compute time that they permit, and for each the tiles, smallest first.
/// Ends when no further factors can beat the best design. Deterministic. Errors as designOf(), if no design fits.
absl::StatusOr<Design> searchDesign(const Form& form, const Device& device, const Resources& limits,
                                    SearchCount* count = nullptr);

}  // namespace tessera::compiler::hls
