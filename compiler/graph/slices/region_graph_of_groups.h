#pragma once

#include <vector>

#include "compiler/fusion/region_graph.h"
#include "compiler/graph/facts/rows.h"
#include "compiler/graph/plan/groups.h"

namespace tessera::compiler {

/// The groups of a model as tiling loop fusion sees them: one node each, in their order; tensors are what lies between
/// them, views looked through. A group that reduces whole feature maps, that cannot be followed (gathers, several
/// results, slices of what others wrote) or that is a chain already bounds a region (kGlobalReduction).
/// `rows`: what runs of fewer rows need of their results.
fusion::RegionGraph regionGraphOf(const std::vector<Group>& groups, const RowFacts* rows = nullptr);

/// The views between a group and what other groups or the caller give it, in program order.
std::vector<mlir::Operation*> viewsBefore(const Group& group);

}  // namespace tessera::compiler
