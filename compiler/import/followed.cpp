#include "compiler/import/followed.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/import/evaluate.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"

namespace tessera::compiler {
namespace {

constexpr size_t kMostOperations = 2000;
constexpr int64_t kMostElements = 1024;
constexpr int64_t kMostNear = 64;       // sizes at each end of the ranges together
constexpr int64_t kMostTried = 1024;    // sizes of a range in search of what they have to be multiples of
constexpr int64_t kLeastMultiples = 4;  // of what is found
constexpr int64_t kSteps = 1 << 16;     // scalar operations for one example

}  // namespace

std::vector<std::vector<int64_t>> FollowedValues::examples() const {
  std::vector<int64_t> greatest;
  for (const RangeOf& range : ranges_) greatest.push_back(range.most);
  std::vector<std::vector<int64_t>> examples = {greatest};
  // Every remainder by what heads and blocks usually are, at both ends of a range.
  const auto ranges = static_cast<int64_t>(ranges_.size());
  const int64_t near = std::clamp<int64_t>(kMostNear / std::max<int64_t>(ranges, 1), 2, 16);
  for (int64_t r = 0; r < ranges; ++r) {
    const int64_t unit = ranges_[r].multiple, most = ranges_[r].most / unit;
    std::set<int64_t> sizes = {most / 3, most / 2, most / 2 + 1};
    for (int64_t i = 1; i <= near; ++i) sizes.insert({i, most - i});
    for (int64_t size : sizes) {
      if (size < 1 || size >= most) continue;
      examples.push_back(greatest);
      examples.back()[r] = size * unit;
    }
  }
  // All at once: equally small, and of different sizes.
  for (int64_t first = 0; first == 0 || (ranges > 1 && first <= 4); ++first) {
    examples.push_back(greatest);
    for (int64_t r = 0; r < ranges; ++r)
      examples.back()[r] = std::min((first == 0 ? 1 : first + r) * ranges_[r].multiple, greatest[r]);
  }
  return examples;
}

std::optional<std::vector<mlir::Operation*>> FollowedValues::operationsBehind(mlir::Value value) const {
  llvm::SetVector<mlir::Value> reached;
  llvm::SetVector<mlir::Operation*> operations;
  reached.insert(value);
  mlir::Block* body = value.getParentBlock();
  for (size_t i = 0; i < reached.size(); ++i) {
    mlir::Operation* op = reached[i].getDefiningOp();
    if (!op) {
      const bool is_count =
          std::any_of(ranges_.begin(), ranges_.end(), [&](const RangeOf& range) { return range.count == reached[i]; });
      if (is_count || mlir::cast<mlir::BlockArgument>(reached[i]).getOwner() != body) continue;
      return std::nullopt;
    }
    if (op->getBlock() != body || !operations.insert(op)) continue;
    op->walk([&](mlir::Operation* inner) {
      for (mlir::Value operand : inner->getOperands()) reached.insert(operand);
    });
  }
  return std::vector<mlir::Operation*>(operations.begin(), operations.end());
}

std::optional<std::vector<ConstantPtr>> FollowedValues::evaluated(
    mlir::Value value, v1::DataType type, const std::vector<std::vector<int64_t>>& examples) const {
  auto shape = mlir::dyn_cast<mlir::RankedTensorType>(value.getType());
  if (!shape || !shape.hasStaticShape() || shape.getNumElements() > kMostElements) return std::nullopt;
  const auto operations = operationsBehind(value);
  if (!operations || operations->size() > kMostOperations) return std::nullopt;
  std::vector<mlir::Operation*> ordered = *operations;
  std::sort(ordered.begin(), ordered.end(),
            [](mlir::Operation* a, mlir::Operation* b) { return a->isBeforeInBlock(b); });

  std::vector<ConstantPtr> results;
  for (const std::vector<int64_t>& sizes : examples) {
    mlir::OpBuilder b(value.getContext());
    mlir::OwningOpRef<mlir::ModuleOp> scratch(mlir::ModuleOp::create(b.getUnknownLoc()));
    b.setInsertionPointToEnd(scratch->getBody());
    mlir::IRMapping mapping;
    for (size_t r = 0; r < ranges_.size(); ++r) {
      auto count = mlir::cast<mlir::RankedTensorType>(ranges_[r].count.getType());
      mapping.map(ranges_[r].count,
                  mlir::arith::ConstantOp::create(b, b.getUnknownLoc(), mlir::DenseElementsAttr::get(count, sizes[r]))
                      .getResult());
    }
    for (mlir::Operation* op : ordered) b.clone(*op, mapping);
    int64_t steps = kSteps;
    auto constants = evaluate(*scratch->getBody(), {mapping.lookupOrDefault(value)}, {type}, steps);
    if (!constants) return std::nullopt;
    results.push_back(constants->front());
  }
  return results;
}

const std::vector<ConstantPtr>* FollowedValues::examplesOf(mlir::Value value, v1::DataType type) {
  if (!value || ranges_.empty()) return nullptr;
  auto known = known_.find(value);
  if (known == known_.end()) known = known_.try_emplace(value, evaluated(value, type, examples())).first;
  return known->second ? &*known->second : nullptr;
}

std::optional<int64_t> FollowedValues::multipleOf(size_t r, mlir::Value a, mlir::Value b) const {
  const RangeOf& range = ranges_[r];
  std::vector<std::vector<int64_t>> sizes;
  // Above the greatest size, too: a coincidence at a few small ones is no rule.
  for (int64_t size = range.multiple; size <= kMostTried; size += range.multiple) {
    sizes.emplace_back();
    for (const RangeOf& other : ranges_) sizes.back().push_back(other.most);
    sizes.back()[r] = size;
  }
  const auto of_a = evaluated(a, v1::DATA_TYPE_I64, sizes), of_b = evaluated(b, v1::DATA_TYPE_I64, sizes);
  if (!of_a || !of_b) return std::nullopt;
  const auto tried = static_cast<int64_t>(sizes.size());
  for (int64_t step = 1; kLeastMultiples * step <= tried && step * range.multiple <= range.most; ++step) {
    bool all = range.most % (step * range.multiple) == 0;
    for (int64_t i = step - 1; i < tried && all; i += step)
      all = (*of_a)[static_cast<size_t>(i)]->integers() == (*of_b)[static_cast<size_t>(i)]->integers();
    if (all) return step * range.multiple;
  }
  return std::nullopt;
}

bool FollowedValues::restrictToSame(mlir::Value a, mlir::Value b, const std::string& reason) {
  if (!a || !b || !byCountsAlone(a) || !byCountsAlone(b)) return false;
  const std::vector<RangeOf> before = ranges_;
  for (size_t r = 0; r < before.size(); ++r) {
    const std::optional<int64_t> multiple = multipleOf(r, a, b);
    if (!multiple) {
      ranges_ = before;
      return false;
    }
    ranges_[r].multiple = *multiple;
  }
  decltype(known_) known;
  std::swap(known, known_);
  if (!same(a, b)) {
    ranges_ = before;
    known_ = std::move(known);
    return false;
  }
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

bool FollowedValues::same(mlir::Value a, mlir::Value b) {
  if (a == b) return true;
  const std::vector<ConstantPtr>* x = examplesOf(a, v1::DATA_TYPE_I64);
  if (!x) return false;
  const std::vector<ConstantPtr> of_a = *x;  // the next call may move it
  const std::vector<ConstantPtr>* y = examplesOf(b, v1::DATA_TYPE_I64);
  return y && std::equal(of_a.begin(), of_a.end(), y->begin(), y->end(),
                         [](const ConstantPtr& p, const ConstantPtr& q) { return p->integers() == q->integers(); });
}

}  // namespace tessera::compiler
