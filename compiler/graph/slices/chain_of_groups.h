#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/fusion/decision.h"
#include "compiler/graph/plan/groups.h"
#include "compiler/graph/slices/access_trace.h"
#include "compiler/graph/slices/softmax_of_groups.h"

namespace tessera::compiler {

/// Groups linked by values that only the next one reads, as loops, tensors and members for compiler/fusion.
///
/// Members are the products, convolutions and pools, and rows that are normalized behind the last of them; what stands
/// before, behind and between them counts by its passes and operations. Products that the chip's instructions compute
/// count with as many operations as multiply-adds do in the same time. Loops are followed from the last result backward
/// through access functions, views and paddings: a window becomes a term with the stride, what a view merges becomes
/// two loops.
struct GroupChain {
  fusion::Chain chain;
  fusion::Between between;
  std::optional<MaskedScores> masked;
  std::vector<mlir::Operation*> ops;   ///< of all groups, with the views between them, in program order
  std::vector<mlir::Value> left;       ///< made inside and read by others as well, as Between::left
  std::vector<AccessTrace::Cut> cuts;  ///< outermost first; of what is left as well
  bool windows = false;                ///< whether a member reads through windows
};

/// `links` are the views between the groups. INVALID_ARGUMENT, with what stands in the way, where the groups are no
/// chain: a gather, an operation of several results, an intermediate that is a product's right operand or is read in
/// two ways that no slice serves.
absl::StatusOr<GroupChain> chainOfGroups(std::span<const Group* const> groups, std::span<mlir::Operation* const> links,
                                         const Chip& chip);

/// OK where every product reads what is made inside as its left operand, row by row: the right one is packed before all
/// slices, or only moved from outside, as the values of an attention are. INVALID_ARGUMENT otherwise.
absl::Status checkOperands(const AccessTrace& trace);

}  // namespace tessera::compiler
