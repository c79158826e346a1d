#pragma once

#include <vector>

#include "compiler/graph/choices.h"
#include "compiler/graph/plan/groups.h"
#include "compiler/target/chip.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// Elementwise groups that several groups read, themselves elementwise or reductions: computed again within each, what
/// they make is not written and read, and a launch is saved; it is computed more often instead (thesis, 4.6.2). What
/// loses at the chip's peak (equation 4.10) is dropped; of the rest those are taken that gain where the tensors lie,
/// with arithmetic at a share of the peak, since elementwise code is not made of multiply-adds. Decisions are of kind
/// "repeat", in microseconds; pins say "fused" or "apart".
std::vector<v1::Decision> repeatGroups(std::vector<Group>& groups, const Chip& chip, GraphChoices& choices);

}  // namespace tessera::compiler
