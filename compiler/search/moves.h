#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/v1/schedule.pb.h"

/// Changes of one tile of a tree that keep dependent fields consistent. Each returns whether there was anything to
/// change; if not, the tile's state is undefined.
namespace tessera::compiler::search {

/// Loop numbers: "i12" and "r3" give 12 and 3; -1 for any other name.
int numberOf(const std::string& dimension);
/// Whether this is a reduction loop.
bool sums(const std::string& dimension);
/// Whether the kernel copies an operand.
bool copies(const v1::Kernel& kernel);
/// Whether the kernel runs a nest.
bool computes(const v1::Kernel& kernel);

/// Points of a register tile along a loop: vectors along the vector loop, iterations along others.
int64_t pointsAlong(const v1::Kernel& kernel, const v1::Extent& extent);

/// Updates the list of loops with several points in the tile: listed loops keep their order, new ones are appended
/// before the vector loop. Clears interleaving if only a single point remains.
void orderPoints(v1::Kernel& kernel);

/// Whether the leaf may order the points of a step by the depth of their operations: it needs two or more points.
bool canInterleave(const v1::Kernel& kernel);

/// Removes loops of the leaf with a single iteration: those whose step is at least the loop's length.
void dropWholeLoops(v1::Tile& leaf, const std::string& dimension, int64_t extent);

/// Selects another kernel for the same nest; prefetches and interleaving that it does not support are removed.
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
/// Adds a block loop around them: outermost in time, or in the grid if the other loops of this dimension are there.
bool addBlock(v1::Tile& leaf, const std::string& dimension, int64_t step);

/// Removes stage `index` of the leaf and the leaves that fill it.
bool dropStage(v1::Schedule& schedule, v1::Tile& leaf, int index);

}  // namespace tessera::compiler::search
