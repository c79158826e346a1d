#include "compiler/graph/slices/group_links.h"

#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/stage_attributes.h"
#include "compiler/graph/constants/fold_constants.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler {
namespace {

using mlir::Operation;

bool multiplies(Operation* op) {
  if (kindOf(op) != OpKind::kHeavy) return false;
  if (auto generic = mlir::dyn_cast<mlir::linalg::GenericOp>(op); generic && usesDotProductInstruction(generic))
    if (llvm::any_of(generic.getDpsInputs(), isKnownAtCompileTime)) return false;
  return llvm::any_of(mlir::cast<mlir::linalg::LinalgOp>(op).getBlock()->getOperations(),
                      [](Operation& inner) { return mlir::isa<mlir::arith::MulFOp, mlir::arith::MulIOp>(inner); });
}

}  // namespace

GroupLinks::GroupLinks(const std::vector<Group>& groups) : groups_(groups) {
  for (auto [id, group] : llvm::enumerate(groups))
    for (Operation* op : group.ops) group_of_[op] = static_cast<int>(id);
}

bool GroupLinks::heavy(int group) const { return llvm::any_of(groups_[group].ops, multiplies); }

bool GroupLinks::winograd(int group) const {
  return llvm::any_of(groups_[group].ops, [](Operation* op) { return op->hasAttr(kAlgorithm); });
}

bool GroupLinks::rowsOnly(int group) const {
  return llvm::all_of(groups_[group].ops, [](Operation* op) {
    const OpKind kind = kindOf(op);
    return kind == OpKind::kElementwise || kind == OpKind::kReduction || kind == OpKind::kView || kind == OpKind::kPad;
  });
}

bool GroupLinks::normalizes(int group) const {
  return rowsOnly(group) &&
         llvm::any_of(groups_[group].ops, [](Operation* op) { return kindOf(op) == OpKind::kReduction; }) &&
         kindOf(groups_[group].ops.back()) == OpKind::kElementwise;
}

bool GroupLinks::pools(int group) const {
  return !heavy(group) && !winograd(group) &&
         llvm::any_of(groups_[group].ops, [](Operation* op) { return kindOf(op) == OpKind::kHeavy; });
}

void GroupLinks::follow(mlir::Value value, const std::vector<Operation*>& views,
                        std::vector<GroupLink::Reader>& readers) const {
  for (Operation* user : value.getUsers()) {
    auto it = group_of_.find(user);
    // Views and slices belong to no group: follows their readers.
    if (it == group_of_.end() && (kindOf(user) == OpKind::kView || kindOf(user) == OpKind::kSlice)) {
      std::vector<Operation*> longer = views;
      longer.push_back(user);
      follow(user->getResult(0), longer, readers);
    } else {
      readers.push_back({user, it == group_of_.end() ? -1 : it->second, views});
    }
  }
}

GroupLink GroupLinks::linkOf(int group) const {
  GroupLink link;
  std::vector<GroupLink::Reader> readers;
  if (groups_[group].results.size() == 1) follow(groups_[group].results[0], {}, readers);
  // The first reader decides; others may run later or prevent a fusion.
  for (const GroupLink::Reader& reader : readers)
    if (reader.group >= 0 && (link.reader < 0 || reader.group < link.reader)) link.reader = reader.group;
  for (GroupLink::Reader& reader : readers) {
    if (reader.group != link.reader) {
      link.others.push_back(std::move(reader));
      continue;
    }
    for (Operation* view : reader.views)
      if (!llvm::is_contained(link.views, view)) link.views.push_back(view);
  }
  return link;
}

bool GroupLink::othersRunLater() const {
  return llvm::all_of(others, [&](const Reader& each) {
    return each.group > reader || each.op->hasTrait<mlir::OpTrait::IsTerminator>();
  });
}

bool GroupLinks::movesOnly(int group) const {
  return llvm::all_of(groups_[group].ops, [](Operation* op) {
    auto generic = mlir::dyn_cast<mlir::linalg::GenericOp>(op);
    return kindOf(op) == OpKind::kPad || kindOf(op) == OpKind::kView || (generic && isCheapToRepeat(generic));
  });
}

int GroupLinks::movementBefore(int group) const {
  for (Operation* op : groups_[group].ops) {
    for (mlir::Value operand : op->getOperands()) {
      Operation* producer = operand.getDefiningOp();
      while (producer && kindOf(producer) == OpKind::kView) producer = producer->getOperand(0).getDefiningOp();
      const auto found = producer ? group_of_.find(producer) : group_of_.end();
      if (found == group_of_.end() || found->second == group || !movesOnly(found->second)) continue;
      // A movement with other readers must stay.
      const GroupLink link = linkOf(found->second);
      if (link.reader == group && link.others.empty()) return found->second;
    }
  }
  return -1;
}

}  // namespace tessera::compiler
