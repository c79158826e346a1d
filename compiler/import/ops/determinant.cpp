// Determinants of square matrices.
#include "absl/strings/str_cat.h"
#include "compiler/import/ops/coordinates.h"
#include "compiler/import/ops/statistics.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;

/// Each eliminated column is separate code.
constexpr int64_t kLargestMatrix = 64;

/// One step of Gaussian elimination with partial pivoting: the matrices (batch x size x size) without their first
/// column and pivot row, and the factor (batch) of this step.
struct Elimination {
  Tensor rest, factor;
};

Elimination eliminate(Emitter& e, const Tensor& x) {
  const int64_t batch = x.shape[0], size = x.shape[1];
  Tensor column = e.reshape(e.slice(x, {0, 0, 0}, {batch, size, 1}, {1, 1, 1}), {batch, size});
  Tensor magnitude = e.elementwise(x.dtype, {column}, [](const Scalars& s, ValueRange v) { return s.abs(v[0]); });
  Value pivots = e.value(argMax(e, magnitude, 1, /*maximum=*/true, /*last=*/false));
  Value source = e.value(x);
  // A column of NaN has no maximum, and its pivot index is out of range.
  auto pivotRow = [&](const Scalars& s, Value b) { return clampedCoordinate(s, e.extract(s, pivots, {b}), size); };
  auto index = [](const Scalars& s, int64_t at) {
    return clampedCoordinate(s, s.as(v1::DATA_TYPE_I64).integer(at), at + 1);
  };
  Elimination step;
  // The pivot is a factor of the determinant.
  step.factor = e.generate(x.dtype, {batch}, [&](const Scalars& s, ValueRange at) {
    const Scalars wide = s.as(v1::DATA_TYPE_I64);
    Value row = pivotRow(s, at[0]);
    Value pivot = e.extract(s, source, {at[0], row, index(s, 0)});
    Value stays = wide.compare(Relation::kEqual, position(s, row), wide.integer(0));
    return s.select(stays, pivot, s.neg(pivot));  // swapping two rows negates the determinant
  });
  step.rest = e.generate(x.dtype, {batch, size - 1, size - 1}, [&](const Scalars& s, ValueRange at) {
    const Scalars wide = s.as(v1::DATA_TYPE_I64);
    // Row i of the rest was row i + 1.
    Value row = pivotRow(s, at[0]);
    Value i = wide.add(position(s, at[1]), wide.integer(1));
    // The first row moves to the pivot row's position.
    Value swapped = wide.compare(Relation::kEqual, i, position(s, row));
    Value from = clampedCoordinate(s, wide.select(swapped, wide.integer(0), i), size);
    Value j = clampedCoordinate(s, wide.add(position(s, at[2]), wide.integer(1)), size);
    Value pivot = e.extract(s, source, {at[0], row, index(s, 0)});
    // A pivot of 0 means that the whole column is 0, and so is the determinant.
    Value zero = s.compare(Relation::kEqual, pivot, s.constant(0));
    Value ratio = s.div(e.extract(s, source, {at[0], from, index(s, 0)}), s.select(zero, s.constant(1), pivot));
    return s.sub(e.extract(s, source, {at[0], from, j}), s.mul(ratio, e.extract(s, source, {at[0], row, j})));
  });
  return step;
}

Results lowerDet(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 2));
  Tensor x = n.in(0);
  const int64_t size = x.shape.back();
  if (x.shape[x.rank() - 2] != size) {
    return n.invalid("the matrices are not square",
                     {.attribute = "X", .found = shapeText(x.shape), .accepted = "two equal last dimensions"});
  }
  if (size < 1 || size > kLargestMatrix) {
    return n.unsupported(
        absl::StrCat("matrices of ", size, " rows"),
        {.attribute = "X", .found = absl::StrCat(size), .accepted = absl::StrCat("1 to ", kLargestMatrix)});
  }
  const Shape batch(x.shape.begin(), x.shape.end() - 2);
  if (x.elements() == 0) return {{Emitter::wrap(makeConstant(x.dtype, batch, ""))}};
  x = e.reshape(x, {elementCount(batch), size, size});
  Tensor product;
  // Unrolled: each step has another size, and sizes are small.
  while (x.shape[1] > 1) {
    Elimination step = eliminate(e, x);
    x = step.rest;
    product = product.value ? e.elementwise(x.dtype, {product, step.factor},
                                            [](const Scalars& s, ValueRange v) { return s.mul(v[0], v[1]); })
                            : step.factor;
  }
  Tensor last = e.reshape(x, {elementCount(batch)});
  if (product.value) {
    last = e.elementwise(x.dtype, {product, last}, [](const Scalars& s, ValueRange v) { return s.mul(v[0], v[1]); });
  }
  return {{e.reshape(last, batch)}};
}

}  // namespace

std::vector<Operator> determinantOperators() {
  return {
      {"Det", 11, 1, 1, lowerDet, kFloats},
  };
}

}  // namespace tessera::compiler
