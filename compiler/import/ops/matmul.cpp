// Matrix products.
#include "compiler/import/ops/matmul.h"

#include "absl/strings/str_cat.h"
#include "compiler/import/masked_softmax.h"
#include "compiler/import/operator.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::Value;
using mlir::ValueRange;
using mlir::utils::IteratorType;

Tensor product(Emitter& e, const Tensor& x, const Tensor& y, bool transpose_x, bool transpose_y) {
  const int64_t m = x.shape[transpose_x ? 1 : 0];
  const int64_t columns = y.shape[transpose_y ? 0 : 1];
  Value init = e.zeros(x.dtype, {m, columns}).value;
  auto op = mlir::linalg::MatmulOp::create(e.b, e.loc, mlir::TypeRange{init.getType()},
                                           ValueRange{e.value(x), e.value(y)}, ValueRange{init});
  // A transposed operand is read in another order, not copied.
  if (transpose_x || transpose_y) {
    auto d = [&](unsigned position) { return e.b.getAffineDimExpr(position); };
    auto map = [&](AffineExpr row, AffineExpr column) { return AffineMap::get(3, 0, {row, column}, e.b.getContext()); };
    op.setIndexingMapsAttr(
        e.b.getAffineMapArrayAttr({transpose_x ? map(d(2), d(0)) : map(d(0), d(2)),
                                   transpose_y ? map(d(1), d(2)) : map(d(2), d(1)), map(d(0), d(1))}));
  }
  return Emitter::wrap(op->getResult(0), x.dtype);
}

namespace {

/// Returns the summed dimension of a product's operand: the last one of the first operand, the second to last of the
/// second.
int64_t summedDim(const Tensor& x, bool right, bool transposed) {
  return x.rank() == 1 ? 0 : x.rank() - (right != transposed ? 2 : 1);
}

}  // namespace

/// Skips an operand that a masked softmax has zeroed already, so that attention stays a softmax between two products.
absl::Status zeroSummed(const Node& n, Emitter& e, Tensor& x, Tensor& y, bool transpose_x, bool transpose_y) {
  const int64_t of_x = summedDim(x, false, transpose_x), of_y = summedDim(y, true, transpose_y);
  const auto extent_x = x.extents.find(of_x), extent_y = y.extents.find(of_y);
  const bool bounded_x = extent_x != x.extents.end(), bounded_y = extent_y != y.extents.end();
  if (!bounded_x && !bounded_y) return absl::OkStatus();
  if (!bounded_x || !bounded_y || !n.sameExtent(extent_x->second, extent_y->second)) {
    return refuseExtent(n, bounded_x ? 0 : 1, bounded_x ? of_x : of_y,
                        "the other operand may have another extent there");
  }
  if (of_x != x.rank() - 1 || !isMaskedSoftmax(n, x)) x = zeroed(e, x, of_x);
  y = zeroed(e, y, of_y);
  return absl::OkStatus();
}

namespace {

/// For broadcast batches, reads each operand without its own batch dimensions of size 1.
Tensor broadcastProduct(Emitter& e, const Tensor& x, const Tensor& y, const Shape& batch) {
  const auto rank = static_cast<unsigned>(batch.size());
  mlir::MLIRContext* context = e.b.getContext();
  auto dim = [&](unsigned position) { return mlir::getAffineDimExpr(position, context); };
  const unsigned m = rank, columns = rank + 1, k = rank + 2;
  auto access = [&](const Tensor& tensor, unsigned row, unsigned column) {
    Shape kept;
    llvm::SmallVector<AffineExpr> results;
    const size_t own = tensor.shape.size() - 2;
    for (size_t d = 0; d < own; ++d) {
      const size_t loop = rank - own + d;
      // An operand without this dimension is the same in all its steps.
      if (tensor.shape[d] == 1 && batch[loop] != 1) continue;
      kept.push_back(tensor.shape[d]);
      results.push_back(dim(static_cast<unsigned>(loop)));
    }
    kept.insert(kept.end(), tensor.shape.end() - 2, tensor.shape.end());
    results.append({dim(row), dim(column)});
    return Access{e.reshape(tensor, kept), AffineMap::get(rank + 3, 0, results, context)};
  };
  Shape shape = batch;
  shape.push_back(x.shape[x.rank() - 2]);
  shape.push_back(y.shape.back());
  Tensor init = e.zeros(x.dtype, shape);
  llvm::SmallVector<IteratorType> loops(rank + 3, IteratorType::parallel);
  loops[k] = IteratorType::reduction;
  AffineMap out = AffineMap::getMultiDimIdentityMap(rank + 2, context);
  return e.generic(x.dtype, shape, {access(x, m, k), access(y, k, columns)},
                   AffineMap::get(rank + 3, 0, out.getResults(), context), loops, &init,
                   [](const Scalars& s, ValueRange v) { return s.fma(v[0], v[1], v[2]); });
}

/// Multiplies operands of at least two dimensions whose inner dimensions agree.
Tensor matrixProduct(Emitter& e, const Tensor& x, const Tensor& y, const Shape& batch) {
  const int64_t m = x.shape[x.rank() - 2], k = x.shape.back(), columns = y.shape.back();
  Shape shape = batch;
  shape.push_back(m);
  shape.push_back(columns);
  const int64_t batches = elementCount(batch);
  if (elementCount({y.shape.begin(), y.shape.end() - 2}) == 1) {
    // With one matrix on the right, all rows on the left form one matrix.
    Tensor rows = e.reshape(x, {x.elements() / std::max<int64_t>(k, 1), k});
    // With k = 0 the number of rows does not follow from the number of elements.
    if (k == 0) rows = e.reshape(x, {batches * m, k});
    return e.reshape(product(e, rows, e.reshape(y, {k, columns}), false, false), shape);
  }
  const bool same_batch = Shape(x.shape.begin(), x.shape.end() - 2) == Shape(y.shape.begin(), y.shape.end() - 2);
  if (!same_batch) return broadcastProduct(e, x, y, batch);
  // Several batch dimensions are one for linalg's batch product.
  Value left = e.value(e.reshape(x, {batches, m, k}));
  Value right = e.value(e.reshape(y, {batches, k, columns}));
  Value init = e.zeros(x.dtype, {batches, m, columns}).value;
  auto op = mlir::linalg::BatchMatmulOp::create(e.b, e.loc, mlir::TypeRange{init.getType()}, ValueRange{left, right},
                                                ValueRange{init});
  return e.reshape(Emitter::wrap(op->getResult(0), x.dtype), shape);
}

}  // namespace

Results lowerGemm(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const double alpha, n.real("alpha", 1.0));
  TESSERA_ASSIGN_OR_RETURN(const double beta, n.real("beta", 1.0));
  TESSERA_ASSIGN_OR_RETURN(const bool transpose_a, n.flag("transA", false));
  TESSERA_ASSIGN_OR_RETURN(const bool transpose_b, n.flag("transB", false));
  if (n.opset() < 7) n.ignore("broadcast");
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 2, 2));
  TESSERA_RETURN_IF_ERROR(n.requireRank(1, 2, 2));
  const Shape& a = n.in(0).shape;
  const Shape& b = n.in(1).shape;
  if (a[transpose_a ? 0 : 1] != b[transpose_b ? 1 : 0]) {
    return n.invalid(absl::StrCat("inner dimensions of A ", shapeText(a), " and B ", shapeText(b), " differ"),
                     {.attribute = "B",
                      .found = absl::StrCat(b[transpose_b ? 1 : 0]),
                      .accepted = absl::StrCat(a[transpose_a ? 0 : 1])});
  }
  const Shape shape = {a[transpose_a ? 1 : 0], b[transpose_b ? 0 : 1]};
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, n.in(0).dtype));
  Tensor x = n.in(0), y = n.in(1);
  TESSERA_RETURN_IF_ERROR(zeroSummed(n, e, x, y, transpose_a, transpose_b));
  Tensor result = product(e, x, y, transpose_a, transpose_b);
  // The scale and C join in one pass over the product.
  std::vector<Tensor> operands = {result};
  if (n.has(2) && beta != 0) {
    auto broadcast = broadcastShape(shape, n.in(2).shape);
    if (!broadcast || *broadcast != shape) {
      return n.invalid("C does not broadcast to the product",
                       {.attribute = "C", .found = shapeText(n.in(2).shape), .accepted = shapeText(shape)});
    }
    operands.push_back(n.in(2));
  }
  if (operands.size() == 1 && alpha == 1.0) return {{result}};
  return {{e.elementwise(result.dtype, operands, [&](const Scalars& s, ValueRange v) {
    Value scaled = alpha == 1.0 ? v[0] : s.mul(v[0], s.constant(alpha));
    if (v.size() == 1) return scaled;
    return s.add(scaled, beta == 1.0 ? v[1] : s.mul(v[1], s.constant(beta)));
  })}};
}

absl::StatusOr<Tensor> matmul(Node& n, Emitter& e, Tensor x, Tensor y) {
  if (x.rank() < 1 || y.rank() < 1) {
    return n.invalid("a factor is a scalar",
                     {.attribute = x.rank() < 1 ? "A" : "B", .found = "rank 0", .accepted = "rank 1 or more"});
  }
  // A vector is a matrix with one row or column, whose dimension the result drops again.
  const bool row = x.rank() == 1, column = y.rank() == 1;
  if (row) x = e.reshape(x, {1, x.shape[0]});
  if (column) y = e.reshape(y, {y.shape[0], 1});
  auto batch = broadcastShape({x.shape.begin(), x.shape.end() - 2}, {y.shape.begin(), y.shape.end() - 2});
  if (!batch || x.shape.back() != y.shape[y.rank() - 2]) {
    return n.invalid(
        absl::StrCat("matrices ", shapeText(x.shape), " and ", shapeText(y.shape), " cannot be multiplied"),
        {.attribute = "B",
         .found = shapeText(y.shape),
         .accepted = absl::StrCat(x.shape.back(), " rows, batch dimensions that broadcast")});
  }
  Shape shape = *batch;
  shape.push_back(x.shape[x.rank() - 2]);
  shape.push_back(y.shape.back());
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  Tensor result = matrixProduct(e, x, y, *batch);
  if (row) shape.erase(shape.end() - 2);
  if (column) shape.pop_back();
  return e.reshape(result, shape);
}

namespace {

Results lowerMatMul(Node& n, Emitter& e) {
  Tensor x = n.in(0), y = n.in(1);
  if (x.rank() > 0 && y.rank() > 0) TESSERA_RETURN_IF_ERROR(zeroSummed(n, e, x, y, false, false));
  TESSERA_ASSIGN_OR_RETURN(Tensor result, matmul(n, e, std::move(x), std::move(y)));
  return {{std::move(result)}};
}

}  // namespace

absl::Status productExtents(Node& n, Emitter&, std::vector<Tensor>& results) {
  const bool gemm = n.opType() == "Gemm";
  TESSERA_ASSIGN_OR_RETURN(const bool transpose_a, gemm ? n.flag("transA", false) : absl::StatusOr<bool>(false));
  TESSERA_ASSIGN_OR_RETURN(const bool transpose_b, gemm ? n.flag("transB", false) : absl::StatusOr<bool>(false));
  TESSERA_RETURN_IF_ERROR(refuseExtents(n, 2, "it has to fit the product"));
  Tensor& y = results[0];
  y.extents.clear();
  const bool row = n.in(0).rank() == 1, column = n.in(1).rank() == 1;
  const int64_t matrix_dims = (row ? 0 : 1) + (column ? 0 : 1);  // of the result
  for (const int input : {0, 1}) {
    const Tensor& x = n.in(input);
    const Tensor& other = n.in(1 - input);
    const int64_t summed = summedDim(x, input == 1, input == 0 ? transpose_a : transpose_b);
    for (const auto& [dim, extent] : x.extents) {
      if (dim == summed) continue;
      if (dim >= x.rank() - 2) {  // rows or columns of the result; a vector on the right has no columns
        y.extents[y.rank() - (input == 0 && !column ? 2 : 1)] = extent;
        continue;
      }
      // A batch dimension: the other operand must have the same extent, unless it broadcasts.
      const int64_t from_last = x.rank() - 2 - dim;
      const int64_t of_other = other.rank() - 2 - from_last;
      if (of_other >= 0 && other.shape[of_other] != 1) {
        const auto theirs = other.extents.find(of_other);
        if (theirs == other.extents.end() || !n.sameExtent(theirs->second, extent)) {
          return refuseExtent(n, input, dim, absl::StrCat("input ", 1 - input, " may have another number of matrices"));
        }
      }
      y.extents.try_emplace(y.rank() - matrix_dims - from_last, extent);
    }
  }
  return absl::OkStatus();
}

std::vector<Operator> matmulOperators() {
  return withExtents(productExtents, {
                                         {"Gemm", 1, 2, 3, lowerGemm, kNumbers, 3},
                                         {"MatMul", 1, 2, 2, lowerMatMul, kNumbers, 2},
                                     });
}

}  // namespace tessera::compiler
