#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// What defaultSchedule() is told beside the unit.
struct ScheduleRequest {
  v1::ChainTiling slices = {};  ///< proposed by the graph level; without an order: none
  bool scalar = false;          ///< plain loops for all nests (CompileOptions.opt_level 1)
  bool row_regions = true;      ///< whether passes over the same rows may run slice by slice unasked
  /// Inputs of products outside of slices that are copied to panels, where they can be, and no others; unset: where the
  /// prices say that it pays.
  std::optional<std::vector<int>> packed = std::nullopt;
  /// Products outside of slices go round in blocks within blocks for the two farthest caches, as equation 3.21 of
  /// Chimera has them, instead of in those of one cache.
  bool nested = false;
};

/// Decides everything that build() follows, from the workload's access functions and the unit's register file and
/// memory levels. Deterministic. `unit.schedule` has no part in it.
/// Errors: INVALID_INPUT that names the operation and the dimension when the proposed slices cannot be.
absl::StatusOr<v1::Schedule> defaultSchedule(const v1::BuildUnit& unit, const ScheduleRequest& request = {});

/// Default trees of another form than `unit.schedule` and than each other, in a fixed order: as a chip would have it of
/// which its family alone is known, since a description's own prices and memories may be wrong; without its slices,
/// with other operands of products in panels, and with blocks within blocks. What no step of a search reaches begins
/// there.
std::vector<v1::Schedule> otherForms(const v1::BuildUnit& unit);

/// Compiles one workload: bufferize into the caller's result buffers, split into phases, emit vector code,
/// lower to LLVM, emit a relocatable object. Every phase has the signature tessera_kernel_fn
/// (compiler/runtime/module_abi.h). Any workload over static shapes compiles; what the vector emitter does
/// not cover becomes plain loops and says so in Phase.strategy ("scalar-loops").
///
/// `unit.schedule` is followed to the letter, nothing is chosen: one tree, one object. Errors: INVALID_SCHEDULE with
/// the path of the tile that the workload cannot follow, or that says what no code would show.
absl::StatusOr<v1::BuiltObject> buildObject(const v1::BuildUnit& unit);

/// Whether buildObject would follow `unit.schedule`: its answer, without making code. `emitted`, where given, is the
/// code before it is lowered, as text: equal texts are equal objects.
absl::Status checkSchedule(const v1::BuildUnit& unit, std::string* emitted = nullptr);

}  // namespace tessera::compiler
