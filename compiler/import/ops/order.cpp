// Operators that order elements.
#include "absl/strings/str_cat.h"
#include "compiler/import/bounded.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/indexing.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tessera::compiler {
namespace {

using mlir::OpBuilder;
using mlir::Value;
using mlir::ValueRange;
namespace arith = mlir::arith;
namespace scf = mlir::scf;

/// How many are asked for, at the greatest sizes of all ranges; `follows` says whether fewer at others.
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

/// The k best along an axis, best first, of equal ones the lower index first: an insertion into the k best so far,
/// k steps for each element that is among them when it comes. `largest` says what better means.
Results lowerTopK(Node& n, Emitter& e) {
  Tensor x = n.in(0);
  const v1::DataType i64 = v1::DATA_TYPE_I64;
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", -1, x.rank()));
  bool follows = false;
  TESSERA_ASSIGN_OR_RETURN(const int64_t k, readCount(n, x.shape[axis], follows));
  TESSERA_ASSIGN_OR_RETURN(const bool largest, n.flag("largest", true));
  n.ignore("sorted");  // sorted is one of the orders that are right when none is asked for
  Shape shape = x.shape;
  shape[axis] = k;
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, i64));
  if (elementCount(shape) == 0) {
    return {{Emitter::wrap(makeConstant(x.dtype, shape, "")), Emitter::wrap(makeConstant(i64, shape, ""))}};
  }
  std::map<int64_t, Value> extents_of_results = x.extents;
  if (x.extents.contains(axis) || follows) {
    // As many as there are where that is less; what is not there comes last.
    const Tensor asked = follows ? n.sizeAt(e, 1, 0) : scalarI64(k);
    extents_of_results[axis] =
        e.elementwise(v1::DATA_TYPE_I64, {asked, extentOf(x, axis)}, [](const Scalars& s, ValueRange v) {
           return s.min(v[0], v[1]);
         }).value;
  }
  if (x.extents.contains(axis))
    x = masked(e, x, axis, [largest](const Scalars& s) { return largest ? s.lowest() : s.highest(); });
  // The axis is the innermost loop, so that a row is finished before the next begins.
  Shape extents = x.shape;
  extents.erase(extents.begin() + axis);
  extents.push_back(x.shape[axis]);
  Value source = e.value(x);
  Value zero = arith::ConstantIndexOp::create(e.b, e.loc, 0);
  Value one = arith::ConstantIndexOp::create(e.b, e.loc, 1);
  Value count = arith::ConstantIndexOp::create(e.b, e.loc, k);
  Value last = arith::ConstantIndexOp::create(e.b, e.loc, k - 1);
  const Value state[] = {e.zeros(x.dtype, shape).value, e.zeros(i64, shape).value};
  auto insert = [&](OpBuilder& b, mlir::Location loc, ValueRange point, ValueRange best) -> llvm::SmallVector<Value> {
    const Scalars s(b, loc, x.dtype);
    Value at = point.back();
    auto place = [&](Value along) {
      llvm::SmallVector<Value> coordinates(point.drop_back());
      coordinates.insert(coordinates.begin() + axis, along);
      return coordinates;
    };
    Value element = e.extract(s, source, place(at));
    Value index = arith::IndexCastOp::create(b, loc, b.getI64Type(), at);
    // Where k were seen, an element that is no better than the last of them changes nothing: most of a long row.
    Value full = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, at, count);
    Value worst = e.extract(s, best[0], place(last));
    Value no_better = s.compare(largest ? Relation::kLessOrEqual : Relation::kGreaterOrEqual, element, worst);
    Value end = arith::SelectOp::create(b, loc, s.logicalAnd(full, no_better), zero, count);
    // Once the element has found its place, everything behind it moves by one: `displaced` stays true.
    Value displaced = s.as(v1::DATA_TYPE_BOOL).integer(0);
    auto loop = scf::ForOp::create(
        b, loc, zero, end, one, ValueRange{best[0], best[1], element, index, displaced},
        [&](OpBuilder& nb, mlir::Location nl, Value j, ValueRange now) {
          const Scalars ns(nb, nl, x.dtype);
          const auto to = place(j);
          Value old = e.extract(ns, now[0], to);
          Value old_index = e.extract(ns, now[1], to);
          Value better = ns.compare(largest ? Relation::kGreater : Relation::kLess, now[2], old);
          Value free = arith::CmpIOp::create(nb, nl, arith::CmpIPredicate::sge, j, at);  // only `at` were seen
          Value takes = ns.logicalOr(now[4], ns.logicalOr(free, better));
          Value values = mlir::tensor::InsertOp::create(nb, nl, ns.select(takes, now[2], old), now[0], to).getResult();
          Value indices =
              mlir::tensor::InsertOp::create(nb, nl, ns.select(takes, now[3], old_index), now[1], to).getResult();
          scf::YieldOp::create(
              nb, nl,
              ValueRange{values, indices, ns.select(takes, old, now[2]), ns.select(takes, old_index, now[3]), takes});
        });
    return {loop.getResult(0), loop.getResult(1)};
  };
  auto results = serialLoops(e, extents, state, insert);
  std::vector<Tensor> best = {Emitter::wrap(results[0], x.dtype), Emitter::wrap(results[1], i64)};
  for (Tensor& result : best) result.extents = extents_of_results;
  return best;
}

}  // namespace

std::vector<Operator> orderOperators() {
  return {{"TopK", 1, 1, 2, lowerTopK, kNumbers, 1, INT_MAX, "", extentsByLowering}};
}

}  // namespace tessera::compiler
