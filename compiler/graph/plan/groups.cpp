#include "compiler/graph/plan/groups.h"

#include "compiler/graph/analysis/channel_block.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/permutation.h"
#include "compiler/graph/analysis/stage_attributes.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler {
namespace {

/// Bounds the compile time of one workload; real models stay below it.
constexpr size_t kMaxGroupOps = 24;

struct OpenGroup {
  std::vector<mlir::Operation*> ops;  // in program order; empty once absorbed
  bool heavy = false;                 // has a root that reads its inputs many times, or an opaque operation
  bool closed = false;                // accepts no further operation
};

class GroupBuilder {
 public:
  std::vector<Group> run(mlir::func::FuncOp main);

 private:
  void visit(mlir::Operation* op, OpKind kind);
  /// Returns the group of the stage before `op` in a rewritten convolution.
  llvm::SmallSetVector<int, 4> earlierStage(mlir::Operation* op);
  llvm::SmallSetVector<int, 4> joinable(mlir::Operation* op, OpKind kind);
  /// Returns the groups of one transpose each that only `product` reads, directly or through views; adds the views to
  /// `ops`.
  llvm::SmallSetVector<int, 4> packsFor(mlir::Operation* product, std::vector<mlir::Operation*>& views);
  /// Whether only `op` and groups in `candidates` read the group's values.
  bool readOnlyWithin(int group, mlir::Operation* op, const llvm::SmallSetVector<int, 4>& candidates);

  std::vector<OpenGroup> groups_;
  llvm::DenseMap<mlir::Operation*, int> group_of_;
};

bool GroupBuilder::readOnlyWithin(int group, mlir::Operation* op, const llvm::SmallSetVector<int, 4>& candidates) {
  for (mlir::Operation* member : groups_[group].ops) {
    for (mlir::Operation* user : member->getUsers()) {
      // A reader inside a region (a captured tensor) counts as the operation that owns the region.
      while (user->getBlock() != member->getBlock()) user = user->getParentOp();
      if (user == op) continue;
      auto it = group_of_.find(user);
      if (it == group_of_.end()) return false;
      if (it->second != group && !candidates.contains(it->second)) return false;
    }
  }
  return true;
}

/// Returns the groups that `op` reads and could join; empty: it starts a new group.
llvm::SmallSetVector<int, 4> GroupBuilder::joinable(mlir::Operation* op, OpKind kind) {
  llvm::SmallSetVector<int, 4> candidates;
  int heavy = -1;
  auto consider = [&](mlir::OpOperand& operand, bool same_points) {
    mlir::Operation* producer = operand.get().getDefiningOp();
    auto it = producer ? group_of_.find(producer) : group_of_.end();
    // Closed groups, such as paddings, take no further operations.
    if (it == group_of_.end() || groups_[it->second].closed) return;
    if (!groups_[it->second].heavy) {
      candidates.insert(it->second);
    } else if (same_points) {
      heavy = std::max(heavy, it->second);  // at most one heavy root: the latest one
    }
  };
  if (auto concat = mlir::dyn_cast<mlir::tensor::ConcatOp>(op)) {
    // The producers of contiguous parts write them in place, from any group.
    const auto outer = concat.getResultType().getShape().take_front(concat.getDim());
    if (llvm::all_of(outer, [](int64_t extent) { return extent == 1; })) return candidates;
    for (mlir::OpOperand& part : concat->getOpOperands()) {
      mlir::Operation* producer = part.get().getDefiningOp();
      if (producer && mlir::isa<mlir::linalg::LinalgOp>(producer)) consider(part, false);
    }
  } else if (kind == OpKind::kPad) {
    mlir::OpOperand& source = op->getOpOperand(0);
    mlir::Operation* producer = source.get().getDefiningOp();
    // Codegen writes the interior of the padded buffer directly, so the producer must be a loop nest.
    if (producer && mlir::isa<mlir::linalg::LinalgOp>(producer)) consider(source, true);
  } else {
    auto linalg_op = mlir::cast<mlir::linalg::LinalgOp>(op);
    for (mlir::OpOperand* input : linalg_op.getDpsInputOperands()) {
      consider(*input, kind == OpKind::kElementwise && isIdentityAccess(linalg_op, input));
    }
  }
  // A heavy root and its followers must have no other reader; light groups may feed each other.
  if (heavy >= 0) {
    llvm::SmallSetVector<int, 4> only;
    // A follower joins the heavy operation alone; lighter operands are read from memory.
    only.insert(heavy);
    if (readOnlyWithin(heavy, op, only) && groups_[heavy].ops.size() < kMaxGroupOps) return only;
  }
  // Removing a candidate may disqualify others that it read from.
  for (bool changed = true; changed;) {
    changed = false;
    for (int candidate : llvm::SmallVector<int>(candidates.begin(), candidates.end())) {
      if (readOnlyWithin(candidate, op, candidates)) continue;
      candidates.remove(candidate);
      changed = true;
    }
  }
  size_t size = 1;
  for (int candidate : candidates) size += groups_[candidate].ops.size();
  if (size > kMaxGroupOps) candidates.clear();
  return candidates;
}

llvm::SmallSetVector<int, 4> GroupBuilder::packsFor(mlir::Operation* product, std::vector<mlir::Operation*>& views) {
  llvm::SmallSetVector<int, 4> packs;
  auto generic = mlir::dyn_cast<mlir::linalg::GenericOp>(product);
  // Only a product packs its operands.
  if (!generic || !isProduct(generic)) return packs;
  for (mlir::Value operand : generic.getDpsInputs()) {
    std::vector<mlir::Operation*> between;
    mlir::Operation* producer = operand.getDefiningOp();
    // Views between the transpose and the product come along.
    while (producer && producer->hasOneUse() && kindOf(producer) == OpKind::kView) {
      between.push_back(producer);
      producer = producer->getOperand(0).getDefiningOp();
    }
    if (!producer || !producer->hasOneUse() || permutationOf(producer).empty()) continue;
    // The transform between two layouts is a separate step and is counted as one.
    if (producer->hasAttr(kLayoutTransform)) continue;
    auto it = group_of_.find(producer);
    // A transpose that has other work in its group is no pack.
    if (it == group_of_.end() || groups_[it->second].ops.size() != 1) continue;
    packs.insert(it->second);
    views.insert(views.end(), between.begin(), between.end());
  }
  return packs;
}

llvm::SmallSetVector<int, 4> GroupBuilder::earlierStage(mlir::Operation* op) {
  llvm::SmallSetVector<int, 4> stages;
  // Stages of one transformed convolution form one group.
  for (mlir::Value operand : op->getOperands()) {
    mlir::Operation* producer = operand.getDefiningOp();
    auto it = producer ? group_of_.find(producer) : group_of_.end();
    if (it != group_of_.end() && producer->getAttr(kStageOf) == op->getAttr(kStageOf)) stages.insert(it->second);
  }
  return stages;
}

void GroupBuilder::visit(mlir::Operation* op, OpKind kind) {
  llvm::SmallSetVector<int, 4> joined;
  OpenGroup merged;
  if (kind == OpKind::kElementwise || kind == OpKind::kReduction || kind == OpKind::kPad ||
      mlir::isa<mlir::tensor::ConcatOp>(op)) {
    joined = joinable(op, kind);
  }
  if (kind == OpKind::kHeavy) joined = op->hasAttr(kStageOf) ? earlierStage(op) : packsFor(op, merged.ops);
  // Merging empties the old groups, whose numbers stay unused.
  for (int group : joined) {
    OpenGroup& part = groups_[group];
    merged.ops.insert(merged.ops.end(), part.ops.begin(), part.ops.end());
    merged.heavy |= part.heavy;
    part.ops.clear();
  }
  // Operations keep their order in the function.
  std::sort(merged.ops.begin(), merged.ops.end(),
            [](mlir::Operation* a, mlir::Operation* b) { return a->isBeforeInBlock(b); });
  merged.ops.push_back(op);
  merged.heavy |= kind == OpKind::kHeavy || kind == OpKind::kOpaque;
  merged.closed = kind == OpKind::kPad || kind == OpKind::kOpaque;
  const int id = static_cast<int>(groups_.size());
  for (mlir::Operation* member : merged.ops) group_of_[member] = id;
  groups_.push_back(std::move(merged));
}

std::vector<Group> GroupBuilder::run(mlir::func::FuncOp main) {
  for (mlir::Operation& op : main.getBody().front().without_terminator()) {
    const OpKind kind = kindOf(&op);
    if (kind != OpKind::kView && kind != OpKind::kSlice && kind != OpKind::kCloned) visit(&op, kind);
  }
  std::vector<Group> result;
  for (size_t id = 0; id < groups_.size(); ++id) {
    // Merged into another group.
    if (groups_[id].ops.empty()) continue;
    Group group{std::move(groups_[id].ops), {}, {}};
    for (mlir::Operation* op : group.ops) {
      for (mlir::Value value : op->getResults()) {
        const bool read_outside = llvm::any_of(value.getUsers(), [&](mlir::Operation* user) {
          while (user->getBlock() != op->getBlock()) user = user->getParentOp();
          auto it = group_of_.find(user);
          return it == group_of_.end() || it->second != static_cast<int>(id);
        });
        if (read_outside) group.results.push_back(value);
      }
    }
    if (!group.results.empty()) result.push_back(std::move(group));
  }
  return result;
}

}  // namespace

std::vector<Group> formGroups(mlir::func::FuncOp main) { return GroupBuilder().run(main); }

}  // namespace tessera::compiler
