#pragma once

#include <vector>

#include "compiler/intrinsic/nest.h"

/// Where the elements of a tensor are by a kernel's indices.
namespace tessera::compiler::ptx {

/// index / weight % extent * stride: what a part of an index adds to an element's number in a tensor.
struct Part {
  int64_t weight = 1, extent = 0, stride = 0;  ///< extent 0: the rest of the index
};

/// The sum of the parts.
struct Addresses {
  int64_t constant = 0;
  std::vector<Part> first, second;  ///< of the operand's two subscripts
  std::vector<Part> kept, summed;   ///< of the loops outside of the instruction: those of results, those of sums
};

/// Elements from one value of each loop to the next, and the constant.
std::vector<int64_t> stridesOf(const intrinsic::Nest& nest, const intrinsic::Access& access, int64_t& constant);

/// The parts of an index over `loops`, slowest first: neighbours that are walked as one loop are one, and what does not
/// move the tensor is left out.
std::vector<Part> partsOf(const intrinsic::Nest& nest, const std::vector<int>& loops,
                          const std::vector<int64_t>& strides);

/// Neighbours along an index of `extent` that are neighbours in the tensor at multiples of their number, so that they
/// are all there or none.
int64_t neighboursOf(const std::vector<Part>& parts, int64_t extent, int64_t most);

/// Elements that lie side by side in the tensor along an index.
int64_t runOf(const std::vector<Part>& parts, int64_t extent);

/// The largest power of two up to `most` that everything else that is added to an element's number is a multiple of.
int64_t alignmentOf(const Addresses& addresses, const std::vector<Part>& others, int64_t most);

}  // namespace tessera::compiler::ptx
