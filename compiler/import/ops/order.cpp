// Operators that order elements.
#include "absl/strings/str_cat.h"
#include "compiler/import/bounded_dimensions.h"
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

/// Returns the requested number at the bounds of all ranges; `follows`: whether it varies with them.
absl::StatusOr<int64_t> readCount(Node& n, int64_t dim, bool& follows) {
  int64_t k = 0;
  if (n.opset() < 10) {
    TESSERA_ASSIGN_OR_RETURN(k, n.integer("k"));
  } else {
    if (!n.has(1)) return n.invalid("k is missing", {.attribute = "K", .accepted = "one integer"});
    TESSERA_ASSIGN_OR_RETURN(const SizeList values, n.sizes(1, "K"));
    if (values.most.size() != 1)
      return n.invalid("k is not one integer", {.attribute = "K", .accepted = "one integer"});
    k = values.most[0];
    follows = values.follows[0];
  }
  if (k < 0 || k > dim) {
    return n.invalid(absl::StrCat("asks for ", k, " of ", dim, " elements"),
                     {.attribute = "K", .found = absl::StrCat(k), .accepted = absl::StrCat("0 to ", dim)});
  }
  return k;
}

/// Returns the k best elements along an axis, best first, the lower index first among equals. Keeps a heap of the k
/// best so far, with log k steps for each element that enters it, and sorts it at the end. `largest` defines better;
/// NaN is the greatest.
Results lowerTopK(Node& n, Emitter& e) {
  Tensor x = n.in(0);
  const v1::DataType i64 = v1::DATA_TYPE_I64;
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", -1, x.rank()));
  bool follows = false;
  TESSERA_ASSIGN_OR_RETURN(const int64_t k, readCount(n, x.shape[axis], follows));
  TESSERA_ASSIGN_OR_RETURN(const bool largest, n.flag("largest", true));
  n.ignore("sorted");  // sorted order is also a valid unsorted order
  Shape shape = x.shape;
  shape[axis] = k;
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, i64));
  if (elementCount(shape) == 0) {
    return {{Emitter::wrap(makeConstant(x.dtype, shape, "")), Emitter::wrap(makeConstant(i64, shape, ""))}};
  }
  std::map<int64_t, Value> extents_of_results = x.extents;
  if (x.extents.contains(axis) || follows) {
    // At most the dimension's extent; missing elements come last.
    const Tensor asked = follows ? n.sizeAt(e, 1, 0) : scalarI64(k);
    extents_of_results[axis] =
        e.elementwise(v1::DATA_TYPE_I64, {asked, extentOf(x, axis)}, [](const Scalars& s, ValueRange v) {
           return s.min(v[0], v[1]);
         }).value;
  }
  if (x.extents.contains(axis))
    x = masked(e, x, axis, [largest](const Scalars& s) { return largest ? s.lowest() : s.highest(); });
  Shape rows = x.shape;
  rows.erase(rows.begin() + axis);
  Value source = e.value(x);
  const Value state[] = {e.zeros(x.dtype, shape).value, e.zeros(i64, shape).value};
  auto keep = [&](OpBuilder& b, mlir::Location loc, ValueRange row, ValueRange best) -> llvm::SmallVector<Value> {
    auto place = [&](Value along) {
      llvm::SmallVector<Value> coordinates(row);
      coordinates.insert(coordinates.begin() + axis, along);
      return coordinates;
    };
    auto number = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, loc, value); };
    // The worst kept element is at the root, to be replaced by a better one.
    const Heap heap(e, x.dtype, k, {.greatest = !largest, .later_first = true}, place);
    auto along = [&](int64_t from, int64_t to, Heap::Slots slots, auto&& take) -> Heap::Slots {
      auto loop = scf::ForOp::create(
          b, loc, number(from), number(to), number(1), ValueRange{slots.first, slots.second},
          [&](OpBuilder& inner, mlir::Location at_loc, Value at, ValueRange now) {
            const Heap::Element element{e.extract(Scalars(inner, at_loc, x.dtype), source, place(at)),
                                        arith::IndexCastOp::create(inner, at_loc, inner.getI64Type(), at)};
            const Heap::Slots next = take(inner, at_loc, Heap::Slots{now[0], now[1]}, at, element);
            scf::YieldOp::create(inner, at_loc, ValueRange{next.first, next.second});
          });
      return {loop.getResult(0), loop.getResult(1)};
    };
    Heap::Slots kept{best[0], best[1]};
    kept = along(0, k, kept, [&](OpBuilder& inner, mlir::Location at_loc, Heap::Slots now, Value at, auto& element) {
      return heap.put(inner, at_loc, now, at, element);
    });
    kept = heap.build(b, loc, kept, number(k));
    kept = along(k, x.shape[axis], kept,
                 [&](OpBuilder& inner, mlir::Location at_loc, Heap::Slots now, Value /*at*/, auto& element) {
                   return heap.offer(inner, at_loc, now, element, number(k));
                 });
    kept = heap.sort(b, loc, kept, number(k));
    return {kept.first, kept.second};
  };
  auto results = serialLoops(e, rows, state, keep);
  std::vector<Tensor> best = {Emitter::wrap(results[0], x.dtype), Emitter::wrap(results[1], i64)};
  for (Tensor& result : best) result.extents = extents_of_results;
  return best;
}

}  // namespace

std::vector<Operator> orderOperators() {
  return {{"TopK", 1, 1, 2, lowerTopK, kNumbers, 1, INT_MAX, "", extentsByLowering}};
}

}  // namespace tessera::compiler
