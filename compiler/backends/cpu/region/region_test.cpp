// Chains of products slice by slice, with and without softmax, against the oracle and against the same without fusion.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/testing/chain_text.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "proto/messages/failure.h"

namespace tessera::compiler::codegen::testing {
namespace {

/// A B C, or softmax(A B) C.
std::string productChain(const Chain& chain, bool with_softmax) {
  WorkloadText text;
  const auto [batch, m, n, k, l, element, transposed] = chain;
  const Tensor a = text.argument({batch, m, k}, element);
  const Tensor b = text.argument(transposed ? std::vector{batch, n, k} : std::vector{batch, k, n}, element);
  const Tensor c = text.argument({batch, n, l}, element);
  Tensor s = batchProduct(text, a, b, transposed);
  if (with_softmax) s = softmax(text, s);
  return text.finish({batchProduct(text, s, c)});
}

/// The whole workload in one phase, its intermediates in scratch only.
void expectOneRegion(const v1::KernelInfo& info, int64_t slices) {
  ASSERT_GE(info.phases_size(), 1);
  const auto& last = info.phases(info.phases_size() - 1);
  EXPECT_EQ(last.grid(), slices);
  EXPECT_NE(last.strategy().find("region of"), std::string::npos) << last.strategy();
  EXPECT_LE(info.phases_size(), 2);
  if (info.phases_size() == 2) EXPECT_EQ(info.phases(0).strategy(), "pack");
  if (info.phases_size() == 1) EXPECT_EQ(info.workspace_bytes(), 0);
  EXPECT_GT(info.scratch_bytes(), 0);
}

TEST(Region, ProductsRowByRow) {
  for (const Chain& chain : {Chain{1, 64, 48, 32, 40}, Chain{3, 33, 65, 17, 19}, Chain{2, 7, 5, 3, 1}})
    expectOneRegion(checkWorkload(productChain(chain, false), chained({{"d0", 1}, {"d1", 16}})),
                    chain.batch * ((chain.m + 15) / 16));
}

TEST(Region, IntermediateIsAsLargeAsOneSlice) {
  const Chain chain{2, 96, 80, 24, 32};
  const auto info = checkWorkload(productChain(chain, false), chained({{"d0", 1}, {"d1", 16}}));
  expectOneRegion(info, 12);
  EXPECT_LT(info.scratch_bytes(), 96 * 80 * 4) << "a whole intermediate would be 61 kB";
  EXPECT_GE(info.scratch_bytes(), 16 * 80 * 4);
  EXPECT_TRUE(info.phases(info.phases_size() - 1).strategy().starts_with("region of 2 nests, 12 slices of 1x16x32"))
      << info.phases(info.phases_size() - 1).strategy();
}

TEST(Region, ColumnsInnermostComputeTheIntermediateOnce) {
  expectOneRegion(checkWorkload(productChain({2, 40, 24, 16, 50}, false), chained({{"d0", 1}, {"d1", 8}, {"d2", 16}})),
                  2 * 5 * 4);
  // Columns outermost: the intermediate is recomputed for each block of them.
  expectOneRegion(checkWorkload(productChain({2, 40, 24, 16, 50}, false), chained({{"d2", 16}, {"d0", 1}, {"d1", 8}})),
                  2 * 5 * 4);
}

TEST(Region, AttentionWithWholeRows) {
  for (const Chain& chain : {Chain{2, 48, 64, 32, 32}, Chain{3, 29, 37, 19, 23}, Chain{2, 48, 64, 32, 32, "f32", true},
                             Chain{1, 5, 1, 3, 2}, Chain{2, 33, 30, 16, 17, "f64"}})
    expectOneRegion(checkWorkload(productChain(chain, true), chained({{"d0", 1}, {"d1", 16}})),
                    chain.batch * ((chain.m + 15) / 16));
}

TEST(Region, RowsOfASoftmaxStayInL1) {
  // 701 scores are 2.8 kB: about five rows in half of L1; the last strip and the last slice are short.
  for (const Chain& chain : {Chain{2, 50, 701, 24, 20}, Chain{1, 37, 701, 8, 5}, Chain{1, 23, 350, 8, 5, "f64"}}) {
    const auto info = checkWorkload(productChain(chain, true), chained({{"d0", 1}, {"d1", 17}}));
    expectOneRegion(info, chain.batch * ((chain.m + 16) / 17));
    EXPECT_NE(info.phases(info.phases_size() - 1).strategy().find("rows at a time"), std::string::npos)
        << info.phases(info.phases_size() - 1).strategy();
  }
}

TEST(Region, AttentionWithRunningMaximum) {
  for (const Chain& chain : {Chain{2, 48, 64, 32, 32}, Chain{3, 29, 37, 19, 23}, Chain{2, 48, 64, 32, 32, "f32", true},
                             Chain{1, 5, 7, 3, 2}, Chain{2, 33, 30, 16, 17, "f64"}}) {
    const auto info = checkWorkload(productChain(chain, true), chained({{"d0", 1}, {"d1", 16}, {"r0", 6}}));
    expectOneRegion(info, chain.batch * ((chain.m + 15) / 16));
    EXPECT_NE(info.phases(info.phases_size() - 1).strategy().find("blocks of r0"), std::string::npos);
  }
}

TEST(Region, RunningMaximumNeedsNoWholeRow) {
  const std::string ir = productChain({1, 32, 512, 16, 16}, true);
  const auto rows = checkWorkload(ir, chained({{"d1", 16}})),
             blocks = checkWorkload(ir, chained({{"d1", 16}, {"r0", 32}}));
  EXPECT_GE(rows.scratch_bytes(), 16 * 512 * 4);
  EXPECT_LT(blocks.scratch_bytes(), 16 * 512 * 4 / 2);
}

/// A softmax between two products has one pass for the maximum and one for powers and sum; the division is in the
/// product.
TEST(Region, SoftmaxIsTwoPassesOverTheRows) {
  for (const Chain& chain : {Chain{3, 48, 64, 32, 32}, Chain{2, 37, 41, 16, 20}, Chain{1, 5, 3, 2, 1}}) {
    const auto info = checkWorkload(productChain(chain, true), chained({{"d0", 1}, {"d1", 16}}));
    EXPECT_TRUE(info.phases(info.phases_size() - 1).strategy().starts_with("region of 4 nests"))
        << info.phases(info.phases_size() - 1).strategy();
  }
}

/// A NaN or an infinity affects its own row only, as with whole rows of a softmax.
TEST(Region, NoNumbersSpoilTheirRowsAlone) {
  constexpr int64_t kRows = 24, kColumns = 40, kDepth = 8;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  const std::string ir = productChain({1, kRows, kColumns, kDepth, 16}, true);
  std::vector<std::vector<float>> operands{
      std::vector<float>(kRows * kDepth), std::vector<float>(kDepth * kColumns), std::vector<float>(kColumns * 16), {}};
  std::mt19937 random(7);
  std::uniform_real_distribution<float> real(-1, 1);
  for (int i = 0; i < 3; ++i)
    for (float& value : operands[i]) value = real(random);
  for (int64_t k = 0; k < kDepth; ++k) operands[0][3 * kDepth + k] = 0;
  operands[0][3 * kDepth] = kNan;
  operands[0][9 * kDepth] = kInf;  // infinite scores of both signs
  operands[0][17 * kDepth] = 1e30F;
  for (const Tiling& tiling : {Tiling{{"d1", 8}}, Tiling{{"d1", 8}, {"r0", 16}}}) {
    std::vector<std::vector<float>> results;
    for (const bool whole : {true, false}) {
      auto built = buildByDefault(hostUnit(ir), whole ? ScheduleRequest{.row_regions = false} : slicesOf(tiling));
      ASSERT_TRUE(built.ok()) << built.status().message();
      auto loaded = LoadedUnit::load(*built);
      ASSERT_TRUE(loaded.ok());
      operands[3].assign(kRows * 16, -1.0F);
      std::vector<void*> pointers;
      for (auto& operand : operands) pointers.push_back(operand.data());
      (*loaded)->run(pointers, 1);
      results.push_back(operands[3]);
    }
    for (int64_t i = 0; i < kRows * 16; ++i) {
      const int64_t row = i / 16;
      EXPECT_EQ(std::isnan(results[1][i]), row == 3 || row == 9) << row;
      EXPECT_EQ(std::isnan(results[1][i]), std::isnan(results[0][i])) << row;
      if (!std::isnan(results[0][i])) {
        EXPECT_NEAR(results[1][i], results[0][i], 2e-6F) << row;
      }
    }
  }
}

/// Operands and results of the next slices are prefetched if those of two slices fit in L2.
TEST(Region, NextSlicesAreFetchedAhead) {
  auto strategy = [](const Chain& chain) {
    v1::BuildUnit unit = hostUnit(productChain(chain, true));
    for (int64_t bytes : {32 << 10, 1 << 20}) unit.add_memory()->set_capacity_bytes(bytes);
    auto built = buildByDefault(unit, slicesOf({{"d0", 1}, {"d1", 16}}));
    EXPECT_TRUE(built.ok()) << built.status().message();
    return built.ok() ? built->info().phases(built->info().phases_size() - 1).strategy() : std::string();
  };
  EXPECT_NE(strategy({3, 64, 128, 64, 32}).find("4 operands of the next slices fetched ahead"), std::string::npos);
  EXPECT_EQ(strategy({3, 64, 2048, 64, 64}).find("fetched"), std::string::npos);
}

TEST(Region, TilesThatDoNotCutAreWhole) {
  expectOneRegion(checkWorkload(productChain({1, 20, 24, 16, 12}, true), chained({{"d1", 64}})), 1);
}

TEST(Region, RandomChains) {
  std::mt19937 random(11);
  auto pick = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  for (unsigned seed = 0; seed < 40; ++seed) {
    Chain chain{pick({1, 2, 3}), pick({1, 13, 32, 50}), pick({1, 7, 31, 64}), pick({1, 8, 37}), pick({1, 16, 45})};
    chain.element = seed % 5 == 4 ? "f64" : "f32";
    chain.transposed = random() % 2 != 0;
    Tiling tiling;
    if (random() % 4) tiling.emplace_back("d0", pick({1, 2}));
    if (random() % 4) tiling.emplace_back("d1", pick({1, 6, 14, 16, 64}));
    if (random() % 3 == 0) tiling.emplace_back("d2", pick({8, 16, 20}));
    const bool with_softmax = random() % 2;
    std::shuffle(tiling.begin(), tiling.end(), random);
    if (with_softmax && random() % 2) tiling.emplace_back("r0", pick({1, 8, 15, 200}));
    if (tiling.empty()) tiling.emplace_back("d1", 12);
    checkWorkload(productChain(chain, with_softmax), chained(tiling, seed));
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(Region, BlockOfAnMlp) {
  WorkloadText text;
  auto product = [&](const Tensor& a, const Tensor& b) {
    return text.generic({a, b}, {"d0, d2", "d2, d1", "d0, d1"}, text.fill({a.shape[0], b.shape[1]}, "0.0"), 3, "ppr",
                        kMultiplyAdd);
  };
  const Tensor x = text.argument({50, 24}), w1 = text.argument({24, 96}), bias = text.argument({96}),
               w2 = text.argument({96, 24});
  const Tensor hidden = relu(text, text.generic({product(x, w1), bias}, {"d0, d1", "d1", "d0, d1"},
                                                text.empty({50, 96}), 2, "", "%r = arith.addf %i0, %i1 : f32"));
  const Tensor y = text.generic({product(hidden, w2), x}, {"d0, d1", "d0, d1", "d0, d1"}, text.empty({50, 24}), 2, "",
                                "%r = arith.addf %i0, %i1 : f32");
  const auto info = checkWorkload(text.finish({y}), chained({{"d0", 12}}));
  expectOneRegion(info, 5);
  EXPECT_LE(info.scratch_bytes(), 12 * (96 + 16) * 4 + 24 * 96 * 8);
}

TEST(Region, HeadsJoinedInTheResult) {
  WorkloadText text;  // [heads, m, l] -> [m, heads * l], the way a transformer joins its heads
  const int64_t heads = 3, m = 20, n = 24, l = 16;
  const Tensor a = text.argument({heads, m, 8}), b = text.argument({heads, n, 8}), c = text.argument({heads, n, l});
  const Tensor y = batchProduct(text, softmax(text, batchProduct(text, a, b, true)), c);
  const Tensor turned = text.generic({y}, {"d1, d0, d2", "d0, d1, d2"}, text.empty({m, heads, l}), 3, "",
                                     "%z = arith.constant 0.0 : f32\n    %r = arith.addf %i0, %z : f32");
  const Tensor joined =
      text.raw("tensor.collapse_shape " + turned.name + " [[0], [1, 2]] : " + turned.type() + " into tensor<20x48xf32>",
               {m, heads * l});
  const std::string ir = text.finish({joined});
  expectOneRegion(checkWorkload(ir, chained({{"d1", l}, {"d0", 8}})), 3 * 3);
  expectOneRegion(checkWorkload(ir, chained({{"d1", l}, {"d0", 8}, {"r0", 10}})), 3 * 3);
  auto built = buildByDefault(hostUnit(ir), slicesOf({{"d1", 24}}));  // one and a half heads
  ASSERT_FALSE(built.ok());
  EXPECT_NE(built.status().message().find("would cut through"), std::string_view::npos) << built.status();
}

// Rows that would share few sets of the near level are padded, as the tree says. Sums that only pass in registers have
// no memory, and no tree describes them: they must not decide which loops merge.
TEST(Region, WhatLiesNowhereIsNotSpread) {
  WorkloadText text;
  const Tensor x = text.argument({16, 5, 5}), w = text.argument({5, 16});
  const Tensor square =
      text.generic({x}, {"d0, d1, d2", "d0, d1, d2"}, text.empty({16, 5, 5}), 3, "", "%r = arith.mulf %i0, %i0 : f32");
  const Tensor sum = text.generic({square, w}, {"d0, d1, d3", "d3, d2", "d0, d1, d2"}, text.fill({16, 5, 16}, "0.0"), 4,
                                  "pppr", kMultiplyAdd);
  CheckOptions options = chained({{"d0", 4}});
  options.adjust = [](v1::BuildUnit& unit) {
    for (const auto& [name, bytes] : {std::pair("L1", 4 << 10), {"L2", 64 << 10}}) {
      v1::MemoryLevel& level = *unit.add_memory();
      level.set_name(name);
      level.set_capacity_bytes(bytes);
    }
  };
  expectOneRegion(checkWorkload(text.finish({relu(text, sum)}), options), 4);
}

TEST(Region, SeveralResultsAreCutTogether) {
  WorkloadText text;
  const Tensor a = text.argument({2, 30, 16}), b = text.argument({2, 16, 20}), c = text.argument({2, 20, 12});
  const Tensor p = softmax(text, batchProduct(text, a, b));
  checkWorkload(text.finish({batchProduct(text, p, c), p}), chained({{"d0", 1}, {"d1", 8}}));
}

/// A product with bias and residual whose rows are summed and scaled: the whole row is in cache when its sum is known.
/// `kept`: the rows before that are a result as well.
std::string normalizedProduct(int64_t m, int64_t k, int64_t n, bool kept) {
  WorkloadText text;
  const Tensor a = text.argument({1, m, k}), b = text.argument({1, k, n}), bias = text.argument({n}),
               residual = text.argument({1, m, n});
  const Tensor sum =
      text.generic({batchProduct(text, a, b), bias, residual}, {"d0, d1, d2", "d2", "d0, d1, d2", "d0, d1, d2"},
                   text.empty({1, m, n}), 3, "", "%s = arith.addf %i0, %i1 : f32\n    %r = arith.addf %s, %i2 : f32");
  const Tensor square = text.generic({sum}, {"d0, d1, d2", "d0, d1"}, text.fill({1, m}, "1.0"), 3, "ppr",
                                     "%s = arith.mulf %i0, %i0 : f32\n    %r = arith.addf %o, %s : f32");
  const Tensor rows =
      text.generic({sum, square, bias}, {"d0, d1, d2", "d0, d1", "d2", "d0, d1, d2"}, text.empty({1, m, n}), 3, "",
                   "%s = math.sqrt %i1 : f32\n    %q = arith.divf %i0, %s : f32\n"
                   "    %r = arith.mulf %q, %i2 : f32");
  return kept ? text.finish({rows, sum}) : text.finish({rows});
}

TEST(Region, RowsAreNormalizedWhereTheyWereMade) {
  unsigned seed = 1;
  for (const auto& [m, k, n] :
       {std::tuple<int64_t, int64_t, int64_t>{37, 13, 29}, {64, 1, 48}, {11, 70, 1}, {19, 300, 131}})
    for (const bool kept : {false, true})
      for (const int64_t rows : {1, 8, 10}) {
        SCOPED_TRACE(::testing::Message() << m << "x" << k << "x" << n << " in " << rows << (kept ? ", kept" : ""));
        const auto info = checkWorkload(normalizedProduct(m, k, n, kept), chained({{"d1", rows}}, seed++));
        EXPECT_EQ(info.phases(info.phases_size() - 1).grid(), (m + rows - 1) / rows);
        // An intermediate that is also a result is written to the result only, not to scratch.
        if (n > 1) EXPECT_EQ(info.scratch_bytes() < rows * n * 4, kept) << info.scratch_bytes();
      }
}

/// Three to eight products in sequence, with the rows of the last one normalized.
TEST(Region, ProductsInARowAndANormalization) {
  constexpr std::array<int64_t, 9> kWidths = {23, 41, 64, 17, 1, 33, 29, 7, 40};
  unsigned seed = 1;
  for (const size_t products : {3, 5, 8})
    for (const int64_t m : {1, 31, 64}) {
      WorkloadText text;
      Tensor x = text.argument({1, m, kWidths[0]});
      for (size_t i = 0; i < products; ++i)
        x = relu(text, batchProduct(text, x, text.argument({1, kWidths[i], kWidths[i + 1]})));
      checkWorkload(text.finish({softmax(text, x)}), chained({{"d1", 7}}, seed++));
    }
}

/// A product that sums over the results of all heads, after their softmax.
TEST(Region, AttentionWithItsProjection) {
  for (const int64_t rows : {5, 16}) {
    WorkloadText text;
    const Tensor q = text.argument({3, 37, 8}), k = text.argument({3, 8, 29}), v = text.argument({3, 29, 11});
    const Tensor heads = batchProduct(text, softmax(text, batchProduct(text, q, k)), v);
    const Tensor y = text.generic({heads, text.argument({3, 11, 21})}, {"d2, d0, d3", "d2, d3, d1", "d0, d1"},
                                  text.fill({37, 21}, "0.0"), 4, "pprr", kMultiplyAdd);
    checkWorkload(text.finish({y}), chained({{"d0", rows}}));
  }
}

TEST(Region, SlicesOfAnyRangeGiveTheSameBytes) {
  const std::string ir = productChain({2, 37, 40, 24, 20}, true);
  auto built = buildByDefault(hostUnit(ir), slicesOf({{"d0", 1}, {"d1", 8}}));
  ASSERT_TRUE(built.ok()) << built.status().message();
  auto loaded = LoadedUnit::load(*built);
  ASSERT_TRUE(loaded.ok());
  std::mt19937 random(3);
  std::uniform_real_distribution<float> real(-2, 2);
  std::vector<std::vector<float>> operands{std::vector<float>(2 * 37 * 24), std::vector<float>(2 * 24 * 40),
                                           std::vector<float>(2 * 40 * 20), std::vector<float>(2 * 37 * 20)};
  for (int i = 0; i < 3; ++i)
    for (float& value : operands[i]) value = real(random);
  std::vector<void*> pointers;
  for (auto& operand : operands) pointers.push_back(operand.data());
  (*loaded)->run(pointers, 1);
  const std::vector<float> whole = operands[3];
  for (int pieces : {2, 3, 7, 10}) {
    std::fill(operands[3].begin(), operands[3].end(), -1.0F);
    (*loaded)->poison();
    (*loaded)->run(pointers, pieces);
    EXPECT_EQ(operands[3], whole) << pieces << " ranges";
  }
}

/// The failure of a build with this tiling.
v1::Failure refused(const std::string& ir, const Tiling& tiling) {
  auto built = buildByDefault(hostUnit(ir), slicesOf(tiling));
  EXPECT_FALSE(built.ok());
  if (built.ok()) return {};
  EXPECT_EQ(built.status().code(), absl::StatusCode::kInvalidArgument) << built.status();
  return failureOf(built.status());
}

TEST(Region, RefusesWhatCannotBeCut) {
  const std::string ir = productChain({2, 8, 8, 8, 8}, true);
  EXPECT_NE(refused(ir, {{"d3", 1}}).message().find("\"d3\" names no dimension"), std::string::npos);
  EXPECT_NE(refused(ir, {{"d1", 0}}).message().find("extent 0"), std::string::npos);
  EXPECT_NE(refused(ir, {{"d1", 2}, {"d0", 1}, {"d1", 4}}).message().find("twice"), std::string::npos);
  EXPECT_NE(refused(ir, {{"d1", 2}, {"d1", 4}}).message().find("parts of 2"), std::string::npos);
  EXPECT_NE(refused(ir, {{"d1", 6}, {"d1", 4}}).message().find("parts of 6"), std::string::npos);
  // Rows of products share nothing, nor do those of a softmax.
  EXPECT_NE(refused(ir, {{"d1", 4}, {"d1", 2}}).message().find("a softmax keeps no rows"), std::string::npos);
  EXPECT_NE(refused(productChain({2, 8, 8, 8, 8}, false), {{"d1", 4}, {"d1", 2}}).message().find("share no rows"),
            std::string::npos);
  EXPECT_EQ(refused(productChain({2, 8, 8, 8, 8}, false), {{"r0", 2}}).found(), "r0");
  EXPECT_NE(refused(ir, {{"r0", 2}, {"d1", 4}}).message().find("not the last"), std::string::npos);
  // Every slice would write a result that is a sum over the dimension that is cut.
  WorkloadText text;
  const Tensor x = text.argument({12, 10});
  const Tensor y = text.generic({x}, {"d0, d1", "d0, d1"}, text.empty({12, 10}), 2, "", "%r = math.exp %i0 : f32");
  const Tensor sum =
      text.generic({y}, {"d0, d1", "d0"}, text.fill({12}, "0.0"), 2, "pr", "%r = arith.addf %i0, %o : f32");
  const auto failure = refused(text.finish({y, sum}), {{"d1", 5}});
  EXPECT_NE(failure.message().find("cannot be cut along d1"), std::string::npos) << failure.message();
  EXPECT_EQ(failure.attribute(), "schedule.chain");
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing
