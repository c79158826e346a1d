// NonMaxSuppression: selects boxes by descending score, except those that overlap a selected box too much.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/import/bounded_dimensions.h"
#include "compiler/import/data_types.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/heap.h"
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

struct Suppression {
  Value boxes = {};      ///< [batch, box, 4]
  bool centers = false;  ///< x, y, width, height instead of two corners y, x
  int64_t batches = 0, classes = 0, count = 0;
};

struct Box {
  Value y1, x1, y2, x2;
};

Box boxAt(Emitter& e, const Scalars& s, const Suppression& p, Value batch, Value index) {
  Value v[4];
  for (int64_t k = 0; k < 4; ++k) {
    v[k] = e.extract(s, p.boxes, {batch, index, arith::ConstantIndexOp::create(s.b, s.loc, k).getResult()});
  }
  if (p.centers) {
    Value half_width = s.mul(v[2], s.constant(0.5)), half_height = s.mul(v[3], s.constant(0.5));
    return {s.sub(v[1], half_height), s.sub(v[0], half_width), s.add(v[1], half_height), s.add(v[0], half_width)};
  }
  // Corners come in any order.
  return {s.min(v[0], v[2]), s.min(v[1], v[3]), s.max(v[0], v[2]), s.max(v[1], v[3])};
}

/// Whether intersection over union is above the threshold; boxes without area overlap nothing.
Value overlaps(const Scalars& s, Value threshold, const Box& a, const Box& b) {
  Value zero = s.constant(0);
  // Negative lengths mean that the boxes do not meet.
  Value height = s.sub(s.min(a.y2, b.y2), s.max(a.y1, b.y1)), width = s.sub(s.min(a.x2, b.x2), s.max(a.x1, b.x1));
  auto area = [&](const Box& box) { return s.mul(s.sub(box.y2, box.y1), s.sub(box.x2, box.x1)); };
  auto positive = [&](Value v) { return s.compare(Relation::kGreater, v, zero); };
  Value first = area(a), second = area(b), common = s.mul(height, width);
  // Common area counts once.
  Value all = s.sub(s.add(first, second), common);
  Value real = s.logicalAnd(s.logicalAnd(positive(height), positive(width)),
                            s.logicalAnd(s.logicalAnd(positive(first), positive(second)), positive(all)));
  return s.logicalAnd(real, s.compare(Relation::kGreater, s.div(common, all), threshold));
}

/// Returns a scalar operand of the node as a tensor of rank 0; `otherwise` if absent.
absl::StatusOr<Tensor> scalarOperand(Node& n, Emitter& e, int input, const char* name, v1::DataType type,
                                     const Tensor& otherwise) {
  if (!n.has(input)) return otherwise;
  if (n.in(input).sequence || n.in(input).dtype != type || n.in(input).elements() != 1) {
    return n.invalid(
        absl::StrCat("input '", name, "' is ", typeName(n.in(input).dtype), " of ", shapeText(n.in(input).shape)),
        {.attribute = name, .accepted = absl::StrCat("one ", typeName(type))});
  }
  return e.reshape(n.in(input), {});
}

Tensor scalarF32(double value) { return Emitter::wrap(realConstant(kF32, {}, {value})); }

absl::Status checkShapes(Node& n) {
  const Tensor& boxes = n.in(0);
  const Tensor& scores = n.in(1);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 3, 3));
  TESSERA_RETURN_IF_ERROR(n.requireRank(1, 3, 3));
  if (boxes.shape[2] != 4 || boxes.shape[0] != scores.shape[0] || boxes.shape[1] != scores.shape[2]) {
    return n.invalid("boxes and scores do not fit",
                     {.attribute = "scores",
                      .found = absl::StrCat(shapeText(boxes.shape), " and ", shapeText(scores.shape)),
                      .accepted = "batch x boxes x 4 and batch x classes x boxes"});
  }
  for (const int input : {0, 1}) {
    for (const auto& [dim, extent] : n.in(input).extents) {
      if (dim != (input == 0 ? 1 : 2)) return refuseExtent(n, input, dim, "only the number of boxes may be unknown");
    }
  }
  for (int input = 2; input < n.numInputs(); ++input) TESSERA_RETURN_IF_ERROR(refuseExtents(n, input, "one number"));
  auto of_boxes = boxes.extents.find(1), of_scores = scores.extents.find(2);
  const bool bounded = of_boxes != boxes.extents.end();
  if (bounded != (of_scores != scores.extents.end()) || (bounded && of_boxes->second != of_scores->second)) {
    return refuseExtent(n, bounded ? 0 : 1, bounded ? 1 : 2, "boxes and scores may differ in number");
  }
  return absl::OkStatus();
}

/// For each batch element and class: builds a heap of the boxes with sufficient scores, best first (the first among
/// equals), and compares each with the boxes selected before it.
Results lowerNonMaxSuppression(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(checkShapes(n));
  TESSERA_ASSIGN_OR_RETURN(const int64_t centers, n.integer("center_point_box", 0));
  const Tensor& boxes = n.in(0);
  Tensor scores = n.in(1);
  if (boxes.dtype != kF32) return n.unsupported("boxes", {.found = typeName(boxes.dtype), .accepted = "f32"});
  if (scores.shape[0] * scores.shape[1] == 1) {
    // Adds a class without boxes, because code generation requires the loop over classes to have several iterations.
    const int64_t none[] = {0, 0, 0}, one_more[] = {0, 1, 0};
    scores = e.pad(scores, none, one_more, e.scalars(kF32).lowest());
  }
  Suppression p{
      .centers = centers != 0, .batches = boxes.shape[0], .classes = scores.shape[1], .count = boxes.shape[1]};
  // Without a limit ONNX selects no boxes.
  int64_t picks = n.has(2) ? p.count : 0;  // bound for each class
  if (n.has(2) && n.in(2).constant && n.in(2).elements() == 1 && isInteger(n.in(2).dtype)) {
    picks = std::clamp<int64_t>(n.in(2).constant->integerAt(0), 0, p.count);
  }
  // 128 bits: the factors come from a file.
  const __int128 most = static_cast<__int128>(p.batches) * p.classes * picks;
  if (most > INT32_MAX) {
    return n.checkResult({p.batches, p.classes, picks, 3}, kI64);  // the error names the size and the limit
  }
  const Shape shape = {static_cast<int64_t>(most), 3};
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, kI64));
  if (most == 0) return {{Emitter::wrap(makeConstant(kI64, {0, 3}, ""))}};

  TESSERA_ASSIGN_OR_RETURN(const Tensor threshold, scalarOperand(n, e, 3, "iou_threshold", kF32, scalarF32(0)));
  TESSERA_ASSIGN_OR_RETURN(const Tensor least_score,
                           scalarOperand(n, e, 4, "score_threshold", kF32, scalarF32(-INFINITY)));
  TESSERA_ASSIGN_OR_RETURN(const Tensor limit,
                           scalarOperand(n, e, 2, "max_output_boxes_per_class", kI64, scalarI64(0)));
  p.boxes = e.value(boxes);
  const Value score = e.value(scores), most_overlap = e.value(threshold), most_rounds = e.value(limit);
  const Value least = e.value(least_score), number_of_boxes = e.value(extentOf(boxes, 1));
  auto toIndex = [](const Scalars& s, Value v) -> Value {
    return arith::IndexCastOp::create(s.b, s.loc, s.b.getIndexType(), v);
  };
  Value zero = arith::ConstantIndexOp::create(e.b, e.loc, 0), one = arith::ConstantIndexOp::create(e.b, e.loc, 1);

  // State: selected boxes, their number, and the heap's scores and boxes.
  const Value state[] = {e.zeros(kI64, shape).value, e.zeros(kI64, {}).value, e.zeros(kF32, {p.count}).value,
                         e.zeros(kI64, {p.count}).value};
  const Heap heap(e, kF32, p.count, {.greatest = true}, [](Value slot) { return llvm::SmallVector<Value>{slot}; });
  // One iteration for each batch element and class, in order, because results are appended.
  auto each = [&](OpBuilder& b, mlir::Location loc, ValueRange point, ValueRange now) -> llvm::SmallVector<Value> {
    const Scalars s(b, loc, kF32), wide = s.as(kI64);
    Value least_known = e.extract(s, least, ValueRange{}), overlap = e.extract(s, most_overlap, ValueRange{});
    Value count = toIndex(s, e.extract(wide, number_of_boxes, ValueRange{}));
    Value rounds = wide.min(wide.max(e.extract(wide, most_rounds, ValueRange{}), wide.integer(0)), wide.integer(picks));
    // The boxes with sufficient scores, in the first slots.
    auto load = scf::ForOp::create(
        b, loc, zero, count, one, ValueRange{now[2], now[3], zero},
        [&](OpBuilder& nb, mlir::Location nl, Value i, ValueRange v) {
          const Scalars ns(nb, nl, kF32);
          Value found = e.extract(ns, score, {point[0], point[1], i});
          Value enough = ns.compare(Relation::kGreater, found, least_known);
          // An insufficient box is written too, and overwritten by the next one.
          const Heap::Slots next =
              heap.put(nb, nl, {v[0], v[1]}, v[2], {found, arith::IndexCastOp::create(nb, nl, nb.getI64Type(), i)});
          Value more = arith::AddIOp::create(nb, nl, v[2], one);
          scf::YieldOp::create(
              nb, nl, ValueRange{next.first, next.second, arith::SelectOp::create(nb, nl, enough, more, v[2])});
        });
    Value candidates = load.getResult(2);
    const Heap::Slots built = heap.build(b, loc, {load.getResult(0), load.getResult(1)}, candidates);
    // Boxes selected so far belong to other classes, with which nothing is compared.
    Value before = e.extract(wide, now[1], ValueRange{});
    // Best first: a box is selected unless a selected one overlaps it. State: selected boxes, their number, the heap.
    const Value begin[] = {now[0], now[1], built.first, built.second};
    auto pick = scf::ForOp::create(
        b, loc, zero, candidates, one, begin, [&](OpBuilder& rb, mlir::Location rl, Value taken, ValueRange r) {
          const Scalars rs(rb, rl, kF32), index = rs.as(kI64), truth = rs.as(v1::DATA_TYPE_BOOL);
          Value number = e.extract(index, r[1], ValueRange{});
          // No more than the wanted number of each class.
          Value wanted = index.compare(Relation::kLess, index.sub(number, before), rounds);
          const Heap::Element best = heap.at(rb, rl, {r[2], r[3]}, zero);
          const Box box = boxAt(e, rs, p, point[0], toIndex(rs, best.index));
          // A loop without iterations costs nothing once enough boxes are selected.
          Value last = arith::SelectOp::create(rb, rl, wanted, toIndex(rs, number), zero);
          auto look = scf::ForOp::create(rb, rl, toIndex(rs, before), last, one, truth.integer(0),
                                         [&](OpBuilder& nb, mlir::Location nl, Value row, ValueRange covered) {
                                           const Scalars ns(nb, nl, kF32);
                                           Value column = arith::ConstantIndexOp::create(nb, nl, 2);
                                           Value selected = toIndex(ns, e.extract(ns.as(kI64), r[0], {row, column}));
                                           Value over = overlaps(ns, overlap, box, boxAt(e, ns, p, point[0], selected));
                                           scf::YieldOp::create(nb, nl, ns.logicalOr(covered[0], over));
                                         });
          Value found = rs.logicalAnd(wanted, rs.logicalNot(look.getResult(0)));
          // At most one box is added to fewer than `most`, so the count is a valid position. If none is added, the
          // entry is overwritten by the next one or lies beyond the extent.
          Value selected = r[0];
          Value row = arith::MinUIOp::create(rb, rl, toIndex(rs, number),
                                             arith::ConstantIndexOp::create(rb, rl, static_cast<int64_t>(most) - 1));
          const Value entry[] = {arith::IndexCastOp::create(rb, rl, rb.getI64Type(), point[0]),
                                 arith::IndexCastOp::create(rb, rl, rb.getI64Type(), point[1]), best.index};
          for (int64_t k = 0; k < 3; ++k) {
            Value column = arith::ConstantIndexOp::create(rb, rl, k);
            Value old = e.extract(index, selected, {row, column});
            selected = mlir::tensor::InsertOp::create(rb, rl, index.select(found, entry[k], old), selected,
                                                      ValueRange{row, column});
          }
          Value next = index.add(number, truth.cast(found, kI64));
          Value total = mlir::tensor::InsertOp::create(rb, rl, next, r[1], ValueRange{});
          // The last remaining box replaces the best one.
          Value left = arith::SubIOp::create(rb, rl, arith::SubIOp::create(rb, rl, candidates, taken), one);
          const Heap::Element moved = heap.at(rb, rl, {r[2], r[3]}, left);
          const Heap::Slots rest = heap.sift(rb, rl, {r[2], r[3]}, zero, moved, left, wanted);
          scf::YieldOp::create(rb, rl, ValueRange{selected, total, rest.first, rest.second});
        });
    return {pick.getResult(0), pick.getResult(1), pick.getResult(2), pick.getResult(3)};
  };
  auto results = serialLoops(e, {p.batches, p.classes}, state, each);
  // The shape has room for all; the extent is the number of selected boxes.
  Tensor result = Emitter::wrap(results[0], kI64);
  result.extents[0] = results[1];
  return {{std::move(result)}};
}

}  // namespace

std::vector<Operator> suppressionOperators() {
  return withExtents(extentsByLowering, {{"NonMaxSuppression", 10, 2, 5, lowerNonMaxSuppression, kFloats, 2}});
}

}  // namespace tessera::compiler
