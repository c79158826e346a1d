#pragma once

#include "absl/status/statusor.h"
#include "compiler/codegen/region/region_slices.h"

/// Softmax between two products, found among nests by its structure: maximum of a row, exp(x - maximum), sum of the
/// row, division.
namespace tessera::compiler::codegen {

/// (E / sum) V becomes (E V) / sum where nothing else reads the quotient: one division an element of the product in
/// place of one an element of the rows. Exact but for rounding; NaN and infinite sums give what they gave. Returns
/// the number of divisions moved.
int deferDivisions(SlicedNests& nests);

/// Where the last product reads a softmax whose division deferDivisions has moved: the sum of a row is inverted once
/// and the product scaled by that, and the exponential is told that its argument is at most zero. The sum is at least 1
/// and at most the length of the row, so nothing overflows; the result differs by a rounding. False where there is
/// none.
bool easeSoftmax(mlir::OpBuilder& builder, SlicedNests& nests);

/// Rewrites softmax(S) V to blocks of `tile` columns of S with a running maximum m, a running sum s and a result
/// that is scaled when the maximum grows (online softmax, Milakov and Gimelshein; FlashAttention, Dao et al.):
///
///   before the first block   m = -inf, s = 0, acc = 0
///   for each block           m' = max(m, S);  f = exp(m - m'), E = exp(S - m');  s = f s + sum E;  acc = f acc + E V
///   after the last block     result = acc / s, then what followed
///
/// where m' = -inf (all masked so far) counts as 0 in the differences, so that a fully masked row ends as 0 / 0 = NaN
/// like the rows that are whole. Returns the loop over the blocks; to be called after deferDivisions.
/// Errors: INVALID_ARGUMENT when the last product reads no softmax, or something else reads its parts.
absl::StatusOr<SliceLoop> runSoftmaxInBlocks(mlir::OpBuilder& builder, SlicedNests& nests, int64_t tile);

}  // namespace tessera::compiler::codegen
