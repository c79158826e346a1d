#pragma once

#include "absl/status/statusor.h"
#include "compiler/backends/spatial/nest_form.h"
#include "compiler/backends/spatial/timeline.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler::simulator {

/// The program of the lowest simulated time for a sum of products, among the mappings to all instructions of the chip:
/// the few with the fewest calls are tiled, the few of these with the lowest predicted cost are simulated.
/// FAILED_PRECONDITION with the reason, for each instruction, why there is none.
absl::StatusOr<std::pair<Program, Timeline>> bestProgram(const ProductNest& product, const v1::Target& target);

/// The fastest program that also runs the epilogue, with the mapping of `plain` and tilings near its own. Errors: as
/// bestProgram().
absl::StatusOr<std::pair<Program, Timeline>> fusedProgram(const Program& plain, const ProductNest& product,
                                                          const Epilogue& epilogue, const v1::Target& target);

}  // namespace tessera::compiler::simulator
