#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/fusion/decision.h"
#include "compiler/graph/plan/groups.h"
#include "compiler/graph/slices/access_trace.h"
#include "compiler/graph/slices/softmax_of_groups.h"

namespace tessera::compiler {

/// Groups linked by values that only the next one reads, as a loop nest for compiler/fusion.
///
/// Its statements (members of the chain) are the products, convolutions and pools, and the normalization of rows after
/// the last of them. Other operations before, between and after the members enter fusion::BetweenMembers with their
/// passes over memory and their floating-point operations. The work of a product on an instruction of the chip is the
/// number of vector multiply-adds that take the same time. Loops are traced from the last result backward through
/// access functions, views and paddings: a window becomes a term with the stride; a dimension merged by a view becomes
/// two loops.
struct GroupChain {
  fusion::Chain chain;
  fusion::BetweenMembers between;
  std::optional<MaskedScores> masked;
  std::vector<mlir::Operation*> ops;      ///< of all groups, with the views between them, in program order
  std::vector<mlir::Value> also_written;  ///< defined inside and also read outside, as BetweenMembers::also_written
  std::vector<AccessTrace::Cut> cuts;     ///< outermost first; of the values in `also_written` as well
  bool windows = false;                   ///< whether a member reads through windows
};

/// Builds the chain. `links` are the views between the groups. INVALID_ARGUMENT, with the obstacle, if the groups are
/// no chain: a gather, an operation with several results, an intermediate that is a product's right operand, or one
/// with two reads that no slice covers.
absl::StatusOr<GroupChain> chainOfGroups(std::span<const Group* const> groups, std::span<mlir::Operation* const> links,
                                         const Chip& chip);

/// OK if every product reads inner values as its left operand, row by row. The right one must come from outside: it is
/// packed before all slices, or only moved, as the values of an attention are. INVALID_ARGUMENT otherwise.
absl::Status checkOperands(const AccessTrace& trace);

}  // namespace tessera::compiler
