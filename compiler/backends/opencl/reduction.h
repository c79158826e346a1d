#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/opencl/nest_plan.h"
#include "compiler/backends/spatial/spatial_nest.h"
#include "tessera/v1/schedule.pb.h"
#include "tessera/v1/target.pb.h"

/// Reductions that the work-items of a group share: each combines a part of the values, and a tree through local memory
/// combines the parts.
namespace tessera::compiler::opencl {

/// A nest that combines values with an operation whose order and grouping do not matter: out = op(out, value).
struct Reduction {
  /// The nest in the type of the operation: without the rounding of each sum to the output's type. Its only yield is
  /// the operation; access 0 stands for the combined values in place of the output's old content.
  simulator::SpatialNest nest;
  std::string operation;  ///< its name
  v1::DataType type = v1::DATA_TYPE_F32;
  bool rounds = false;      ///< the result is rounded to the type of the output
  std::string identity;     ///< a literal: op(identity, value) = value
  std::vector<int> summed;  ///< loops over the values, outermost first, without those of extent 1
  int64_t points = 1;       ///< of these loops
};

/// The reduction that a nest is, if any.
std::optional<Reduction> reductionOf(const simulator::SpatialNest& nest);

/// The loop along which the largest input has its nearest elements; -1 without one.
int nearestLoopOf(const Reduction& reduction);

/// A plan (NestPlan::Form::kTree) if the work-items of a group can share the nest's reductions with profit.
std::optional<NestPlan> treePlan(const simulator::SpatialNest& nest, const v1::Target& target);

/// The plan of a tile tree. INVALID_SCHEDULE with the nest's number as the path.
absl::StatusOr<NestPlan> treePlanOf(const v1::Tile& tree, const simulator::SpatialNest& nest, int number,
                                    const v1::Target& target);

}  // namespace tessera::compiler::opencl
