#pragma once

#include "absl/status/status.h"
#include "compiler/backends/cpu/region/region_panels.h"
#include "compiler/backends/cpu/tree/parsed_schedule.h"

namespace tessera::compiler::codegen {

/// Reads the steps of every variant (`nests`, in the order of region.variants) from the leaves: plans of the nests, and
/// of the copies to panels before them. Errors: INVALID_SCHEDULE with the path of a leaf that does not belong to the
/// next step or cannot run its nest.
absl::Status applySteps(mlir::OpBuilder& builder, const Chip& chip, std::vector<std::vector<RegionNest>>& nests,
                        Region& region, RegionPanels& panels, const ParsedRegion& tree);

}  // namespace tessera::compiler::codegen
