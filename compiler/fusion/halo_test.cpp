#include "compiler/fusion/halo.h"

#include <gtest/gtest.h>

#include "compiler/fusion/movement.h"

namespace tessera::compiler::fusion {
namespace {

/// Rows of a 3x1 convolution of stride 2 after one of stride 1: B[h + r, k] = A[h + r + q] W, C[h] = B[2 h + r, k] V.
Chain twoWindows() {
  const auto access = [](const char* name, const std::vector<std::vector<Term>>& dimensions) {
    Access made{.name = name};
    for (const std::vector<Term>& terms : dimensions) made.subscripts.push_back({.terms = terms});
    return made;
  };
  Chain chain{.name = "windows",
              .loops = {{"h", 14}, {"r", 3, 1, true}, {"q", 5, 1, true}, {"k", 8}},
              .accesses = {access("A", {{{0, 2}, {1, 1}, {2, 1}}}), access("W", {{{2, 1}}, {{3, 1}}}),
                           access("B", {{{0, 2}, {1, 1}}, {{3, 1}}}), access("V", {{{1, 1}}, {{3, 1}}}),
                           access("C", {{{0, 1}}})},
              .statements = {{"first", {0, 1, 2, 3}, {0, 1}, 2}, {"second", {0, 1, 3}, {2, 3}, 4}}};
  return chain;
}

TEST(Halo, SlicesAddWhatTheLoopStepsOver) {
  const Chain chain = twoWindows();
  const Tiles tiles{3, 3, 5, 8};
  EXPECT_EQ(footprint(chain, 2, tiles), 7 * 8);
  EXPECT_EQ(newElements(chain, 2, tiles, 0), 6 * 8);
  EXPECT_EQ(haloElements(chain, 2, tiles, 0), 1 * 8);  // 7 rows for 3 of C, 6 of them new
  EXPECT_EQ(newElements(chain, 4, tiles, 0), 3);
  EXPECT_EQ(haloElements(chain, 0, tiles, 0), 4);  // 10 rows for 6 new ones of B: a window of 5
  EXPECT_TRUE(overlaps(chain, tiles, 0));
  EXPECT_FALSE(overlaps(chain, tiles, 3));
}

TEST(Halo, OnePartIsTheWorkOfTheChainAndItsFirstHalo) {
  const Chain chain = twoWindows();
  const Tiles tiles{2, 3, 5, 8};
  const double again = flopsOf(chain, tiles), kept = flopsInSequences(chain, tiles, 0, 1);
  EXPECT_EQ(flopsInSequences(chain, tiles, 0, 7), again);  // every slice is a part
  // 29 rows of B, not 7 times 5.
  EXPECT_NEAR(again - kept, 2.0 * 8 * 5 * (35 - 29), 1e-6);
  EXPECT_LT(flopsInSequences(chain, tiles, 0, 1), flopsInSequences(chain, tiles, 0, 2));
}

}  // namespace
}  // namespace tessera::compiler::fusion
