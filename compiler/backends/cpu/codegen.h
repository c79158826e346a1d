#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// Options of defaultSchedule().
struct ScheduleRequest {
  v1::ChainTiling slices = {};  ///< proposed by the graph level; no loop names: no slices
  bool scalar = false;          ///< plain loops for all nests (CompileOptions.opt_level 1)
  /// whether passes over the same rows may become a region that the graph level did not propose
  bool row_regions = true;
  /// The inputs of products outside of slices to copy to panels, if they can be copied; no others are. Unset: the cost
  /// parameters decide.
  std::optional<std::vector<int>> packed = std::nullopt;
  /// Gives products outside of slices two nested levels of blocks, for the two farthest caches (Chimera, equation
  /// 3.21), instead of the blocks of one cache.
  bool nested = false;
};

/// Chooses every decision that buildObject() follows, from the workload's access functions and the unit's register file
/// and memory levels. Deterministic; `unit.schedule` is not read. Errors: INVALID_INPUT naming the operation and the
/// dimension when the proposed slices are impossible.
absl::StatusOr<v1::Schedule> defaultSchedule(const v1::BuildUnit& unit, const ScheduleRequest& request = {});

/// Alternative default schedules, each different from `unit.schedule` and from the others, in a fixed order: the
/// schedule for the chip's family parameters alone (the description's own cost parameters and memory levels may be
/// wrong), one without slices, one with other operands of products in panels, and one with nested blocks. They are the
/// starting points of a search for forms that no single search move reaches.
std::vector<v1::Schedule> seedSchedules(const v1::BuildUnit& unit);

/// Compiles one workload: bufferizes it into the caller's result buffers, splits it into phases, emits vector code,
/// lowers it to LLVM and emits a relocatable object. Every phase has the signature tessera_kernel_fn
/// (compiler/runtime/module_abi.h). Any workload over static shapes compiles; parts that the vector emitter does not
/// cover become plain loops, reported in Phase.strategy ("scalar-loops").
///
/// `unit.schedule` is followed exactly and nothing is chosen: one schedule determines one object. Errors:
/// INVALID_SCHEDULE with the path of a tile that the workload cannot follow, or that holds a setting with no effect on
/// the code.
absl::StatusOr<v1::BuiltObject> buildObject(const v1::BuildUnit& unit);

/// Returns the status that buildObject() would return for `unit.schedule`, without generating machine code. `emitted`,
/// if not null, receives the code before lowering as text: equal texts give equal objects.
absl::Status checkSchedule(const v1::BuildUnit& unit, std::string* emitted = nullptr);

}  // namespace tessera::compiler
