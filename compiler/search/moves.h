#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/v1/schedule.pb.h"

/// Changes of one tile of a tree that keep what depends on it consistent. Each returns whether there was anything to
/// change; a tile is left in no defined state otherwise.
namespace tessera::compiler::search {

/// "i12" and "r3" name loops: 12 and 3; -1 for anything else.
int numberOf(const std::string& dimension);
/// Whether such a loop adds up.
bool sums(const std::string& dimension);
/// Whether it copies an operand.
bool copies(const v1::Kernel& kernel);
/// Whether it runs a nest.
bool computes(const v1::Kernel& kernel);

/// Points of a register tile along a loop: vectors along the vector loop, iterations along others.
int64_t pointsAlong(const v1::Kernel& kernel, const v1::Extent& extent);

/// Names the loops of which the tile holds several points: those that did stay in their order, others come behind them,
/// before the vector loop. A single point has no operations to interleave with.
void orderPoints(v1::Kernel& kernel);

/// Whether the leaf may evaluate the points of a step by the depth of their operations: there are two or more.
bool mayInterleave(const v1::Kernel& kernel);

/// Leaves out loops of the leaf that go round once: steps as long as the loop, or longer.
void dropWholeLoops(v1::Tile& leaf, const std::string& dimension, int64_t extent);

/// Another kernel for the same nest; what it cannot fetch, or interleave, is left out.
bool setVariant(v1::Tile& leaf, std::string_view variant);

/// Vectors go along another loop, by the kernel that does so; tiles stay as they are. Not where an operand lies in
/// panels: they are as wide as the vectors' tile.
bool setVectorLoop(v1::Tile& leaf, const std::string& dimension);

/// Iterations of the register tile along a loop; 1 where it is not named.
int64_t tileAlong(const v1::Kernel& kernel, const std::string& dimension);

/// Sets it: the loops that walk tiles follow, blocks stay multiples of them, points are those with several.
bool setTile(v1::Tile& leaf, const std::string& dimension, int64_t size);

/// The copies to panels of `leaf` along `dimension`: panels are as wide as the tile. `phases`: of the whole tree.
void setPanels(v1::Schedule& schedule, v1::Tile& leaf, const std::string& dimension, int64_t old_size, int64_t size);

/// Steps of the loops in blocks along a dimension, outermost first: each a multiple of the next one's.
std::vector<int64_t> blocksAlong(const v1::Tile& leaf, const std::string& dimension);
/// Sets those of the block loop at position `level`; 0 leaves it out.
bool setBlock(v1::Tile& leaf, const std::string& dimension, size_t level, int64_t step);
/// All of them: where there are as many, they keep their places, else they are made anew.
void setBlocks(v1::Tile& leaf, const std::string& dimension, const std::vector<int64_t>& steps);
/// One more around them: outermost in time, or in the grid where the loop's others are.
bool addBlock(v1::Tile& leaf, const std::string& dimension, int64_t step);

/// Leaves out stage `index` of the leaf and the leaves that fill it.
bool dropStage(v1::Schedule& schedule, v1::Tile& leaf, int index);

}  // namespace tessera::compiler::search
