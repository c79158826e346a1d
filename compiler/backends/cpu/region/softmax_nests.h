#pragma once

#include "absl/status/statusor.h"
#include "compiler/backends/cpu/region/region_slices.h"

/// Softmax between two products, found among nests by its structure: maximum of a row, exp(x - maximum), sum of the
/// row, division.
namespace tessera::compiler::codegen {

/// (E / sum) V becomes (E V) / sum where no other nest reads the quotient: one division per element of the product
/// instead of one per element of the rows. The results differ by rounding only; NaN and infinite sums give the same
/// results as before. Returns the number of divisions moved.
int deferDivisions(SlicedNests& nests);

/// For a last product that reads a softmax whose division deferDivisions has moved: inverts the sum of a row once and
/// scales the product by it, and marks the exponential's argument as at most zero. The sum is at least 1 and at most
/// the length of the row, so nothing overflows; the result differs by one rounding. Returns false if there is no such
/// product.
bool scaleByInverseSum(mlir::OpBuilder& builder, SlicedNests& nests);

/// Rewrites softmax(S) V to blocks of `tile` columns of S with a running maximum m, a running sum s and a result
/// that is scaled when the maximum grows (online softmax, Milakov and Gimelshein; FlashAttention, Dao et al.):
///
///   before the first block   m = -inf, s = 0, acc = 0
///   for each block           m' = max(m, S);  f = exp(m - m'), E = exp(S - m');  s = f s + sum E;  acc = f acc + E V
///   after the last block     result = acc / s, then the original consumers
///
/// where m' = -inf (all keys masked so far) counts as 0 in the differences, so that a fully masked row gives
/// 0 / 0 = NaN, as without blocks. Returns the loop over the blocks. Call after deferDivisions.
/// Errors: INVALID_ARGUMENT when the last product reads no softmax, or another nest reads its parts.
absl::StatusOr<SliceLoop> runSoftmaxInBlocks(mlir::OpBuilder& builder, SlicedNests& nests, int64_t tile);

}  // namespace tessera::compiler::codegen
