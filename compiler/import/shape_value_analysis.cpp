#include "compiler/import/shape_value_analysis.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/import/evaluate.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"

namespace tessera::compiler {
namespace {

constexpr size_t kMaxOperations = 2000;
constexpr int64_t kMaxElements = 1024;
constexpr int64_t kMaxNear = 64;      // sizes at each end, over all ranges together
constexpr int64_t kMaxTried = 1024;   // sizes of a range when searching for a common multiple
constexpr int64_t kMinMultiples = 4;  // least number of accepted sizes for a multiple
constexpr int64_t kSteps = 1 << 16;   // scalar operations for one example
constexpr int64_t kMaxAlike = 256;    // operations compared before two extents count as different

/// Whether a block is @main or a loop body, and not a region of an operation inside.
bool isFunction(mlir::Block* block) { return mlir::isa_and_nonnull<mlir::func::FuncOp>(block->getParentOp()); }

/// Whether both values come from equal operations on equal values. `matched` caches values found equal.
bool computedAlike(mlir::Value a, mlir::Value b, llvm::DenseMap<mlir::Value, mlir::Value>& matched,
                   int64_t& operations) {
  if (a == b || matched.lookup(a) == b) return true;
  auto of_a = mlir::dyn_cast<mlir::OpResult>(a), of_b = mlir::dyn_cast<mlir::OpResult>(b);
  // The budget ends comparisons of long chains; unknown counts as different, which is safe.
  if (!of_a || !of_b || of_a.getResultNumber() != of_b.getResultNumber() || --operations < 0) return false;
  return mlir::OperationEquivalence::isEquivalentTo(
      of_a.getOwner(), of_b.getOwner(),
      [&](mlir::Value x, mlir::Value y) { return mlir::success(computedAlike(x, y, matched, operations)); },
      [&](mlir::Value x, mlir::Value y) { matched[x] = y; }, mlir::OperationEquivalence::IgnoreLocations);
}

}  // namespace

std::vector<std::vector<int64_t>> ShapeValueAnalysis::examples(const Ranges& ranges) {
  // The first example has all ranges at their bounds: callers take shapes from it.
  std::vector<int64_t> greatest;
  for (const RangeOf& range : ranges) greatest.push_back(range.most);
  std::vector<std::vector<int64_t>> examples = {greatest};
  // Covers every remainder modulo usual numbers of heads and block sizes, at both ends of a range.
  const auto count = static_cast<int64_t>(ranges.size());
  const int64_t near = std::clamp<int64_t>(kMaxNear / std::max<int64_t>(count, 1), 2, 16);
  for (int64_t r = 0; r < count; ++r) {
    const int64_t unit = ranges[r].multiple, most = ranges[r].most / unit;
    const int64_t before_least = std::max<int64_t>(ranges[r].least, 1) - 1;
    std::set<int64_t> sizes = {ranges[r].least, most / 3, most / 2, most / 2 + 1};
    for (int64_t i = 1; i <= near; ++i) sizes.insert({before_least + i, most - i});
    for (int64_t size : sizes) {
      if (size < ranges[r].least || size >= most) continue;
      examples.push_back(greatest);
      examples.back()[r] = size * unit;
    }
  }
  // Varies all ranges together: equally small, and with different sizes.
  // Equal sizes alone would not tell past + now from twice past.
  for (int64_t first = 0; first == 0 || (count > 1 && first <= 4); ++first) {
    examples.push_back(greatest);
    for (int64_t r = 0; r < count; ++r) {
      const int64_t before_least = std::max<int64_t>(ranges[r].least, 1) - 1;
      const int64_t units = before_least + (first == 0 ? 1 : first + r);
      examples.back()[r] = std::min(units * ranges[r].multiple, greatest[r]);
    }
  }
  return examples;
}

std::optional<std::vector<mlir::Operation*>> ShapeValueAnalysis::dependenciesOf(mlir::Value value,
                                                                                Ranges* data_extents) const {
  llvm::SetVector<mlir::Value> reached;
  llvm::SetVector<mlir::Operation*> operations;
  reached.insert(value);
  mlir::Block* body = value.getParentBlock();
  // A worklist: `reached` grows while it is read.
  for (size_t i = 0; i < reached.size(); ++i) {
    if (data_extents) {
      // An extent that depends on data ends the search: it varies independently, as another range.
      const auto known = data_extents_.find(reached[i]);
      if (known != data_extents_.end()) {
        data_extents->push_back({.dimension = -1, .count = known->first, .most = known->second, .least = 0});
        continue;
      }
    }
    // A value without operation is an argument. Known are a range's size and arguments of regions inside an operation.
    mlir::Operation* op = reached[i].getDefiningOp();
    if (!op) {
      const bool is_count =
          std::any_of(ranges_.begin(), ranges_.end(), [&](const RangeOf& range) { return range.count == reached[i]; });
      mlir::Block* owner = mlir::cast<mlir::BlockArgument>(reached[i]).getOwner();
      if (is_count || (owner != body && !isFunction(owner))) continue;
      // Any other argument of a function holds data.
      return std::nullopt;
    }
    // In the function around a loop's body, only constants count.
    if (op->getBlock() != body && isFunction(op->getBlock()) && !op->hasTrait<mlir::OpTrait::ConstantLike>())
      return std::nullopt;
    if ((op->getBlock() != body && !isFunction(op->getBlock())) || !operations.insert(op)) continue;
    // An operation with regions also depends on everything its body reads.
    op->walk([&](mlir::Operation* inner) {
      for (mlir::Value operand : inner->getOperands()) reached.insert(operand);
    });
  }
  return std::vector<mlir::Operation*>(operations.begin(), operations.end());
}

std::optional<std::vector<ConstantPtr>> ShapeValueAnalysis::evaluated(
    mlir::Value value, v1::DataType type, std::vector<mlir::Operation*> operations, const Ranges& ranges,
    const std::vector<std::vector<int64_t>>& examples) {
  auto shape = mlir::dyn_cast<mlir::RankedTensorType>(value.getType());
  // Larger values are data rather than shapes, and evaluating them for all examples would be slow.
  if (!shape || !shape.hasStaticShape() || shape.getNumElements() > kMaxElements) return std::nullopt;
  if (operations.size() > kMaxOperations) return std::nullopt;
  // Constants outside a loop's body first, then the body's operations in their order: each is cloned after its
  // operands.
  const auto inner = std::partition(operations.begin(), operations.end(), [&](mlir::Operation* op) {
    return op->getBlock() != value.getParentBlock();  // constants
  });
  std::sort(inner, operations.end(), [](mlir::Operation* a, mlir::Operation* b) { return a->isBeforeInBlock(b); });

  std::vector<ConstantPtr> results;
  for (const std::vector<int64_t>& sizes : examples) {
    mlir::OpBuilder b(value.getContext());
    mlir::OwningOpRef<mlir::ModuleOp> scratch(mlir::ModuleOp::create(b.getUnknownLoc()));
    b.setInsertionPointToEnd(scratch->getBody());
    mlir::IRMapping mapping;
    // Sets each range's count to this example's size; the cloned operations then have constant operands only.
    for (size_t r = 0; r < ranges.size(); ++r) {
      auto count = mlir::cast<mlir::RankedTensorType>(ranges[r].count.getType());
      mapping.map(ranges[r].count,
                  mlir::arith::ConstantOp::create(b, b.getUnknownLoc(), mlir::DenseElementsAttr::get(count, sizes[r]))
                      .getResult());
    }
    for (mlir::Operation* op : operations) b.clone(*op, mapping);
    int64_t steps = kSteps;
    auto constants = evaluate(*scratch->getBody(), {mapping.lookupOrDefault(value)}, {type}, steps);
    if (!constants) return std::nullopt;
    results.push_back(constants->front());
  }
  return results;
}

mlir::Value ShapeValueAnalysis::addExtent(mlir::Value count, int64_t most) {
  // Registers the extent under itself first: a later search returns its representative.
  const auto [known, fresh] = extents_.try_emplace(count, count);
  if (!fresh) return known->second;
  Ranges data_extents;
  // Depends on ranges alone (or on extents that are known): examples describe it, nothing has to be added.
  if (dependenciesOf(count, &data_extents)) return count;
  // Equal computations on equal data give equal extents: two NonZero of one tensor, for example.
  for (const auto& [other, other_most] : data_extents_) {
    llvm::DenseMap<mlir::Value, mlir::Value> matched;
    int64_t operations = kMaxAlike;
    if (other_most == most && mlir::Value(other).getParentBlock() == count.getParentBlock() &&
        computedAlike(other, count, matched, operations))
      return extents_[count] = other;
  }
  data_extents_.insert({count, most});
  known_by_data_.clear();  // values that were no shape values before
  return count;
}

std::optional<ShapeValueAnalysis::Ranges> ShapeValueAnalysis::rangesAndDataExtentsOf(mlir::Value value) const {
  Ranges data_extents;
  if (!value || data_extents_.empty() || !dependenciesOf(value, &data_extents) || data_extents.empty())
    return std::nullopt;
  Ranges all = ranges_;
  all.insert(all.end(), data_extents.begin(), data_extents.end());
  return all;
}

const std::vector<ConstantPtr>* ShapeValueAnalysis::examplesWithDataOf(mlir::Value value, v1::DataType type) {
  const auto known = known_by_data_.find(value);
  if (known != known_by_data_.end()) return known->second ? &*known->second : nullptr;
  // Without data behind the value the ordinary examples apply, which are cached.
  const auto ranges = rangesAndDataExtentsOf(value);
  if (!ranges) return examplesOf(value, type);
  Ranges ignored;
  auto found = evaluated(value, type, *dependenciesOf(value, &ignored), *ranges, examples(*ranges));
  const auto& kept = known_by_data_.try_emplace(value, std::move(found)).first->second;
  return kept ? &*kept : nullptr;
}

const std::vector<ConstantPtr>* ShapeValueAnalysis::examplesOf(mlir::Value value, v1::DataType type) {
  if (!value || ranges_.empty()) return nullptr;
  auto known = known_.find(value);
  if (known == known_.end()) {
    auto operations = dependenciesOf(value);
    auto found = operations ? evaluated(value, type, *std::move(operations), ranges_, examples(ranges_)) : std::nullopt;
    known = known_.try_emplace(value, std::move(found)).first;
  }
  return known->second ? &*known->second : nullptr;
}

std::optional<int64_t> ShapeValueAnalysis::constantValueOf(mlir::Value extent) {
  // A constant extent must be the same at all examples, and at the empty sizes that examples omit.
  const std::vector<ConstantPtr>* known = examplesOf(extent, v1::DATA_TYPE_I64);
  if (!known) return std::nullopt;
  const int64_t number = known->front()->integerAt(0);
  const auto isNumber = [&](const ConstantPtr& example) { return example->integerAt(0) == number; };
  if (!std::all_of(known->begin(), known->end(), isNumber)) return std::nullopt;
  // Other examples omit 0, because an extent of images or blocks at 0 usually differs from its formula elsewhere.
  std::vector<int64_t> greatest, least;
  for (const RangeOf& range : ranges_) {
    greatest.push_back(range.most);
    least.push_back(range.most == 1 ? 1 : 0);  // a range with bound 1 is covered exactly
  }
  std::vector<std::vector<int64_t>> sizes = {least};
  for (size_t r = 0; r < ranges_.size(); ++r) {
    sizes.push_back(greatest);
    sizes.back()[r] = least[r];
  }
  const auto of_nothing = evaluated(extent, v1::DATA_TYPE_I64, *dependenciesOf(extent), ranges_, sizes);
  if (!of_nothing || !std::all_of(of_nothing->begin(), of_nothing->end(), isNumber)) return std::nullopt;
  return number;
}

std::optional<int64_t> ShapeValueAnalysis::commonMultiple(size_t r, mlir::Value a, mlir::Value b) const {
  const RangeOf& range = ranges_[r];
  std::vector<std::vector<int64_t>> sizes;
  // Also tests sizes above the bound: equality at a few small sizes may be a coincidence.
  for (int64_t size = range.multiple; size <= kMaxTried; size += range.multiple) {
    sizes.emplace_back();
    for (const RangeOf& other : ranges_) sizes.back().push_back(other.most);
    sizes.back()[r] = size;
  }
  const auto at = [&](mlir::Value value) -> std::optional<std::vector<ConstantPtr>> {
    auto operations = dependenciesOf(value);
    if (!operations) return std::nullopt;
    return evaluated(value, v1::DATA_TYPE_I64, *std::move(operations), ranges_, sizes);
  };
  const auto of_a = at(a), of_b = at(b);
  if (!of_a || !of_b) return std::nullopt;
  const auto tried = static_cast<int64_t>(sizes.size());
  // Looks for the smallest step for which both agree at all multiples; several must have been tested.
  for (int64_t step = 1; kMinMultiples * step <= tried && step * range.multiple <= range.most; ++step) {
    bool all = range.most % (step * range.multiple) == 0;
    // Sizes below the least one are refused, so they need not agree.
    for (int64_t i = step - 1; i < tried && all; i += step)
      all = i + 1 < range.least ||
            (*of_a)[static_cast<size_t>(i)]->integers() == (*of_b)[static_cast<size_t>(i)]->integers();
    if (all) return step * range.multiple;
  }
  return std::nullopt;
}

bool ShapeValueAnalysis::restrictToEqual(mlir::Value a, mlir::Value b, const std::string& reason) {
  if (!a || !b || !dependsOnRangesOnly(a) || !dependsOnRangesOnly(b)) return false;
  // Either all ranges get a multiple under which both extents agree, or none changes.
  const std::vector<RangeOf> before = ranges_;
  for (size_t r = 0; r < before.size(); ++r) {
    const std::optional<int64_t> multiple = commonMultiple(r, a, b);
    if (!multiple) {
      ranges_ = before;
      return false;
    }
    const int64_t least = ranges_[r].least * ranges_[r].multiple;
    ranges_[r].least = (least + *multiple - 1) / *multiple;
    ranges_[r].multiple = *multiple;
  }
  // Cached examples used the old multiples, so the comparison must not see them.
  decltype(known_) known;
  std::swap(known, known_);
  if (!same(a, b)) {
    ranges_ = before;
    known_ = std::move(known);
    return false;
  }
  // Reports only ranges that became narrower: the runtime refuses other sizes with this reason.
  for (size_t r = 0; r < before.size(); ++r) {
    const RangeOf& range = ranges_[r];
    if (range.multiple == before[r].multiple) continue;
    v1::RefusedSizes& sizes = refused_.emplace_back();
    sizes.set_dimension(range.dimension);
    sizes.set_first(1);
    sizes.set_last(range.most);
    sizes.set_multiple(range.multiple);
    sizes.set_reason(absl::StrCat(reason, range.multiple));
  }
  return true;
}

void ShapeValueAnalysis::raiseLeast(int dimension, int64_t refused_from, int64_t least) {
  for (RangeOf& range : ranges_) {
    const int64_t units = (least + range.multiple - 1) / range.multiple;
    if (range.dimension != dimension || refused_from > range.least * range.multiple || units <= range.least) continue;
    if (units * range.multiple > range.most) continue;  // no run is left, and the bound has to be an example
    range.least = units;
    known_.clear();
    known_by_data_.clear();
  }
}

bool ShapeValueAnalysis::same(mlir::Value a, mlir::Value b) {
  if (a == b) return true;
  std::optional<std::vector<ConstantPtr>> of_a, of_b;
  if (rangesAndDataExtentsOf(a) || rangesAndDataExtentsOf(b)) {
    // Compares at common examples, which vary all extents that either depends on.
    Ranges data_extents;
    auto behind_a = dependenciesOf(a, &data_extents), behind_b = dependenciesOf(b, &data_extents);
    if (!behind_a || !behind_b) return false;
    Ranges ranges = ranges_;
    for (const RangeOf& range : data_extents) {
      const auto isSame = [&](const RangeOf& other) { return other.count == range.count; };
      if (std::none_of(ranges.begin(), ranges.end(), isSame)) ranges.push_back(range);
    }
    const auto sizes = examples(ranges);
    of_a = evaluated(a, v1::DATA_TYPE_I64, *std::move(behind_a), ranges, sizes);
    of_b = evaluated(b, v1::DATA_TYPE_I64, *std::move(behind_b), ranges, sizes);
  } else {
    const auto copied = [&](mlir::Value value) -> std::optional<std::vector<ConstantPtr>> {
      const std::vector<ConstantPtr>* known = examplesOf(value, v1::DATA_TYPE_I64);
      return known ? std::optional(*known) : std::nullopt;  // the next call may move it
    };
    of_a = copied(a);
    if (of_a) of_b = copied(b);
  }
  return of_a && of_b &&
         std::equal(of_a->begin(), of_a->end(), of_b->begin(), of_b->end(),
                    [](const ConstantPtr& p, const ConstantPtr& q) { return p->integers() == q->integers(); });
}

}  // namespace tessera::compiler
