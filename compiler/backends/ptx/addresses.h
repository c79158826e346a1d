#pragma once

#include <vector>

#include "compiler/loopnest/nest.h"

/// Addresses of a tensor's elements as functions of a kernel's indices.
namespace tessera::compiler::ptx {

/// index / weight % extent * stride: the contribution of a part of an index to an element's number in a tensor.
struct Part {
  int64_t weight = 1, extent = 0, stride = 0;  ///< extent 0: the rest of the index
};

/// The sum of the parts.
struct Addresses {
  int64_t constant = 0;
  std::vector<Part> first, second;  ///< for the operand's two subscripts
  std::vector<Part> kept, summed;   ///< for the loops outside of the instruction: parallel ones, and reductions
};

/// The parts of an index over `loops`, slowest first, given the strides of loopnest::offsetOf(). Adjacent loops that
/// are walked as one are merged; loops that do not move the tensor are omitted.
std::vector<Part> partsOf(const loopnest::Nest& nest, const std::vector<int>& loops,
                          const std::vector<int64_t>& strides);

/// The largest n up to `most` such that each aligned group of n neighbours along an index of `extent` is contiguous in
/// the tensor, and therefore entirely inside or entirely outside of it.
int64_t neighboursOf(const std::vector<Part>& parts, int64_t extent, int64_t most);

/// Number of elements that are contiguous in the tensor along an index.
int64_t runOf(const std::vector<Part>& parts, int64_t extent);

/// The largest power of two up to `most` that divides every other contribution to an element's number.
int64_t alignmentOf(const Addresses& addresses, const std::vector<Part>& others, int64_t most);

}  // namespace tessera::compiler::ptx
