#include "compiler/graph/constants/constant_product.h"

#include <algorithm>
#include <utility>

#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/constants/in_parallel.h"

namespace tessera::compiler {
namespace {

using mlir::utils::IteratorType;

constexpr int64_t kRows = 4;        // of the result; they share each loaded row of an operand
constexpr int64_t kColumns = 256;   // of the result: four rows of them are 4 KiB
constexpr int64_t kProducts = 128;  // accumulated before the next columns: 128 KiB of the operand

/// The roles of the product's loops. `row` may be absent (-1); the others exist.
struct Roles {
  int row = -1, column = -1, sum = -1;
};

/// Strides of an operand along the three loops of a block.
struct BlockStrides {
  int64_t row = 0, column = 0, sum = 0;
};

BlockStrides blockStridesOf(const StridedAccess& access, const Roles& roles) {
  return {roles.row < 0 ? 0 : access.strides[roles.row], access.strides[roles.column], access.strides[roles.sum]};
}

/// c[r][n] += a[r][k] * b[k][n] for kCount rows; b and c are contiguous along n.
template <int kCount>
void addRows(const float* a, const BlockStrides& walk_a, const float* b, const BlockStrides& walk_b, float* c,
             const BlockStrides& walk_c, int64_t columns, int64_t products) {
  for (int64_t k = 0; k < products; ++k) {
    const float* from = b + k * walk_b.sum;
    float factor[kCount];
    for (int r = 0; r < kCount; ++r) factor[r] = a[r * walk_a.row + k * walk_a.sum];
    for (int r = 0; r < kCount; ++r) {
      float* to = c + r * walk_c.row;
      for (int64_t n = 0; n < columns; ++n) to[n] += factor[r] * from[n];
    }
  }
}

void addBlock(const float* a, const BlockStrides& walk_a, const float* b, const BlockStrides& walk_b, float* c,
              const BlockStrides& walk_c, int64_t rows, int64_t columns, int64_t products) {
  for (int64_t n = 0; n < columns; n += kColumns) {
    const int64_t wide = std::min(kColumns, columns - n);
    for (int64_t k = 0; k < products; k += kProducts) {
      const int64_t deep = std::min(kProducts, products - k);
      for (int64_t r = 0; r < rows;) {
        const float* of_a = a + r * walk_a.row + k * walk_a.sum;
        const float* of_b = b + k * walk_b.sum + n;
        float* of_c = c + r * walk_c.row + n;
        if (rows - r >= kRows && walk_b.row == 0) {
          addRows<kRows>(of_a, walk_a, of_b, walk_b, of_c, walk_c, wide, deep);
          r += kRows;
        } else {
          addRows<1>(of_a, walk_a, of_b + r * walk_b.row, walk_b, of_c, walk_c, wide, deep);
          ++r;
        }
      }
    }
  }
}

/// The sum is the last reduction loop, so that additions keep their order. The column is a loop along which the result
/// and `b` are contiguous and `a` is constant. The row is another loop along which `b` is constant.
bool findRoles(llvm::ArrayRef<IteratorType> types, llvm::ArrayRef<int64_t> extents, const StridedAccess& a,
               const StridedAccess& b, const StridedAccess& c, Roles& roles) {
  roles = {};
  for (size_t d = 0; d < types.size(); ++d) {
    const int loop = static_cast<int>(d);
    if (types[d] == IteratorType::reduction) {
      roles.sum = loop;
    } else if (c.strides[d] == 1 && b.strides[d] == 1 && a.strides[d] == 0 && extents[d] > 1) {
      roles.column = loop;
    }
  }
  if (roles.sum < 0 || roles.column < 0 || c.strides[roles.sum] != 0) return false;
  for (size_t d = 0; d < types.size(); ++d) {
    const int loop = static_cast<int>(d);
    if (types[d] != IteratorType::parallel || loop == roles.column || b.strides[d] != 0 || c.strides[d] == 0) continue;
    if (roles.row < 0 || extents[d] > extents[roles.row]) roles.row = loop;
  }
  return true;
}

}  // namespace

bool addConstantProduct(mlir::linalg::LinalgOp op, llvm::ArrayRef<int64_t> extents,
                        llvm::ArrayRef<StridedAccess> accesses, const char* a, const char* b, char* out) {
  auto generic = mlir::dyn_cast<mlir::linalg::GenericOp>(op.getOperation());
  if (!generic || accesses.size() != 3 || !isMultiplyAccumulate(generic)) return false;
  for (mlir::Value operand : op->getOperands())
    if (!mlir::getElementTypeOrSelf(operand.getType()).isF32()) return false;
  const llvm::SmallVector<IteratorType> types(op.getIteratorTypesArray());
  const StridedAccess *of_a = accesses.data(), *of_b = &accesses[1];
  Roles roles;
  if (!findRoles(types, extents, *of_a, *of_b, accesses[2], roles)) {
    std::swap(of_a, of_b);
    std::swap(a, b);
    if (!findRoles(types, extents, *of_a, *of_b, accesses[2], roles)) return false;
  }
  const StridedAccess& of_c = accesses[2];
  const BlockStrides walk_a = blockStridesOf(*of_a, roles), walk_b = blockStridesOf(*of_b, roles),
                     walk_c = blockStridesOf(of_c, roles);
  const auto* from_a = reinterpret_cast<const float*>(a) + of_a->offset;
  const auto* from_b = reinterpret_cast<const float*>(b) + of_b->offset;
  auto* to = reinterpret_cast<float*>(out) + of_c.offset;
  // All other loops run outside, in order.
  llvm::SmallVector<int64_t> index(extents.size(), 0);
  const auto isInside = [&](int d) { return d == roles.row || d == roles.column || d == roles.sum; };
  while (true) {
    int64_t at_a = 0, at_b = 0, at_c = 0;
    for (size_t d = 0; d < extents.size(); ++d) {
      at_a += index[d] * of_a->strides[d];
      at_b += index[d] * of_b->strides[d];
      at_c += index[d] * of_c.strides[d];
    }
    const int64_t rows = roles.row < 0 ? 1 : extents[roles.row];
    const auto work = [&](int64_t begin, int64_t end) {
      addBlock(from_a + at_a + begin * walk_a.row, walk_a, from_b + at_b, walk_b, to + at_c + begin * walk_c.row,
               walk_c, end - begin, extents[roles.column], extents[roles.sum]);
    };
    if (rows * extents[roles.column] * extents[roles.sum] >= kMinParallelWork) {
      parallelFor(rows, work);
    } else {
      work(0, rows);
    }
    int d = static_cast<int>(extents.size()) - 1;
    for (; d >= 0; --d) {
      if (isInside(d)) continue;
      if (++index[d] < extents[d]) break;
      index[d] = 0;
    }
    if (d < 0) return true;
  }
}

}  // namespace tessera::compiler
