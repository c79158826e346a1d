#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

/// Operator chains as blocks (Chimera): loops, tensors with affine access functions, members. Plain values, no
/// MLIR, so that analysis and tests take milliseconds.
namespace tessera::compiler::fusion {

/// An independent loop of a chain. Loops that two members share are one loop here.
struct Loop {
  std::string name;
  int64_t extent = 1;
  int64_t min_tile = 1;  ///< lower bound of a block, set by the instructions (alpha of equation 3.18)
  bool whole = false;    ///< never cut: windows of convolutions, rows of a normalization
  int64_t multiple = 1;  ///< blocks are multiples of it (or the whole extent): vectors, register tiles
  int64_t fewest = 0;    ///< points of the smallest run, where runs may have less than the extent; 0: all have that
};

/// stride * loop; a subscript is the sum of its terms, so h * 2 + r is {{h, 2}, {r, 1}}.
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
  /// Position of the loop of that name, -1 when there is none.
  int loopNamed(const std::string& name) const;
};

/// OK, or INVALID_ARGUMENT naming the loop, tensor or member at fault.
absl::Status validate(const Chain& chain);

/// Whether a dimension is several loops as digits are a number, each in steps of all below it (a view has merged them):
/// nothing slides over anything, as windows do.
bool areDigits(const Chain& chain, Subscript subscript);

/// Elements of `tensor` a block touches: per dimension 1 + sum of stride * (tile - 1).
int64_t footprint(const Chain& chain, int tensor, const std::vector<int64_t>& tiles);

/// Equal for chains that are equal but for names.
std::string contentOf(const Chain& chain);

/// The members of `chain` one after another, as chains of one member: what is compared with when fusing is priced.
std::vector<Chain> unfused(const Chain& chain);

}  // namespace tessera::compiler::fusion
