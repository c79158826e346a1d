#include "compiler/backends/cpu/emit/apply_matrix.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;
using mlir::Value;

class Combination {
 public:
  Combination(mlir::OpBuilder& builder, bool fuse) : b_(builder), loc_(builder.getUnknownLoc()), fuse_(fuse) {}

  /// sum of factors[i] * values[i]; null for an empty sum. Terms with factor 1 come first, since the sum can start with
  /// such a term without a multiplication.
  Value sum(llvm::ArrayRef<double> factors, llvm::ArrayRef<Value> values) {
    llvm::SmallVector<size_t> order;
    for (const auto wanted : {1.0, -1.0, 0.0})
      for (size_t i = 0; i < values.size(); ++i) {
        const double factor = factors[i];
        const double kind = factor == 1.0 || factor == -1.0 ? factor : 0.0;
        if (factor != 0 && values[i] && kind == wanted) order.push_back(i);
      }
    Value total;
    for (size_t i : order) total = add(total, factors[i], values[i]);
    return total;
  }

  /// total + factor * value.
  Value add(Value total, double factor, Value value) {
    if (!value) return total;
    if (!total)
      return factor == 1.0 ? value : arith::MulFOp::create(b_, loc_, value, constant(factor, value)).getResult();
    if (factor == 1.0) return arith::AddFOp::create(b_, loc_, total, value);
    if (factor == -1.0) return arith::SubFOp::create(b_, loc_, total, value);
    if (fuse_) return mlir::math::FmaOp::create(b_, loc_, value, constant(factor, value), total);
    return arith::AddFOp::create(b_, loc_, total, arith::MulFOp::create(b_, loc_, value, constant(factor, value)));
  }

  Value zeroLike(Value value) { return constant(0, value); }

 private:
  Value constant(double number, Value like) {
    mlir::Type type = like.getType();
    mlir::TypedAttr attribute = b_.getFloatAttr(mlir::getElementTypeOrSelf(type), number);
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(type))
      attribute = mlir::DenseElementsAttr::get(vector, attribute);
    return arith::ConstantOp::create(b_, loc_, attribute);
  }

  mlir::OpBuilder& b_;
  mlir::Location loc_;
  bool fuse_;
};

}  // namespace

llvm::SmallVector<Value> applyMatrix(mlir::OpBuilder& builder, llvm::ArrayRef<llvm::SmallVector<double>> matrix,
                                     llvm::ArrayRef<Value> values, bool fuse_multiply_add) {
  Combination combination(builder, fuse_multiply_add);
  const size_t rows = matrix.size(), columns = values.size();
  llvm::SmallVector<llvm::SmallVector<double>> entries(matrix.begin(), matrix.end());
  llvm::SmallVector<Value> terms(values.begin(), values.end());
  // Replaces neighbouring columns that are equal up to sign in every row by their sum and difference.
  for (size_t c = 0; c + 1 < columns; ++c) {
    int same = 0, opposite = 0, other = 0;
    for (size_t r = 0; r < rows; ++r) {
      const double a = entries[r][c], b = entries[r][c + 1];
      if (a == 0 && b == 0) continue;
      (a == b ? same : a == -b ? opposite : other) += 1;
    }
    // Sum and difference cost two additions, and save one in every row with both columns, so they pay from three
    // rows on.
    if (other > 0 || same == 0 || opposite == 0 || same + opposite < 3) continue;
    const Value first = terms[c], second = terms[c + 1];
    terms[c] = combination.add(first, 1, second);
    terms[c + 1] = combination.add(first, -1, second);
    for (size_t r = 0; r < rows; ++r) entries[r][entries[r][c] == entries[r][c + 1] ? c + 1 : c] = 0;
    for (size_t r = 0; r < rows; ++r)
      if (entries[r][c + 1] != 0) entries[r][c + 1] = matrix[r][c];
    ++c;
  }
  llvm::SmallVector<Value> results(rows);
  for (size_t r = 0; r < rows; ++r) {
    if (results[r]) continue;
    // If the next row is equal up to the signs of some columns, the two rows are u + v and u - v.
    llvm::SmallVector<double> equal(columns, 0), opposite(columns, 0);
    int equals = 0, opposites = 0, others = 0;
    if (r + 1 < rows)
      for (size_t c = 0; c < columns; ++c) {
        const double a = entries[r][c], b = entries[r + 1][c];
        if (a == 0 && b == 0) continue;
        if (a == b) {
          equal[c] = a, ++equals;
        } else if (a == -b) {
          opposite[c] = a, ++opposites;
        } else {
          ++others;
        }
      }
    if (r + 1 < rows && others == 0 && equals > 0 && opposites > 0 && equals + opposites > 2) {
      Value u = combination.sum(equal, terms), v = combination.sum(opposite, terms);
      results[r] = combination.add(u, 1, v);
      results[r + 1] = combination.add(u, -1, v);
      continue;
    }
    results[r] = combination.sum(entries[r], terms);
    if (!results[r]) results[r] = combination.zeroLike(values[0]);
  }
  return results;
}

}  // namespace tessera::compiler::codegen
