#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

/// Operator chains as blocks (Chimera): loops, tensors with affine access functions, members. Plain values, no
/// MLIR, so that analysis and tests take milliseconds.
namespace tessera::compiler::fusion {

/// An independent loop of a chain. A loop shared by two members is one Loop.
struct Loop {
  std::string name;
  int64_t extent = 1;
  int64_t min_tile = 1;  ///< lower bound of a block, set by the instructions (alpha of equation 3.18)
  bool whole = false;    ///< never cut: loops of convolution windows, rows of a normalization
  int64_t multiple = 1;  ///< blocks are multiples of it (or the whole extent): vectors, register tiles
  int64_t fewest = 0;    ///< smallest extent at run time, for loops over a range; 0: every run has the whole extent
};

/// The term stride * loop. A subscript is the sum of its terms, so h * 2 + r is {{h, 2}, {r, 1}}.
struct Term {
  int loop = 0;
  int64_t stride = 1;
};
using Subscript = std::vector<Term>;

struct Tensor {
  std::string name;
  std::vector<Subscript> subscripts;  ///< one per dimension
  int64_t element_bytes = 4;
};

/// One compute-intensive operator.
struct Member {
  std::string name;
  std::vector<int> loops;  ///< positions in Chain.loops
  std::vector<int> inputs;
  int output = 0;
  double flops = 2;  ///< per iteration of its loops
};

/// Members in topological order. A tensor that one member writes and a later one reads is an intermediate: it
/// stays in the fast memory and is no traffic.
struct Chain {
  std::string name;
  std::vector<Loop> loops;
  std::vector<Tensor> tensors;
  std::vector<Member> members;

  bool isIntermediate(int tensor) const;
  /// Whether `loop` occurs in a subscript of `tensor`.
  bool accesses(int tensor, int loop) const;
  /// Returns the position of the loop of that name, -1 if there is none.
  int loopNamed(const std::string& name) const;
};

/// Returns OK, or INVALID_ARGUMENT naming the faulty loop, tensor or member.
absl::Status validate(const Chain& chain);

/// Whether the loops of a dimension are digits of one number, each with a stride of the product of the lower ones, as a
/// view that merges dimensions leaves them. Such a dimension has no overlapping windows.
bool areDigits(const Chain& chain, Subscript subscript);

/// Returns the elements of `tensor` that a block touches: per dimension 1 + sum of stride * (tile - 1).
int64_t footprint(const Chain& chain, int tensor, const std::vector<int64_t>& tiles);

/// Returns a text that is equal for chains that differ only in names.
std::string structuralKey(const Chain& chain);

/// Returns each member of `chain` as a chain of one, to predict the time of separate execution.
std::vector<Chain> unfused(const Chain& chain);

}  // namespace tessera::compiler::fusion
