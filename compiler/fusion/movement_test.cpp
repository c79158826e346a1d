#include "compiler/fusion/movement.h"

#include <gmock/gmock.h>

#include "compiler/fusion/testing/thesis_chains.h"

namespace tessera::compiler::fusion {
namespace {

Order orderOf(const Chain& chain, const std::string& letters) {
  Order order;
  for (char letter : letters) order.push_back(chain.loopNamed(std::string(1, letter)));
  return order;
}

int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Table 3.4 and equations 3.15, 3.16, with blocks that divide nothing.
TEST(Movement, MatchesTheThesisForMlkn) {
  const int64_t M = 500, N = 130, K = 70, L = 333, tm = 64, tn = 24, tk = 16, tl = 50;
  Chain chain = gemmChain(1, M, N, K, L);
  for (Access& tensor : chain.accesses) tensor.dtype = v1::DATA_TYPE_I8;
  ASSERT_TRUE(validateChain(chain).ok());
  const Movement moved = analyse(chain, orderOf(chain, "mlkn"), {tm, tl, tk, tn});
  // DM: all blocks of a tensor together are the tensor once, because the last ones are narrower.
  using testing::DoubleEq;
  EXPECT_THAT(moved.tensor_volume_bytes,
              testing::ElementsAre(DoubleEq(M * K * up(L, tl)), DoubleEq(K * L * up(M, tm)), 0,
                                   DoubleEq(N * L * up(M, tm)), DoubleEq(M * N * up(L, tl))));
  EXPECT_THAT(moved.tensor_footprint_bytes, testing::ElementsAre(tm * tk, tk * tl, tm * tl, tl * tn, tm * tn));
  EXPECT_EQ(moved.memory_bytes, std::max(tm * tk + tk * tl + tm * tl, tm * tl + tl * tn + tm * tn));
  EXPECT_DOUBLE_EQ(moved.volume_bytes, M * K * up(L, tl) + K * L * up(M, tm) + N * L * up(M, tm) + M * N * up(L, tl));
}

TEST(Movement, DividingBlocksGiveEquation315) {
  const int64_t E = 2048, t = 128, blocks = E / t;
  Chain chain = gemmChain(1, E, E, E, E);
  const Movement moved = analyse(chain, orderOf(chain, "mlkn"), {t, t, 1, 1});
  EXPECT_EQ(moved.volume_bytes, 4.0 * 4 * E * E * blocks);
}

// The thesis' remarks on which loops move what (section 3.4.1.1).
TEST(Movement, LoopsThatDoNotAccessATensorLeaveItAlone) {
  Chain chain = gemmChain(1, 64, 64, 64, 64);
  const Tiles tiles = {8, 8, 8, 8};
  // Under mkln, l and n are inside k and m and do not access A, so A moves once.
  EXPECT_EQ(analyse(chain, orderOf(chain, "mkln"), tiles).tensor_volume_bytes[0], 4 * 64 * 64);
  // Under mnlk the inner k replaces A, so l outside it moves A again; n is not a loop of the first product.
  EXPECT_EQ(analyse(chain, orderOf(chain, "mnlk"), tiles).tensor_volume_bytes[0], 4 * 64 * 64 * 8);
  // k is private to the first product: D and E move alike for any position of k.
  for (const char* order : {"kmln", "mkln", "mlkn", "mlnk"}) {
    const Movement moved = analyse(chain, orderOf(chain, order), tiles);
    EXPECT_EQ(moved.tensor_volume_bytes[3], 4 * 64 * 64 * 8) << order;
    EXPECT_EQ(moved.tensor_volume_bytes[4], 4 * 64 * 64 * 8) << order;
  }
}

TEST(Movement, IntermediateIsKeptAlongLoopsThatAPrivateLoopRevisits) {
  Chain chain = gemmChain(1, 64, 64, 64, 96);
  const Tiles tiles = {8, 16, 4, 2};
  auto kept = [&](const char* order) {
    return analyse(chain, orderOf(chain, order), tiles).tensor_footprint_bytes[2] / 4;
  };
  EXPECT_EQ(kept("mlkn"), 8 * 16);
  EXPECT_EQ(kept("mkln"), 8 * 96);  // k outside l: all partial sums of a row of blocks are live
  EXPECT_EQ(kept("nmlk"), 64 * 96);
  EXPECT_EQ(analyse(chain, orderOf(chain, "mkln"), tiles, IntermediateExtent::kBlock).tensor_footprint_bytes[2] / 4,
            8 * 16);
}

TEST(Movement, WindowsOfConvolutionsOverlap) {
  // 3x3 stride 2 over a 3x3: the block of the first input for 4x5 points of the last output.
  Chain chain = convolutionChain({8, 35, 35, 16, 12, 2, 1, 3, 3});
  ASSERT_TRUE(validateChain(chain).ok());
  EXPECT_EQ(chain.loops[chain.loopNamed("h")].extent, (35 - 3) / 2 + 1 - 2);
  Tiles tiles;
  for (const Loop& loop : chain.loops) tiles.push_back(loop.whole ? loop.extent : 1);
  tiles[chain.loopNamed("h")] = 4;
  tiles[chain.loopNamed("w")] = 5;
  EXPECT_EQ(footprint(chain, 2, tiles), 6 * 7);  // one channel of the intermediate: halo of 2
  EXPECT_EQ(footprint(chain, 0, tiles), (2 * 5 + 3) * (2 * 6 + 3));
  // Recomputing the halo costs work; larger blocks cost less.
  Tiles whole;
  for (const Loop& loop : chain.loops) whole.push_back(loop.extent);
  Tiles larger = tiles;
  larger[chain.loopNamed("h")] = 15;
  EXPECT_GT(flopsOf(chain, tiles), flopsOf(chain, larger));
  EXPECT_GT(flopsOf(chain, larger), flopsOf(chain));
  EXPECT_EQ(flopsOf(chain, whole), 2.0 * 17 * 17 * 16 * 8 * 9 + 2.0 * 15 * 15 * 12 * 16 * 9);
}

TEST(Movement, MembersAloneKeepTheirWork) {
  Chain chain = convolutionChain({8, 35, 35, 16, 12, 2, 1, 3, 3});
  double flops = 0;
  for (const Chain& part : unfused(chain)) {
    ASSERT_TRUE(validateChain(part).ok()) << validateChain(part);
    flops += flopsOf(part);
  }
  EXPECT_EQ(flops, flopsOf(chain));
  // The intermediate is an output of the first chain and an input of the second, so it moves.
  const std::vector<Chain> parts = unfused(gemmChain(1, 32, 32, 32, 32));
  Tiles whole(3, 32);
  EXPECT_EQ(analyse(parts[0], {0, 1, 2}, whole).volume_bytes, 4 * 3 * 32 * 32);
  EXPECT_EQ(analyse(parts[1], {0, 1, 2}, whole).volume_bytes, 4 * 3 * 32 * 32);
}

TEST(Movement, FaultsAreNamed) {
  Chain chain = gemmChain(1, 4, 4, 4, 4);
  chain.statements[1].loops = {0, 1};
  EXPECT_THAT(validateChain(chain).message(), testing::HasSubstr("'gemm2' accesses 'D' by the loop 'n'"));
  chain = gemmChain(1, 4, 4, 0, 4);
  EXPECT_THAT(validateChain(chain).message(), testing::HasSubstr("loop 'k' has extent 0"));
}

}  // namespace
}  // namespace tessera::compiler::fusion
