#pragma once

#include <vector>

#include "compiler/fusion/region_graph.h"
#include "compiler/graph/analysis/used_rows.h"
#include "compiler/graph/plan/groups.h"

namespace tessera::compiler {

/// Returns the groups of a model for tiling loop fusion: one node each, in order; tensors are the values between them,
/// with views removed. A group bounds a region (kGlobalReduction) if it reduces whole feature maps, has no traceable
/// access (gathers, several results, slices of other groups' results), or is a chain. `rows`: the parts of results that
/// smaller runs need.
fusion::RegionGraph regionGraphOf(const std::vector<Group>& groups, const UsedRowAnalysis* rows = nullptr);

/// Returns the views between a group and its operands from other groups or the caller, in program order.
std::vector<mlir::Operation*> viewsBefore(const Group& group);

}  // namespace tessera::compiler
