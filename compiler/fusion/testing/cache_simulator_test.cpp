#include "compiler/fusion/testing/cache_simulator.h"

#include <gtest/gtest.h>

#include "compiler/fusion/testing/block_program.h"
#include "compiler/fusion/testing/thesis_chains.h"

namespace tessera::compiler::fusion {
namespace {

TEST(CacheSimulator, LeastRecentlyUsedOfASetGoes) {
  CacheSimulator cache({{4 * 64, 2, 64}});  // 2 sets x 2 ways
  for (int64_t line : {0, 2, 0, 4, 0, 2}) cache.touch(line);
  EXPECT_EQ(cache.fills(0), 4);  // 0, 2, 4 over 2, 2 over 4; 0 stays
  cache.touch(1);
  EXPECT_EQ(cache.fills(0), 5);  // the other set
}

TEST(CacheSimulator, AStreamLargerThanTheCacheMissesEachTime) {
  CacheSimulator cache({{64 * 64, 8, 64}, {256 * 64, 16, 64}});
  for (int pass = 0; pass < 3; ++pass) cache.touchRun(0, 128);
  EXPECT_EQ(cache.fills(0), 3 * 128);
  EXPECT_EQ(cache.fills(1), 128);  // the farther level keeps it
}

TEST(BlockProgram, FullyAssociativeCacheSeesWhatAlgorithmOneSays) {
  // Blocks of whole lines that divide the extents. MU is the need of one member; two more blocks let the block of the
  // intermediate survive the change from one member to the other.
  const Chain chain = gemmChain(1, 128, 128, 128, 128);
  const Order order = {0, 1, 2, 3};
  const Tiles tiles = {32, 32, 32, 32};
  const Movement moved = analyse(chain, order, tiles);
  const auto capacity = static_cast<int64_t>(moved.memory_bytes) * 5 / 3;
  CacheSimulator cache({{capacity, static_cast<int>(capacity / 64), 64}});
  trace({chain, order, tiles, 32}, cache);
  const double measured = 64.0 * static_cast<double>(cache.fills(0));
  EXPECT_NEAR(measured / moved.volume_bytes, 1, 0.1);
  // The intermediate is written and read in place: moving it would fill 128 x 128 more.
  EXPECT_LT(measured, moved.volume_bytes + 4.0 * 128 * 128);
}

}  // namespace
}  // namespace tessera::compiler::fusion
