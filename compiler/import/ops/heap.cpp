#include "compiler/import/ops/heap.h"

#include <bit>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler {
namespace {

using mlir::Location;
using mlir::OpBuilder;
using mlir::Value;
using mlir::ValueRange;
namespace arith = mlir::arith;
namespace scf = mlir::scf;

Value number(OpBuilder& b, Location loc, int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }

/// Runs `body` for 0 to `count`, carrying the slots.
template <typename Body>
Heap::Slots repeat(OpBuilder& b, Location loc, Value count, Heap::Slots slots, const Body& body) {
  auto loop =
      scf::ForOp::create(b, loc, number(b, loc, 0), count, number(b, loc, 1), ValueRange{slots.first, slots.second},
                         [&](OpBuilder& inner, Location at, Value step, ValueRange now) {
                           const Heap::Slots next = body(inner, at, step, Heap::Slots{now[0], now[1]});
                           scf::YieldOp::create(inner, at, ValueRange{next.first, next.second});
                         });
  return {loop.getResult(0), loop.getResult(1)};
}

/// Runs `body` if the condition is true.
template <typename Body>
Heap::Slots onlyIf(OpBuilder& b, Location loc, Value condition, Heap::Slots slots, const Body& body) {
  // A loop with at most one iteration, because imported operations contain loops but no branches.
  Value count = arith::SelectOp::create(b, loc, condition, number(b, loc, 1), number(b, loc, 0));
  return repeat(b, loc, count, slots,
                [&](OpBuilder& inner, Location at, Value /*step*/, Heap::Slots now) { return body(inner, at, now); });
}

}  // namespace

Heap::Element Heap::at(OpBuilder& b, Location loc, Slots slots, Value slot) const {
  const Scalars s(b, loc, type_);
  const auto where = coordinates_(slot);
  return {e_.extract(s, slots.first, where), e_.extract(s.as(v1::DATA_TYPE_I64), slots.second, where)};
}

Heap::Slots Heap::put(OpBuilder& b, Location loc, Slots slots, Value slot, Element element) const {
  const auto where = coordinates_(slot);
  return {mlir::tensor::InsertOp::create(b, loc, element.value, slots.first, where).getResult(),
          mlir::tensor::InsertOp::create(b, loc, element.index, slots.second, where).getResult()};
}

Value Heap::less(const Scalars& s, Value x, Value y) const {
  Value ordered = s.compare(Relation::kLess, x, y);
  if (!isFloat(type_)) return ordered;
  // NaN is the greatest value, so that the order is total.
  Value only_y_is_none =
      s.logicalAnd(s.compare(Relation::kEqual, x, x), s.logicalNot(s.compare(Relation::kEqual, y, y)));
  return s.logicalOr(ordered, only_y_is_none);
}

Value Heap::comesBefore(const Scalars& s, Element x, Element y) const {
  const auto [first, second] = order_.greatest ? std::pair(y.value, x.value) : std::pair(x.value, y.value);
  Value by_place =
      s.as(v1::DATA_TYPE_I64).compare(order_.later_first ? Relation::kGreater : Relation::kLess, x.index, y.index);
  // Equal values are ordered by index.
  return s.logicalOr(less(s, first, second), s.logicalAnd(s.logicalNot(less(s, second, first)), by_place));
}

int64_t Heap::height() const { return static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(capacity_))); }

Heap::Slots Heap::sift(OpBuilder& b, Location loc, Slots slots, Value slot, Element element, Value size,
                       Value happens) const {
  // A loop without steps changes nothing.
  Value steps = arith::SelectOp::create(b, loc, happens, number(b, loc, height()), number(b, loc, 0));
  return siftDown(b, loc, slots, slot, element, size, steps);
}

Heap::Slots Heap::siftDown(OpBuilder& b, Location loc, Slots slots, Value slot, Element element, Value size,
                           Value steps) const {
  // In the last step the slot has no children, and the element is stored.
  Value moving = arith::ConstantIntOp::create(b, loc, 1, 1);
  auto loop = scf::ForOp::create(
      b, loc, number(b, loc, 0), steps, number(b, loc, 1), ValueRange{slots.first, slots.second, slot, moving},
      [&](OpBuilder& inner, Location at_loc, Value /*step*/, ValueRange now) {
        const Scalars s(inner, at_loc, type_), index = s.as(v1::DATA_TYPE_I64);
        const Slots here{now[0], now[1]};
        // Children of slot i are 2i + 1 and 2i + 2.
        Value twice = arith::AddIOp::create(inner, at_loc, now[2], now[2]);
        Value left = arith::AddIOp::create(inner, at_loc, twice, number(inner, at_loc, 1));
        Value right = arith::AddIOp::create(inner, at_loc, twice, number(inner, at_loc, 2));
        auto within = [&](Value child) -> Value {
          return arith::CmpIOp::create(inner, at_loc, arith::CmpIPredicate::ult, child, size);
        };
        auto read = [&](Value child) {  // a child that does not exist is read, but not compared
          Value last = number(inner, at_loc, capacity_ - 1);
          return at(inner, at_loc, here, arith::MinUIOp::create(inner, at_loc, child, last));
        };
        // Both children are read before it is known whether they exist; the comparison below decides.
        const Element first = read(left), second = read(right);
        Value takes_right = s.logicalAnd(within(right), comesBefore(s, second, first));
        const Element child{s.select(takes_right, second.value, first.value),
                            index.select(takes_right, second.index, first.index)};
        Value moves = s.logicalAnd(s.logicalAnd(now[3], within(left)), comesBefore(s, child, element));
        // Either the child moves up, or the element is stored here.
        const Slots next =
            put(inner, at_loc, here, now[2],
                {s.select(moves, child.value, element.value), index.select(moves, child.index, element.index)});
        Value below = arith::SelectOp::create(inner, at_loc, takes_right, right, left);
        Value hole = arith::SelectOp::create(inner, at_loc, moves, below, now[2]);
        scf::YieldOp::create(inner, at_loc, ValueRange{next.first, next.second, hole, moves});
      });
  return {loop.getResult(0), loop.getResult(1)};
}

Heap::Slots Heap::offer(OpBuilder& b, Location loc, Slots slots, Element element, Value size) const {
  const Scalars s(b, loc, type_);
  // One comparison rejects most elements, equal ones included. NaN is left to the heap's order.
  Value first = at(b, loc, slots, number(b, loc, 0)).value;
  Value no_later =
      s.compare(order_.greatest ? Relation::kGreaterOrEqual : Relation::kLessOrEqual, element.value, first);
  // The heap's first element is the worst one kept: what does not beat it is not stored.
  return onlyIf(b, loc, s.logicalNot(no_later), slots, [&](OpBuilder& inner, Location at_loc, Slots now) {
    Value root = number(inner, at_loc, 0);
    Value takes = comesBefore(Scalars(inner, at_loc, type_), at(inner, at_loc, now, root), element);
    return sift(inner, at_loc, now, root, element, size, takes);
  });
}

Heap::Slots Heap::build(OpBuilder& b, Location loc, Slots slots, Value size) const {
  // Level by level from the lowest: half of the slots have no children, a quarter have one level below.
  // The upper half of the slots has no children.
  Value parents = arith::DivUIOp::create(b, loc, size, number(b, loc, 2));
  return repeat(b, loc, number(b, loc, height()), slots, [&](OpBuilder& lb, Location ll, Value below, Slots now) {
    Value one = number(lb, ll, 1);
    Value level = arith::SubIOp::create(lb, ll, number(lb, ll, height() - 1), below);
    Value wide = arith::ShLIOp::create(lb, ll, one, level);
    Value first = arith::MinUIOp::create(lb, ll, arith::SubIOp::create(lb, ll, wide, one), parents);
    Value end = arith::MinUIOp::create(lb, ll, arith::AddIOp::create(lb, ll, first, wide), parents);
    Value steps = arith::AddIOp::create(lb, ll, below, one);
    return repeat(lb, ll, arith::SubIOp::create(lb, ll, end, first), now,
                  [&](OpBuilder& inner, Location at_loc, Value step, Slots here) {
                    Value slot = arith::AddIOp::create(inner, at_loc, first, step);
                    return siftDown(inner, at_loc, here, slot, at(inner, at_loc, here, slot), size, steps);
                  });
  });
}

Heap::Slots Heap::sort(OpBuilder& b, Location loc, Slots slots, Value size) const {
  Value one = number(b, loc, 1);
  Value rounds = arith::SubIOp::create(b, loc, arith::MaxUIOp::create(b, loc, size, one), one);
  return repeat(b, loc, rounds, slots, [&](OpBuilder& inner, Location at_loc, Value step, Slots now) {
    Value left = arith::SubIOp::create(inner, at_loc, rounds, step);  // the last slot; the slots before it remain a
                                                                      // heap
    // The first element goes to the end, and the last one finds its place.
    Value root = number(inner, at_loc, 0);
    const Element first = at(inner, at_loc, now, root), last = at(inner, at_loc, now, left);
    return sift(inner, at_loc, put(inner, at_loc, now, left, first), root, last, left,
                arith::ConstantIntOp::create(inner, at_loc, 1, 1));
  });
}

}  // namespace tessera::compiler
