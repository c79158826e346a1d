#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/v1/schedule.pb.h"

/// Queries of a leaf of a tile tree, and changes of a leaf that keep dependent fields consistent. A change that returns
/// bool may be impossible: it then returns false, and the tile's state is undefined.
///
/// A register tile consists of *points* (results, or vectors of results along the vector loop), and each point of
/// *steps* (iterations of the reduction loops within the tile).
namespace tessera::compiler::search {

/// The number of a loop: the digits after the first letter, 12 for "i12" and 3 for "r3". The letter is not checked. -1
/// if no number follows it.
int loopNumber(const std::string& dimension);
/// Whether this is a reduction loop: "r3".
bool isReduction(const std::string& dimension);
/// Whether the kernel copies an operand.
bool copies(const v1::Kernel& kernel);
/// Whether the kernel runs a nest.
bool computes(const v1::Kernel& kernel);

/// Points of a register tile along a loop: vectors along the vector loop, iterations along others.
int64_t pointsAlong(const v1::Kernel& kernel, const v1::Extent& extent);

/// Updates Kernel.points, the order of the loops along which the tile has several points: listed loops keep their
/// order, new ones are inserted before the vector loop. Clears Kernel.interleaved if only one point remains.
void orderPoints(v1::Kernel& kernel);

/// Whether Kernel.interleaved may be set, which evaluates the points of the tile level by level in the dependence graph
/// of their operations. The kernel's variant must support it, and the tile must have two or more points.
bool canInterleave(const v1::Kernel& kernel);

/// Removes loops of the leaf with a single iteration: those whose step is at least the loop's length.
void dropWholeLoops(v1::Tile& leaf, const std::string& dimension, int64_t extent);

/// Selects another kernel for the same nest, and removes prefetches and interleaving that it does not support. False if
/// the leaf has this kernel already.
bool setVariant(v1::Tile& leaf, std::string_view variant);

/// Moves vectors to another loop and selects the kernel for that; tiles are unchanged. Not possible if an operand is
/// packed: panels are as wide as the tile of vectors.
bool setVectorLoop(v1::Tile& leaf, const std::string& dimension);

/// Iterations of the register tile along a loop; 1 if it is not listed.
int64_t tileAlong(const v1::Kernel& kernel, const std::string& dimension);

/// Sets the tile size along a loop: tile loops follow, blocks stay multiples of it, points are updated.
bool setTile(v1::Tile& leaf, const std::string& dimension, int64_t size);

/// Updates the copies to panels of `leaf` along `dimension`, since panels are as wide as the tile. `schedule`: the
/// whole tree.
void setPanels(v1::Schedule& schedule, v1::Tile& leaf, const std::string& dimension, int64_t old_size, int64_t size);

/// Steps of the block loops along a dimension, outermost first: each is a multiple of the next one's.
std::vector<int64_t> blocksAlong(const v1::Tile& leaf, const std::string& dimension);
/// Sets the step of the block loop at position `level`; 0 removes it.
bool setBlock(v1::Tile& leaf, const std::string& dimension, size_t level, int64_t step);
/// Sets all block steps: if their number is unchanged, the loops keep their places; otherwise they are recreated.
void setBlocks(v1::Tile& leaf, const std::string& dimension, const std::vector<int64_t>& steps);
/// Adds a block loop outside of the existing block loops of a dimension. If the dimension's outermost loop is spatial,
/// the new loop is placed directly before it and has its unit; otherwise the new loop is the outermost temporal loop.
/// False unless `step` is a larger multiple of the next inner step, or if there are kMaxBlockLevels blocks already.
bool addBlock(v1::Tile& leaf, const std::string& dimension, int64_t step);

/// Removes stage `index` of the leaf and the leaves that fill it.
bool dropStage(v1::Schedule& schedule, v1::Tile& leaf, int index);

}  // namespace tessera::compiler::search
