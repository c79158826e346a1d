#pragma once

#include <cstdint>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compiler/cost/bound_tree.h"

/// The buffers of a simulated run, with the elements that each instance holds.
namespace tessera::compiler::cost {

using Indices = std::vector<int64_t>;   ///< one iteration of each loop around a tile
using Elements = std::vector<int64_t>;  ///< numbers of elements of one tensor, ascending

/// What one instance of a buffer holds.
struct Content {
  Indices place;      ///< iterations of the spatial loops, 0 for temporal ones
  size_t source = 0;  ///< number of the instance that serves it
  Indices key;        ///< of the slices below; empty: nothing is held
  Elements elements;  ///< of all users
  Elements written;   ///< of these, what the writer makes
};

/// A buffer for one tensor and the children of one tile that use it, or the operands of a leaf's instruction.
struct Buffer {
  int tile = 0, level = -1, tensor = 0;
  int source = 0;                                         ///< tile that holds the tensor outside
  int source_buffer = -1;                                 ///< of that tile; -1: the outermost memory
  std::vector<std::pair<int, const BoundAccess*>> users;  ///< statements
  std::vector<size_t> children;                           ///< of the tile, that have users; 0 for operands
  bool reads = false, writes = false;
  bool leaves = false;  ///< the written tensor has readers elsewhere, or none
  std::vector<Content> instances;
  std::vector<std::unordered_set<int64_t>> begun;  ///< of each instance of the source: elements with a partial sum
  std::vector<int64_t> sizes;                      ///< of the tensor's dimensions, to number elements
};

/// All buffers, those of outer tiles first.
std::vector<Buffer> buffersOf(const BoundTree& tree);

/// The step of one instance: brings `key` (which differs between different slices) up to date and returns whether the
/// instance has work.
bool keyOf(const BoundTree& tree, const Buffer& buffer, const Indices& step, const Indices& place, Indices& key);
/// The elements that the users (or the writer alone) access in the step of a key.
Elements elementsOf(const BoundTree& tree, const Buffer& buffer, const Indices& key, bool of_writer);

}  // namespace tessera::compiler::cost
