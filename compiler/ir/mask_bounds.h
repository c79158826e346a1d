#pragma once

#include <cstdint>
#include <limits>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "mlir/IR/Value.h"

/// Finds the scores of a softmax that its mask removes, from the operations alone: bounds of a body's values over a box
/// of positions. A mask is a comparison of positions (linalg.index) that selects between a score and a value whose
/// exponential is zero.
namespace tessera::compiler {

/// A closed interval, with infinite ends where nothing is known.
struct Bounds {
  double lo = -std::numeric_limits<double>::infinity(), hi = std::numeric_limits<double>::infinity();
};

/// Assumed bound on the magnitude of sums of products.
inline constexpr double kLargestScore = 1e30;
/// Bounds of a sum of products and of elements read from memory: a number, or a value that a mask has removed.
inline constexpr Bounds kSummed{-kLargestScore, kLargestScore};
inline constexpr Bounds kRead{-std::numeric_limits<double>::infinity(), kLargestScore};

/// Returns bounds of `value`, which arith operations compute from arguments of its block and from positions. `argument`
/// gives the bounds of an argument by number; positions are bounded by dimension. Unknown operations are unbounded.
Bounds boundsOf(mlir::Value value, llvm::function_ref<Bounds(unsigned)> argument,
                llvm::function_ref<Bounds(int64_t)> position);

/// State of a box of scores in one or several rows: all removed (`low`: by a finite number, not by -infinity), or all
/// kept.
struct Masked {
  bool removed = false, low = false, kept = false;
};
Masked maskedBy(const Bounds& scores);

/// Half-open range of keys.
struct Keys {
  int64_t lo = 0, hi = 0;
  int64_t size() const { return hi - lo; }
};

/// Returns keys [0, keys) without the first and last whole groups of `keys_per_group` keys that `mask` removes; at
/// least one group remains. A mask that adds a finite number does not remove all keys of a row: softmax still
/// normalizes over them. Such groups are therefore dropped only where every row of the box keeps some key.
Keys unmaskedKeys(int64_t keys, int64_t keys_per_group, llvm::function_ref<Masked(Keys)> mask);

/// Returns the number of keys of one group for a softmax over whole rows: at most `groups` groups, each of whole
/// register tiles.
int64_t keysPerGroup(int64_t keys, int64_t groups);
inline constexpr int64_t kMaxKeyGroups = 8;

}  // namespace tessera::compiler
