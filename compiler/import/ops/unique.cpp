// Unique: a stable merge sort of positions, then one pass over equal neighbours.
#include "compiler/import/bounded_dimensions.h"
#include "compiler/import/data_types.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/indexing.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::OpBuilder;
using mlir::Value;
using mlir::ValueRange;
namespace arith = mlir::arith;
namespace scf = mlir::scf;

Value toIndex(const Scalars& s, Value v) { return arith::IndexCastOp::create(s.b, s.loc, s.b.getIndexType(), v); }
Value toInteger(const Scalars& s, Value v) { return arith::IndexCastOp::create(s.b, s.loc, s.b.getI64Type(), v); }
Value counted(const Scalars& s, Value flag) { return s.as(v1::DATA_TYPE_BOOL).cast(flag, kI64); }
Value stored(const Scalars& s, Value v, Value tensor, ValueRange at) {
  return mlir::tensor::InsertOp::create(s.b, s.loc, v, tensor, at);
}

/// The rows to compare: [rows, width].
struct Keys {
  Value rows;
  v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
  int64_t count = 0, width = 0;
};

/// Compares two rows (i64 positions) lexicographically: negative, 0 or positive. NaN is equal to nothing and below
/// nothing.
Value compareRows(Emitter& e, const Scalars& s, const Keys& keys, Value a, Value b) {
  Value row_a = toIndex(s, a), row_b = toIndex(s, b);
  auto compareAt = [&](const Scalars& at, Value column) {
    const Scalars key = at.as(keys.dtype), wide = at.as(kI64);
    Value x = e.extract(key, keys.rows, {row_a, column}), y = e.extract(key, keys.rows, {row_b, column});
    Value less = key.compare(Relation::kLess, x, y), equal = key.compare(Relation::kEqual, x, y);
    return wide.select(equal, wide.integer(0), wide.select(less, wide.integer(-1), wide.integer(1)));
  };
  Value zero = arith::ConstantIndexOp::create(s.b, s.loc, 0), one = arith::ConstantIndexOp::create(s.b, s.loc, 1);
  // A single column needs no loop.
  if (keys.width == 1) return compareAt(s, zero);
  Value width = arith::ConstantIndexOp::create(s.b, s.loc, keys.width);
  const Value undecided[] = {s.as(kI64).integer(0)};
  return scf::ForOp::create(s.b, s.loc, zero, width, one, undecided,
                            [&](OpBuilder& nb, mlir::Location nl, Value column, ValueRange now) {
                              const Scalars ns(nb, nl, kI64);
                              // The first column that differs decides.
                              Value open = ns.compare(Relation::kEqual, now[0], ns.integer(0));
                              Value next = ns.select(open, compareAt(ns, column), now[0]);
                              scf::YieldOp::create(nb, nl, next);
                            })
      .getResult(0);
}

/// Merges neighbouring runs of `run` positions into runs of twice the length; equal rows keep their order.
Value mergeRuns(Emitter& e, const Keys& keys, Value positions, int64_t run) {
  // The current positions in both runs, as tensors, because loops of a module carry tensors.
  const Value state[] = {e.zeros(kI64, {keys.count}).value, e.zeros(kI64, {2}).value};
  auto step = [&](OpBuilder& b, mlir::Location loc, ValueRange point, ValueRange now) -> llvm::SmallVector<Value> {
    const Scalars s(b, loc, kI64);
    Value zero = arith::ConstantIndexOp::create(b, loc, 0), one = arith::ConstantIndexOp::create(b, loc, 1);
    Value out = toInteger(s, point[0]), count = s.integer(keys.count);
    // The pair of runs to which this position belongs.
    Value first = s.mul(s.div(out, s.integer(2 * run)), s.integer(2 * run));
    Value middle = s.min(s.add(first, s.integer(run)), count);
    Value end = s.min(s.add(first, s.integer(2 * run)), count);
    // A new pair begins at the start of its runs.
    Value fresh = s.compare(Relation::kEqual, out, first);
    Value left = s.select(fresh, first, e.extract(s, now[1], {zero}));
    Value right = s.select(fresh, middle, e.extract(s, now[1], {one}));
    auto positionAt = [&](Value at) {
      return e.extract(s, positions, {toIndex(s, s.min(s.max(at, s.integer(0)), s.integer(keys.count - 1)))});
    };
    Value a = positionAt(left), c = positionAt(right);
    // A run may be used up; then the other one supplies the rest.
    Value has_left = s.compare(Relation::kLess, left, middle), has_right = s.compare(Relation::kLess, right, end);
    // On equality the left run comes first, which keeps the order.
    Value ordered = s.compare(Relation::kLessOrEqual, compareRows(e, s, keys, a, c), s.integer(0));
    Value takes_left = s.logicalAnd(has_left, s.logicalOr(s.logicalNot(has_right), ordered));
    Value merged = stored(s, s.select(takes_left, a, c), now[0], point);
    Value taken = counted(s, takes_left);
    Value places = stored(s, s.add(left, taken), now[1], zero);
    places = stored(s, s.add(right, s.sub(s.integer(1), taken)), places, one);
    return {merged, places};
  };
  return serialLoops(e, {keys.count}, state, step)[0];
}

/// For each distinct row, in sorted order, its first position and frequency; for each position the number of its row;
/// and the number of distinct rows. Lists are as long as there are rows.
struct Groups {
  Value first, counts, inverse, total;
};

Groups groupEqual(Emitter& e, const Keys& keys, Value sorted) {
  const Tensor list = e.zeros(kI64, {keys.count});
  const Value state[] = {list.value, list.value, list.value, e.zeros(kI64, {}).value};
  auto step = [&](OpBuilder& b, mlir::Location loc, ValueRange point, ValueRange now) -> llvm::SmallVector<Value> {
    const Scalars s(b, loc, kI64);
    Value out = toInteger(s, point[0]);
    Value here = e.extract(s, sorted, point);
    Value before = e.extract(s, sorted, {toIndex(s, s.max(s.sub(out, s.integer(1)), s.integer(0)))});
    // Sorted, so equal rows are neighbours.
    Value equal = s.compare(Relation::kEqual, compareRows(e, s, keys, before, here), s.integer(0));
    Value same = s.logicalAnd(s.compare(Relation::kGreater, out, s.integer(0)), equal);
    Value total = e.extract(s, now[3], ValueRange{});
    // An equal row belongs to the group before.
    Value group = s.sub(total, counted(s, same));
    Value at = toIndex(s, group);
    Value first = stored(s, s.select(same, e.extract(s, now[0], at), here), now[0], at);
    Value count = stored(s, s.select(same, s.add(e.extract(s, now[1], at), s.integer(1)), s.integer(1)), now[1], at);
    Value inverse = stored(s, group, now[2], toIndex(s, here));
    Value next = stored(s, s.add(group, s.integer(1)), now[3], ValueRange{});
    return {first, count, inverse, next};
  };
  auto results = serialLoops(e, {keys.count}, state, step);
  return {results[0], results[1], results[2], results[3]};
}

/// Renumbers groups by first occurrence.
Groups byFirstOccurrence(Emitter& e, const Keys& keys, const Groups& groups) {
  const Tensor list = e.zeros(kI64, {keys.count});
  // State: new numbers by old number, first positions, frequencies, inverse, and the next number.
  const Value state[] = {list.value, list.value, list.value, list.value, e.zeros(kI64, {}).value};
  auto step = [&](OpBuilder& b, mlir::Location loc, ValueRange point, ValueRange now) -> llvm::SmallVector<Value> {
    const Scalars s(b, loc, kI64);
    Value old = toIndex(s, e.extract(s, groups.inverse, point));
    Value first = e.extract(s, groups.first, {old});
    // A group is new at its first position.
    Value fresh = s.compare(Relation::kEqual, first, toInteger(s, point[0]));
    Value next = e.extract(s, now[4], ValueRange{});
    Value number = s.select(fresh, next, e.extract(s, now[0], {old}));
    Value at = toIndex(s, number);
    return {stored(s, number, now[0], old), stored(s, first, now[1], at),
            stored(s, e.extract(s, groups.counts, {old}), now[2], at), stored(s, number, now[3], point),
            stored(s, s.add(next, counted(s, fresh)), now[4], ValueRange{})};
  };
  auto results = serialLoops(e, {keys.count}, state, step);
  return {results[1], results[2], results[3], results[4]};
}

/// Outputs: the distinct slices along an axis (without one: elements), their first positions, the number of each
/// slice's group, and the frequency of each group.
Results lowerUnique(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const bool sorted, n.flag("sorted", true));
  Tensor x = n.in(0);
  int64_t axis = 0;
  if (n.hasAttribute("axis")) {
    TESSERA_ASSIGN_OR_RETURN(axis, n.axis("axis", std::nullopt, x.rank()));
  } else {
    x = e.reshape(x, {x.elements()});
  }
  const int64_t count = x.shape[axis];
  TESSERA_RETURN_IF_ERROR(n.checkResult({5, count}, kI64));
  if (x.elements() == 0) {
    // Slices without elements are all equal: there is one, or none.
    const std::vector<int64_t> first(count > 0 ? 1 : 0, 0);
    Shape distinct = x.shape;
    distinct[axis] = std::min<int64_t>(count, 1);
    return {{Emitter::wrap(makeConstant(x.dtype, distinct, "")), Emitter::wrap(integerConstant(first)),
             Emitter::wrap(integerConstant(std::vector<int64_t>(count, 0))),
             Emitter::wrap(integerConstant(std::vector<int64_t>(first.size(), count)))}};
  }
  // Slices become rows: the axis comes first.
  std::vector<int64_t> permutation = {axis};
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d != axis) permutation.push_back(d);
  }
  const Keys keys{e.value(e.reshape(e.transpose(x, permutation), {count, x.elements() / count})), x.dtype, count,
                  x.elements() / count};
  Value positions =
      e.generate(kI64, {count}, [](const Scalars& s, ValueRange at) { return toInteger(s, at[0]); }).value;
  // Merge sort: after each pass sorted runs are twice as long.
  for (int64_t run = 1; run < count; run *= 2) positions = mergeRuns(e, keys, positions, run);
  Groups groups = groupEqual(e, keys, positions);
  if (!sorted) groups = byFirstOccurrence(e, keys, groups);

  Value source = e.value(x);
  Tensor distinct = e.generate(x.dtype, x.shape, [&](const Scalars& s, ValueRange at) {
    llvm::SmallVector<Value> from(at);
    from[axis] = toIndex(s, e.extract(s, groups.first, {at[axis]}));
    return e.extract(s, source, from);
  });
  Tensor first = Emitter::wrap(groups.first, kI64), counts = Emitter::wrap(groups.counts, kI64);
  distinct.extents[axis] = first.extents[0] = counts.extents[0] = groups.total;
  return {{std::move(distinct), std::move(first), Emitter::wrap(groups.inverse, kI64), std::move(counts)}};
}

}  // namespace

std::vector<Operator> uniqueOperators() { return {{"Unique", 11, 1, 1, lowerUnique, kNumbers}}; }

}  // namespace tessera::compiler
