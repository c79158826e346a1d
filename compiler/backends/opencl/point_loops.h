#pragma once

#include <string>
#include <vector>

#include "compiler/backends/opencl/nest_plan.h"
#include "compiler/backends/spatial/spatial_nest.h"
#include "tessera/v1/opencl.pb.h"

namespace tessera::compiler::opencl {

/// The parallel loops of a nest as dimensions of a launch.
struct PointLoops {
  std::string statements = {};            ///< declarations of the numbers of the current iterations
  std::vector<std::string> outside = {};  ///< conditions; if one holds, the work-item has no point
  std::string point = "0";                ///< the number of the point within its group
};

/// Declares the loops and adds their dimensions to the launch. Loops of which a group has several points come first;
/// two loops have a dimension of their own and the others share the third. `index`: type of the numbers. If the plan is
/// a tree, one dimension has the work-items that share a point: number `tree_dimension`, 0 or 1, in place of one loop;
/// work-items without a point then repeat the last one, because all must reach the barriers.
PointLoops declarePointLoops(const simulator::SpatialNest& nest, const NestPlan& plan, const char* index,
                             int tree_dimension, v1::OpenClKernel::Launch& launch);

/// "(reqd_work_group_size(8, 4, 1))" as an attribute, for the launch's group.
std::string groupAttribute(const v1::OpenClKernel::Launch& launch);

/// "sum: i0 4, r0 77": name and loops of the nest, for comments.
std::string nestTitle(const simulator::SpatialNest& nest);

}  // namespace tessera::compiler::opencl
