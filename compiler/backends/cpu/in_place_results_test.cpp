// Products whose result shares the memory of an added operand: the same values as with separate memory, whatever the
// shapes, types and tree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/random_workload.h"
#include "compiler/backends/cpu/testing/tile_emulation.h"
#include "compiler/backends/cpu/testing/workload_text.h"
#include "compiler/schedule/text.h"

namespace tessera::compiler::codegen::testing {
namespace {

using ::testing::HasSubstr;

struct Residual {
  int64_t m = 1, n = 1, k = 1;
  std::string element = "f32";  ///< of operands and result; halves are summed in f32
  bool turned = false;          ///< the right side is [n, k]
};

/// relu(a b + bias + x), over x, argument 3.
std::string residual(const Residual& shape) {
  const auto& [m, n, k, element, turned] = shape;
  const bool half = element != "f32";
  WorkloadText text;
  const std::string wide = half ? absl::StrReplaceAll(
                                      "%a = arith.extf %i0 : T to f32\n    %b = arith.extf %i1 : T to f32\n"
                                      "    %m = arith.mulf %a, %b : f32\n    %r = arith.addf %o, %m : f32",
                                      {{"T", element}})
                                : "%m = arith.mulf %i0, %i1 : f32\n    %r = arith.addf %o, %m : f32";
  const Tensor a = text.argument({m, k}, element),
               b = text.argument(turned ? std::vector{n, k} : std::vector{k, n}, element);
  const Tensor sum = text.generic({a, b}, {"d0, d2", turned ? "d1, d2" : "d2, d1", "d0, d1"}, text.fill({m, n}, "0.0"),
                                  3, "ppr", wide);
  const Tensor bias = text.argument({n}, "f32"), x = text.argument({m, n}, element);
  const std::string add = absl::StrCat(
      "%z = arith.constant 0.0 : f32\n    %s = arith.addf %i0, %i1 : f32\n    ",
      half ? absl::StrCat("%x = arith.extf %i2 : ", element, " to f32\n    %t = arith.addf %s, %x : f32\n    ")
           : "%t = arith.addf %s, %i2 : f32\n    ",
      half ? absl::StrCat("%u = arith.maximumf %t, %z : f32\n    %r = arith.truncf %u : f32 to ", element)
           : "%r = arith.maximumf %t, %z : f32");
  return text.finish(
      {text.generic({sum, bias, x}, {"d0, d1", "d1", "d0, d1", "d0, d1"}, text.empty({m, n}, element), 2, "", add)}, 3);
}

/// The same with separate memory for the result.
std::string beside(const std::string& ir) {
  return absl::StrReplaceAll(ir, {{" {tessera.written_over = 3 : i64}", ""}});
}

TEST(WrittenOver, ProductsOfOddShapes) {
  unsigned seed = 0;
  for (const Residual& shape : std::vector<Residual>{{1, 1, 1},
                                                     {1, 17, 31},
                                                     {37, 1, 5},
                                                     {7, 16, 64},
                                                     {13, 33, 67},
                                                     {29, 131, 96},
                                                     {61, 97, 9, "f32", true},
                                                     {23, 64, 3000},
                                                     {8, 48, 130, "f32", true}})
    checkWorkload(residual(shape), {.seed = ++seed});
}

TEST(WrittenOver, Halves) {
  unsigned seed = 0;
  for (const char* element : {"f16", "bf16"})
    for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 17, 31}, {13, 33, 66}, {31, 64, 7}})
      checkWorkload(residual({m, n, k, element}), {.seed = ++seed});
}

/// A convolution in channel blocks, with an added operand in the same blocks.
TEST(WrittenOver, ConvolutionsInChannelBlocks) {
  for (const auto& [height, width, kernel] : std::vector<std::array<int64_t, 3>>{{7, 7, 1}, {5, 13, 3}, {1, 1, 1}}) {
    WorkloadText text;
    const Tensor image = text.argument({1, 2, height + kernel - 1, width + kernel - 1, 16}),
                 filter = text.argument({3, 2, kernel, kernel, 16, 16}),
                 sum = text.generic({image, filter},
                                    {"d0, d5, d2 + d6, d3 + d7, d8", "d1, d5, d6, d7, d8, d4", "d0, d1, d2, d3, d4"},
                                    text.fill({1, 3, height, width, 16}, "0.0"), 9, "ppppprrrr",
                                    "%m = arith.mulf %i0, %i1 : f32\n    %r = arith.addf %o, %m : f32"),
                 x = text.argument(sum.shape);
    checkWorkload(
        text.finish({text.generic({x, sum}, {"d0, d1, d2, d3, d4", "d0, d1, d2, d3, d4", "d0, d1, d2, d3, d4"},
                                  text.empty(sum.shape), 5, "", "%r = arith.addf %i0, %i1 : f32")},
                    2));
  }
}

/// Trees that a search may try must not change the values.
TEST(WrittenOver, RandomTreesOfRandomShapes) {
  std::mt19937 random(11);
  const auto pick = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  for (unsigned seed = 1; seed <= 24; ++seed) {
    const std::string ir = residual({pick({1, 3, 8, 17, 31}), pick({1, 5, 16, 33, 64, 97}), pick({1, 7, 64, 129}),
                                     seed % 3 == 0 ? "bf16" : "f32", random() % 2 == 0});
    v1::BuildUnit unit;
    checkWorkload(ir, {.seed = seed,
                       .adjust = [&](v1::BuildUnit& built) { unit = built; },
                       .edit = [&](v1::Schedule& schedule) { randomSchedule(seed, unit, schedule); }});
  }
}

/// Partial sums have no memory: they would overwrite elements of the added operand that are read after the last block.
TEST(WrittenOver, SumsAreNotCutIntoBlocks) {
  const auto blocks = [](const std::string& ir) {
    v1::BuildUnit unit = hostUnit(ir);
    const absl::StatusOr<v1::Schedule> schedule = defaultSchedule(unit);
    EXPECT_TRUE(schedule.ok()) << schedule.status();
    return schedule.ok() ? printSchedule(*schedule) : "";
  };
  const std::string over = residual({64, 256, 4096});
  ASSERT_NE(over, beside(over));
  EXPECT_NE(blocks(over), blocks(beside(over)));
  v1::BuildUnit unit = hostUnit(over);
  const absl::StatusOr<v1::Schedule> cut = defaultSchedule(hostUnit(beside(over)));
  ASSERT_TRUE(cut.ok());
  *unit.mutable_schedule() = *cut;
  const auto built = buildObject(unit);
  EXPECT_THAT(std::string(built.status().message()), HasSubstr("partial"));
}

TEST(WrittenOver, WhatIsReadElsewhereAsWellIsRefused) {
  WorkloadText text;
  const Tensor x = text.argument({8, 8}), w = text.argument({8, 8}),
               sum = text.generic({x, w}, {"d0, d2", "d2, d1", "d0, d1"}, text.fill({8, 8}, "0.0"), 3, "ppr",
                                  "%m = arith.mulf %i0, %i1 : f32\n    %r = arith.addf %o, %m : f32");
  const std::string ir = text.finish({text.generic({sum, x}, {"d0, d1", "d0, d1", "d0, d1"}, text.empty({8, 8}), 2, "",
                                                   "%r = arith.addf %i0, %i1 : f32")},
                                     0);
  const auto built = buildByDefault(hostUnit(ir));
  EXPECT_THAT(std::string(built.status().message()), HasSubstr("read what it has written already"));
}

/// Sums of tiles overlap where rows or columns are not multiples of a tile's; results must be written once.
TEST(WrittenOver, TilesWriteWhatTheyReadOnce) {
  v1::BuildUnit probe;
  if (!addTileInstructions(probe, true)) GTEST_SKIP() << "no tiles here";
  for (auto [m, n] : {std::pair(33, 48), {37, 31}, {65, 17}, {3, 70}}) {
    const std::string over = residual({m, n, 64, "bf16", true});
    for (const std::string& ir : {over, beside(over)}) {
      v1::BuildUnit unit = hostUnit(ir);
      addTileInstructions(unit, true);
      const absl::StatusOr<v1::Schedule> schedule = defaultSchedule(unit);
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      EXPECT_THAT(printSchedule(*schedule), HasSubstr("tiles nest"));
      const TileEmulation tiles;
      checkWorkload(ir, {.adjust = [](v1::BuildUnit& each) { addTileInstructions(each, true); }});
      if (!TileEmulation::isNative()) EXPECT_GT(tiles.counts().products, 0);
    }
  }
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing
