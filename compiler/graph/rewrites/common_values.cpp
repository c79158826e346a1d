#include "compiler/graph/rewrites/common_values.h"

#include <unordered_map>
#include <vector>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/Hashing.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tessera::compiler {
namespace {

using mlir::Operation;
using mlir::OperationEquivalence;
using mlir::Value;

thread_local int64_t compared = 0;

/// Hashes values defined inside the operation by position, other values by identity.
class Hasher {
 public:
  llvm::hash_code of(Operation* op) {
    llvm::hash_code hash = OperationEquivalence::computeHash(
        op, [this](Value value) { return ofValue(value); }, OperationEquivalence::ignoreHashValue,
        OperationEquivalence::IgnoreLocations);
    for (mlir::Region& region : op->getRegions()) {
      for (mlir::Block& block : region) {
        // Numbers make a body's hash independent of where its values lie in memory.
        for (mlir::BlockArgument argument : block.getArguments()) {
          hash = llvm::hash_combine(hash, argument.getType());
          number(argument);
        }
        for (Operation& inner : block) {
          hash = llvm::hash_combine(hash, of(&inner));
          for (Value result : inner.getResults()) number(result);
        }
      }
    }
    return hash;
  }

 private:
  void number(Value value) { places_.try_emplace(value, places_.size()); }
  llvm::hash_code ofValue(Value value) const {
    const auto inside = places_.find(value);
    return inside == places_.end() ? mlir::hash_value(value) : llvm::hash_value(inside->second);
  }

  llvm::DenseMap<Value, size_t> places_;
};

class Merger {
 public:
  bool run(mlir::Block& block) {
    const size_t outer = order_.size();
    for (Operation& op : llvm::make_early_inc_range(block)) visit(&op);
    // Values of a body are out of scope after it.
    for (; order_.size() > outer; order_.pop_back()) {
      auto& equals = known_[order_.back()];
      equals.pop_back();
      if (equals.empty()) known_.erase(order_.back());
    }
    return changed_;
  }

 private:
  void visit(Operation* op) {
    if (op->hasTrait<mlir::OpTrait::IsTerminator>()) return;
    if (mlir::isOpTriviallyDead(op)) {
      op->erase();
      changed_ = true;
      return;
    }
    // Bodies come first: equal bodies have equal hashes only after their own duplicates are merged.
    for (mlir::Region& region : op->getRegions())
      if (region.hasOneBlock()) run(region.front());
    if (!mlir::isMemoryEffectFree(op) || op->getNumResults() == 0) return;
    const auto hash = static_cast<size_t>(Hasher().of(op));
    // Usually one entry: the hash covers everything that equivalence compares.
    for (Operation* other : known_[hash]) {
      ++compared;
      if (!OperationEquivalence::isEquivalentTo(other, op, OperationEquivalence::IgnoreLocations)) continue;
      // The later one disappears; the earlier one dominates its readers.
      op->replaceAllUsesWith(other);
      op->erase();
      changed_ = true;
      return;
    }
    known_[hash].push_back(op);
    order_.push_back(hash);
  }

  std::unordered_map<size_t, std::vector<Operation*>> known_;
  std::vector<size_t> order_;  // of entries in `known_`
  bool changed_ = false;
};

}  // namespace

bool mergeCommonValues(mlir::func::FuncOp main) { return Merger().run(main.getBody().front()); }

int64_t comparedOperations() { return compared; }

}  // namespace tessera::compiler
