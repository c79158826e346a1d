#include "compiler/graph/slices/chain_of_groups.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/graph/analysis/element_type.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/permutation.h"
#include "compiler/graph/analysis/summary.h"
#include "compiler/graph/layout/interleave_products.h"
#include "compiler/graph/slices/softmax_of_groups.h"
#include "llvm/ADT/SetVector.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Operation;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::LinalgOp;

/// Limits the search: shorter loops are not cut.
constexpr int64_t kShort = 64;

template <typename... Parts>
absl::Status notAChain(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

int64_t elementBytes(Value value) {
  return bytesPerElement(mlir::cast<RankedTensorType>(value.getType()).getElementType());
}

double pointsOf(LinalgOp op) {
  double points = 1;
  for (int64_t extent : op.getStaticLoopRanges()) points *= static_cast<double>(extent);
  return points;
}

bool isMember(Operation* op) { return kindOf(op) == OpKind::kHeavy; }

/// Whether slices only move elements of `value` from outside, by transposes, paddings and views.
bool isMoved(const AccessTrace& trace, Value value) {
  if (!trace.made(value)) return true;
  Operation* op = value.getDefiningOp();
  auto generic = mlir::dyn_cast<mlir::linalg::GenericOp>(op);
  if (generic ? !isCheapToRepeat(generic) : kindOf(op) != OpKind::kView && kindOf(op) != OpKind::kPad) return false;
  return isMoved(trace, generic ? generic.getDpsInputs()[0] : op->getOperand(0));
}
bool isReduction(Operation* op) { return kindOf(op) == OpKind::kReduction; }

/// Builds a chain from the trace of all operations, first member first.
class ChainBuilder {
 public:
  ChainBuilder(const AccessTrace& trace, std::span<const Group* const> groups, const Chip& chip)
      : trace_(trace), chip_(chip) {
    for (const Group* group : groups) {
      if (std::ranges::any_of(group->ops, isMember)) continue;
      if (group == groups.back() && std::ranges::any_of(group->ops, isReduction)) {
        normalizing_ = group;
        continue;
      }
      if (group == groups.front() || group == groups.back()) {
        (group == groups.front() ? before_ : behind_) = group;
        continue;
      }
      rows_.insert(group->ops.begin(), group->ops.end());
      ++result_.between.steps;
    }
  }

  absl::StatusOr<GroupChain> run();

 private:
  absl::Status addMember(LinalgOp op);
  void addNormalization();
  void findLeft();
  bool leaves(Value value) const;
  int memberBehind(Value value) const;
  int addTensor(Value value, const Subscripts& subscripts);
  void addReads();
  void countBetween();
  void countMoved();
  void findWindows();

  const AccessTrace& trace_;
  const Chip& chip_;
  GroupChain result_;
  const Group* before_ = nullptr;       ///< moves the first member's operand
  const Group* behind_ = nullptr;       ///< moves the last member's result
  const Group* normalizing_ = nullptr;  ///< normalizes whole rows of the last result: an additional member
  llvm::SmallPtrSet<Operation*, 32> rows_;
  llvm::DenseMap<Operation*, int> member_of_;
};

/// Returns the last member that `value` depends on, -1 for none.
int ChainBuilder::memberBehind(Value value) const {
  Operation* op = value.getDefiningOp();
  if (!op || !trace_.made(value)) return -1;
  if (auto member = member_of_.find(op); member != member_of_.end()) return member->second;
  int last = -1;
  for (Value operand : op->getOperands()) last = std::max(last, memberBehind(operand));
  return last;
}

int ChainBuilder::addTensor(Value value, const Subscripts& subscripts) {
  loopnest::Access access{.name = absl::StrCat("t", result_.chain.accesses.size()),
                          .dtype = dataTypeOf(mlir::cast<RankedTensorType>(value.getType()).getElementType())};
  for (const Terms& terms : subscripts) access.subscripts.push_back({.terms = terms});
  result_.chain.accesses.push_back(std::move(access));
  return static_cast<int>(result_.chain.accesses.size()) - 1;
}

absl::Status ChainBuilder::addMember(LinalgOp op) {
  loopnest::Statement member;
  member.body.opaque = true;
  const auto index = static_cast<int>(result_.chain.statements.size());
  member.name = absl::StrCat("member", index);
  member.body.flops = static_cast<double>(flopsOf(op)) / pointsOf(op);
  if (auto generic = mlir::dyn_cast<mlir::linalg::GenericOp>(op.getOperation()))
    // Instructions for narrow products make their arithmetic cheaper.
    member.body.flops *= instructedShare(generic, chip_);
  for (const Terms& subscript : trace_.iterations(op)) {
    for (const loopnest::Term& term : subscript) member.loops.push_back(term.loop);
  }
  for (mlir::OpOperand* input : op.getDpsInputOperands()) {
    // The member whose result this operand is, through operations in between.
    if (const int behind = memberBehind(input->get()); behind >= 0) {
      member.inputs.push_back(result_.chain.statements[behind].output);
    } else if (trace_.made(input->get())) {
      member.inputs.push_back(
          addTensor(input->get(), trace_.needed(input->get())));  // prepared by operations before the product
    }
  }
  member.output = addTensor(op->getResult(0), trace_.needed(op->getResult(0)));
  member_of_[op] = index;
  result_.chain.statements.push_back(std::move(member));
  return absl::OkStatus();
}

/// Adds all operations on the rows as one member: in memory are only its initial operand and its final result.
void ChainBuilder::addNormalization() {
  loopnest::Statement member;
  member.body.opaque = true;
  const auto index = static_cast<int>(result_.chain.statements.size());
  member.name = absl::StrCat("member", index);
  double work = 0;
  for (Operation* op : normalizing_->ops) {
    auto linalg_op = mlir::dyn_cast<LinalgOp>(op);
    if (!linalg_op) continue;
    work += vectorWork(linalg_op);
    for (const Terms& subscript : trace_.iterations(op))
      for (const loopnest::Term& term : subscript)
        if (std::ranges::count(member.loops, term.loop) == 0) member.loops.push_back(term.loop);
    for (mlir::OpOperand* input : linalg_op.getDpsInputOperands()) {
      const int behind = memberBehind(input->get());
      if (behind < 0 || behind == index) continue;
      const int tensor = result_.chain.statements[behind].output;
      if (std::ranges::count(member.inputs, tensor) == 0) member.inputs.push_back(tensor);
    }
    member_of_[op] = index;
  }
  double points = 1;
  for (int loop : member.loops) points *= static_cast<double>(trace_.space().loops()[loop].extent);
  member.body.flops = work / points;
  const Value result = trace_.ops().back()->getResult(0);
  member.output = addTensor(result, trace_.needed(result));
  result_.chain.statements.push_back(std::move(member));
}

/// Whether an operation outside reads `value`, directly or through views.
bool ChainBuilder::leaves(Value value) const {
  return llvm::any_of(value.getUsers(), [&](Operation* user) {
    if (kindOf(user) == OpKind::kView) return leaves(user->getResult(0));
    return !llvm::is_contained(trace_.ops(), value.getParentBlock()->findAncestorOpInBlock(*user));
  });
  // Views count as the operations that read them.
}

/// Finds results before the last one that are read outside, and the dimensions along which they can be sliced like the
/// last one.
void ChainBuilder::findLeft() {
  for (Operation* op : trace_.ops()) {
    if (op == trace_.ops().back() || kindOf(op) == OpKind::kView || !leaves(op->getResult(0))) continue;
    const Value value = op->getResult(0);
    const int behind = memberBehind(value);
    if (behind >= 0) result_.between.also_written.push_back(result_.chain.statements[behind].output);
    result_.also_written.push_back(value);
    const Subscripts& needed = trace_.needed(value);
    // A result that is left over must be sliced by the same loops.
    std::erase_if(result_.cuts, [&](const AccessTrace::Cut& cut) {
      if (cut.dimension >= static_cast<int>(needed.size())) return true;
      const Terms& own = needed[cut.dimension];
      const auto at = std::ranges::find(own, cut.loop, &loopnest::Term::loop);
      return at == own.end() || at->coefficient != cut.stride;
    });
  }
}

/// Counts passes over intermediates and arithmetic of operations outside the members' own groups.
void ChainBuilder::countBetween() {
  llvm::SetVector<Value> passing;
  for (Operation* op : trace_.ops()) {
    auto linalg_op = mlir::dyn_cast<LinalgOp>(op);
    if (!linalg_op || member_of_.contains(op)) continue;
    const double points = pointsOf(linalg_op);
    result_.between.flops += vectorWork(linalg_op);
    if (!rows_.contains(op)) continue;
    // Work between products is counted even if it passes no memory.
    // Within a group of rows a row stays in the cache, so only values that enter and leave the group count.
    auto whole = [&](Value value) {
      auto type = mlir::dyn_cast<RankedTensorType>(value.getType());
      return type && static_cast<double>(type.getNumElements()) == points;
    };
    // A value that several operations of the group pass counts once.
    auto moves = [&](Value value, bool passes) {
      if (!whole(value)) return;
      if (!passes || !passing.insert(value))
        result_.between.row_bytes += points * static_cast<double>(elementBytes(value));
    };
    for (mlir::OpOperand* input : linalg_op.getDpsInputOperands())
      moves(input->get(), !rows_.contains(input->get().getDefiningOp()));
    moves(op->getResult(0), !llvm::all_of(op->getUsers(), [&](Operation* user) { return rows_.contains(user); }));
  }
  result_.between.passes = static_cast<double>(passing.size());
}

/// Whether a group changes the order of elements, so that contiguous reads are not contiguous writes.
bool turns(const Group& group) {
  return llvm::any_of(group.ops, [](Operation* op) {
    auto generic = mlir::dyn_cast<mlir::linalg::GenericOp>(op);
    return generic && !permutationOf(generic).empty();
  });
}

void ChainBuilder::countMoved() {
  const loopnest::Statement &first = result_.chain.statements.front(), &last = result_.chain.statements.back();
  // The value made before the first member is its first operand.
  if (before_) result_.between.layout_copies.push_back({first.inputs[0], turns(*before_)});
  if (behind_) result_.between.layout_copies.push_back({last.output, turns(*behind_)});
}

/// An outer value is an operand of a member, or of an operation after one.
void ChainBuilder::addReads() {
  for (const AccessTrace::Read& read : trace_.reads()) {
    const auto own = member_of_.find(read.reader);
    const int member = own != member_of_.end() ? own->second : memberBehind(read.reader->getResult(0));
    if (member < 0) continue;  // part of preparing a member's operand
    loopnest::Statement& at = result_.chain.statements[member];
    const Subscripts& subscripts = trace_.space().at(read.held);
    // A value that varies with loops of other members is no operand of this one.
    const bool reachable = llvm::all_of(subscripts, [&](const Terms& subscript) {
      return std::ranges::all_of(
          subscript, [&](const loopnest::Term& term) { return std::ranges::count(at.loops, term.loop) > 0; });
    });
    if (reachable) at.inputs.push_back(addTensor(read.value, subscripts));
  }
}

void ChainBuilder::findWindows() {
  for (const loopnest::Access& tensor : result_.chain.accesses) {
    for (const AccessTrace::Cut& cut : result_.cuts) {
      for (const loopnest::Subscript& subscript : tensor.subscripts) {
        const auto at = std::ranges::find(subscript.terms, cut.loop, &loopnest::Term::loop);
        // Several terms, or a stride, mean that slices overlap.
        if (at != subscript.terms.end() && (subscript.terms.size() > 1 || at->coefficient > 1)) result_.windows = true;
      }
    }
  }
}

absl::StatusOr<GroupChain> ChainBuilder::run() {
  result_.ops = trace_.ops();
  result_.cuts = trace_.cuts();
  result_.chain.loops = trace_.space().loops();
  for (size_t loop = 0; loop < result_.chain.loops.size(); ++loop) {
    loopnest::Loop& at = result_.chain.loops[loop];
    // Short loops that no cut divides need no tiles of their own.
    const bool cut = std::ranges::count(result_.cuts, static_cast<int>(loop), &AccessTrace::Cut::loop) > 0;
    at.whole = at.whole || (!cut && at.extent <= kShort);
  }
  for (Operation* op : trace_.ops()) {
    if (!isMember(op)) continue;
    TESSERA_RETURN_IF_ERROR(addMember(mlir::cast<LinalgOp>(op)));
  }
  if (normalizing_ && !result_.chain.statements.empty()) addNormalization();
  if (result_.chain.statements.size() < 2) return notAChain("fewer than two products");
  findLeft();
  addReads();
  countBetween();
  countMoved();
  // Only the last product can run along a softmax.
  for (Operation* op : trace_.ops()) {
    auto found = member_of_.find(op);
    if (found == member_of_.end() || normalizing_ ||
        found->second + 1 != static_cast<int>(result_.chain.statements.size()))
      continue;
    auto product = mlir::cast<LinalgOp>(op);
    result_.between.softmax_loop = softmaxLoop(trace_, product);
    if (result_.between.softmax_loop < 0) continue;
    result_.masked = maskedScores(trace_, product, result_.between.softmax_loop);
    if (result_.masked)
      result_.between.unmasked_share = [masked = *result_.masked](const fusion::Tiles& tiles) {
        return keptShare(masked, tiles);
      };
  }
  findWindows();
  TESSERA_RETURN_IF_ERROR(fusion::validateChain(result_.chain));
  return std::move(result_);
}

}  // namespace

absl::Status checkOperands(const AccessTrace& trace) {
  for (Operation* op : trace.ops()) {
    if (!isMember(op)) continue;
    auto member = mlir::cast<LinalgOp>(op);
    const bool product =
        llvm::all_of(member.getIndexingMapsArray(), [](mlir::AffineMap map) { return map.isProjectedPermutation(); });
    const Subscripts& result = trace.needed(op->getResult(0));
    // The dimension along which a product's vectors go.
    const auto innermost = std::find_if(result.rbegin(), result.rend(), [](const auto& s) { return !s.empty(); });
    if (!product || innermost == result.rend()) continue;
    for (mlir::OpOperand* input : member.getDpsInputOperands()) {
      if (isMoved(trace, input->get())) continue;
      for (const Terms& subscript : trace.needed(input->get())) {
        for (const loopnest::Term& term : subscript) {
          // Slices of the intermediate would be too narrow for vectors.
          if (std::ranges::count(*innermost, term.loop, &loopnest::Term::loop) > 0) {
            return notAChain("the intermediate is the right operand of a product");
          }
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<GroupChain> chainOfGroups(std::span<const Group* const> groups, std::span<mlir::Operation* const> links,
                                         const Chip& chip) {
  std::vector<Operation*> ops(links.begin(), links.end());
  for (const Group* group : groups) ops.insert(ops.end(), group->ops.begin(), group->ops.end());
  TESSERA_ASSIGN_OR_RETURN(auto trace, AccessTrace::of(inProgramOrder(std::move(ops))));
  TESSERA_RETURN_IF_ERROR(checkOperands(trace));
  return ChainBuilder(trace, groups, chip).run();
}

}  // namespace tessera::compiler
