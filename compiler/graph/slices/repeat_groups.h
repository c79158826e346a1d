#pragma once

#include <vector>

#include "compiler/graph/choices.h"
#include "compiler/graph/plan/groups.h"
#include "compiler/target/chip.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// Recomputes an elementwise group in each of its readers, which are elementwise or reductions. This saves writing and
/// reading the result, and a launch, at the cost of repeated arithmetic (thesis, 4.6.2). Candidates that lose at the
/// chip's peak (equation 4.10) are dropped. The others are taken if they gain by the bandwidth of the tensors' memory
/// level, with arithmetic at a fraction of the peak, since elementwise code is not made of multiply-adds. Returns
/// decisions of kind "repeat", in microseconds; pins are "fused" or "apart".
std::vector<v1::Decision> repeatGroups(std::vector<Group>& groups, const Chip& chip, GraphChoices& choices);

}  // namespace tessera::compiler
