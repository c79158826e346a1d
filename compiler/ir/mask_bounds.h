#pragma once

#include <cstdint>
#include <limits>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "mlir/IR/Value.h"

/// Which scores of a softmax its mask removes, told from the operations alone: bounds of what a body computes over a
/// box of positions. A mask is a comparison of positions (linalg.index) that selects between a score and a value so low
/// that its exponential is zero.
namespace tessera::compiler {

/// Closed; infinite ends where nothing is known.
struct Bounds {
  double lo = -std::numeric_limits<double>::infinity(), hi = std::numeric_limits<double>::infinity();
};

/// What the bodies of products add up counts as a number of at most this magnitude.
inline constexpr double kLargestScore = 1e30;
/// Bounds of a sum of products, and of what is read from memory: a number, or one that a mask has removed.
inline constexpr Bounds kSummed{-kLargestScore, kLargestScore};
inline constexpr Bounds kRead{-std::numeric_limits<double>::infinity(), kLargestScore};

/// Bounds of `value`, computed by arith operations from arguments of its block, whose bounds `argument` gives by
/// number, and from positions, given by dimension. Operations that are not known have none.
Bounds boundsOf(mlir::Value value, llvm::function_ref<Bounds(unsigned)> argument,
                llvm::function_ref<Bounds(int64_t)> position);

/// A box of scores, in one row or several: whether all are removed (`low`: by a number, not by -infinity), or all kept.
struct Masked {
  bool removed = false, low = false, kept = false;
};
Masked maskedBy(const Bounds& scores);

/// Half-open range of keys.
struct Keys {
  int64_t lo = 0, hi = 0;
  int64_t size() const { return hi - lo; }
};

/// Keys [0, keys) without the first and last whole pieces of `piece` that `mask` removes; at least one piece. Scores
/// that a number removes count in rows without any other, so these go only where some key is kept in all rows of the
/// box that `mask` asks about.
Keys keptKeys(int64_t keys, int64_t piece, llvm::function_ref<Masked(Keys)> mask);

/// Pieces in which keys are kept or not where rows are whole: at most `parts`, each of whole register tiles.
int64_t keyPiece(int64_t keys, int64_t parts);
inline constexpr int64_t kMostKeyPieces = 8;

}  // namespace tessera::compiler
