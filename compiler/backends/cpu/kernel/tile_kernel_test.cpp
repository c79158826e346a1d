// Products on tile instructions. The object code runs here, by emulation of each instruction on machines without tiles,
// and is compared with the interpreter, which knows nothing of tiles.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/product_tree.h"
#include "compiler/backends/cpu/testing/tile_emulation.h"
#include "compiler/backends/cpu/testing/workload_text.h"
#include "compiler/schedule/text.h"
#include "compiler/target/dot_product.h"
#include "compiler/target/host.h"
#include "compiler/target/target.h"

namespace tessera::compiler::codegen::testing {
namespace {

/// sum += x * y of extended elements: 32-bit integers, or f32 for bf16.
struct Kind {
  const char *element, *first, *second;
  bool isReal() const { return std::string_view(element) == "bf16"; }
  int64_t group() const { return isReal() ? 2 : 4; }
  std::string sum() const { return isReal() ? "f32" : "i32"; }
  std::string zero() const { return isReal() ? "0.0" : "0"; }
  std::string body() const {
    const std::string o = isReal() ? "f" : "i", wide = absl::StrCat(" : ", element, " to ", sum());
    return absl::StrCat("%a = arith.", first, " %i0", wide, "\n    %b = arith.", second, " %i1", wide,
                        "\n    %m = arith.mul", o, " %a, %b : ", sum(), "\n    %r = arith.add", o, " %o, %m : ", sum());
  }
};
constexpr Kind kUnsignedSigned{"i8", "extui", "extsi"}, kSigned{"i8", "extsi", "extsi"},
    kUnsigned{"i8", "extui", "extui"}, kSignedUnsigned{"i8", "extsi", "extui"}, kHalves{"bf16", "extf", "extf"};

enum class Form { kRows, kInterleaved, kPanels };  ///< of the right side: [n, k], [k / g, n, g], [n / 8, k / g, 8, g]

Tensor productOf(WorkloadText& text, const Kind& kind, int64_t m, int64_t n, int64_t k, Form form,
                 const Tensor& start) {
  const int64_t g = kind.group();
  if (form == Form::kRows)
    return text.generic({text.argument({m, k}, kind.element), text.argument({n, k}, kind.element)},
                        {"d0, d2", "d1, d2", "d0, d1"}, start, 3, "ppr", kind.body());
  const Tensor a = text.argument({m, k / g, g}, kind.element);
  if (form == Form::kInterleaved)
    return text.generic({a, text.argument({k / g, n, g}, kind.element)}, {"d0, d2, d3", "d2, d1, d3", "d0, d1"}, start,
                        4, "pprr", kind.body());
  return text.generic({a, text.argument({n / 8, k / g, 8, g}, kind.element)},
                      {"d0, d3, d4", "d1, d3, d2, d4", "d0, d1, d2"}, start, 5, "ppprr", kind.body());
}

std::string product(const Kind& kind, int64_t m, int64_t n, int64_t k, Form form = Form::kInterleaved) {
  WorkloadText text;
  const auto shape = form == Form::kPanels ? std::vector<int64_t>{m, n / 8, 8} : std::vector<int64_t>{m, n};
  return text.finish({productOf(text, kind, m, n, k, form, text.fill(shape, kind.zero(), kind.sum()))});
}

class TileKernel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!addTileInstructions(some_, true)) GTEST_SKIP() << "no tiles here";
  }

  /// Compiles with tile instructions only and compares results. `uses`: whether tile instructions must have run.
  void check(const std::string& ir, bool uses = true, std::function<void(v1::Schedule&)> edit = nullptr) {
    const TileEmulation tiles;
    checkWorkload(ir, {.seed = ++seed_,
                       .integer_range = 128,
                       .adjust = [](v1::BuildUnit& unit) { addTileInstructions(unit, true); },
                       .edit = std::move(edit)});
    EXPECT_FALSE(TileEmulation::hasShapes()) << "tiles are released";
    const TileEmulation::Counts counts = tiles.counts();
    if (TileEmulation::isNative()) return;
    EXPECT_EQ(counts.products > 0, uses) << ir;
    EXPECT_EQ(counts.configurations > 0, counts.releases > 0);
  }

  unsigned seed_ = 0;

 private:
  v1::BuildUnit some_;
};

TEST_F(TileKernel, IsExactForEverySignAndShape) {
  for (const Kind& kind : {kUnsignedSigned, kSigned, kUnsigned, kSignedUnsigned})
    for (auto [m, n, k] : {std::tuple(2, 2, 4), {3, 17, 68}, {16, 16, 64}, {37, 31, 132}})
      check(product(kind, m, n, k));
  for (auto [m, n, k] :
       {std::tuple(2, 97, 8), {17, 3, 64}, {33, 33, 260}, {65, 5, 12}, {5, 65, 76}, {64, 64, 128}, {47, 41, 1028}})
    check(product(kUnsignedSigned, m, n, k));
}

TEST_F(TileKernel, HalvesAreWithinTheBoundOfSumsInSingle) {
  for (auto [m, n, k] : {std::tuple(2, 2, 2), {3, 17, 34}, {16, 16, 32}, {33, 31, 70}, {19, 35, 514}})
    for (const Form form : {Form::kRows, Form::kInterleaved}) check(product(kHalves, m, n, k, form));
}

TEST_F(TileKernel, ColumnsThatLieApartArePackedAndPanelsAreReadAsTheyAre) {
  for (auto [m, n, k] : {std::tuple(3, 2, 8), {18, 40, 68}, {35, 24, 200}})
    for (const Form form : {Form::kRows, Form::kPanels}) check(product(kSigned, m, n / 8 * 8 + 8, k, form));
  check(product(kUnsignedSigned, 7, 13, 20, Form::kRows));
}

TEST_F(TileKernel, LeavesOneRowOrColumnToOthers) {
  check(product(kUnsignedSigned, 1, 33, 64), false);
  check(product(kUnsignedSigned, 33, 1, 64), false);
  check(product(kUnsignedSigned, 1, 1, 4), false);
}

TEST_F(TileKernel, SumsUpWindows) {
  for (auto [width, channels, filters] : {std::tuple(5, 4, 3), {9, 8, 17}, {20, 68, 33}}) {
    WorkloadText text;
    const Tensor image = text.argument({4, width + 2, channels / 4, 4}, "i8"),
                 filter = text.argument({3, 3, channels / 4, filters, 4}, "i8");
    check(
        text.finish({text.generic({image, filter}, {"d0 + d3, d1 + d4, d5, d6", "d3, d4, d5, d2, d6", "d0, d1, d2"},
                                  text.fill({2, width, filters}, "0", "i32"), 7, "ppprrrr", kUnsignedSigned.body())}));
  }
}

TEST_F(TileKernel, GoesOnWithWhatFollowsAndFromWhatWasThere) {
  for (auto [m, n, k] : {std::tuple(5, 7, 20), {35, 50, 136}}) {
    WorkloadText text;
    const Tensor sum = productOf(text, kUnsignedSigned, m, n, k, Form::kInterleaved, text.fill({m, n}, "-1000", "i32"));
    const Tensor bias = text.argument({n}, "i32"), residual = text.argument({m, n}, "i8");
    check(text.finish(
        {text.generic({sum, bias, residual}, {"d0, d1", "d1", "d0, d1", "d0, d1"}, text.empty({m, n}, "i8"), 2, "",
                      "%s = arith.addi %i0, %i1 : i32\n    %w = arith.extsi %i2 : i8 to i32\n    "
                      "%t = arith.addi %s, %w : i32\n    %l = arith.constant -128 : i32\n    "
                      "%h = arith.constant 127 : i32\n    %x = arith.maxsi %t, %l : i32\n    "
                      "%y = arith.minsi %x, %h : i32\n    %r = arith.trunci %y : i32 to i8")}));
  }
  WorkloadText halves;
  const Tensor sum = productOf(halves, kHalves, 21, 19, 66, Form::kInterleaved, halves.fill({21, 19}, "0.5", "f32"));
  check(halves.finish({halves.generic({sum}, {"d0, d1", "d1, d0"}, halves.empty({19, 21}, "bf16"), 2, "",
                                      "%z = arith.constant 0.0 : f32\n    %x = arith.maximumf %i0, %z : f32\n    "
                                      "%r = arith.truncf %x : f32 to bf16")}));
}

TEST_F(TileKernel, FollowsOtherPiecesAndRefusesThoseThatRegistersDoNotHold) {
  v1::BuildUnit unit = hostUnit(product(kUnsignedSigned, 40, 64, 256));
  ASSERT_TRUE(addTileInstructions(unit, true));
  auto schedule = defaultSchedule(unit);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  const v1::Kernel kernel = productLeaf(*schedule).kernel();
  ASSERT_EQ(kernel.variant(), "tiles") << printSchedule(*schedule);
  EXPECT_EQ(kernel.instruction(), "tdpbusd");
  *unit.mutable_schedule() = *schedule;
  EXPECT_TRUE(checkSchedule(unit).ok()) << checkSchedule(unit);
  // Rows, columns and steps, in the order of the workload's loops.
  const auto with = [&](const std::vector<int64_t>& sizes) {
    return [sizes](v1::Schedule& edited) {
      for (int p = 0; p < edited.phases_size(); ++p) {
        v1::Tile& leaf = *edited.mutable_phases(p);
        v1::Kernel& kernel = *leaf.mutable_kernel();
        if (kernel.variant() != "tiles") continue;
        ASSERT_EQ(kernel.tile_size(), 3);
        leaf.clear_loops();
        kernel.clear_points();
        for (int i = 0; i < 3; ++i) {
          v1::Extent& extent = *kernel.mutable_tile(i);
          extent.set_size(sizes[i]);
          if (i == 2) continue;
          if (i == 0 || sizes[i] > kernel.lanes()) kernel.add_points(extent.dimension());
          v1::Loop& loop = *leaf.add_loops();
          loop.set_dimension(extent.dimension());
          loop.set_step(sizes[i]);
        }
      }
    };
  };
  for (const auto& sizes : {std::vector<int64_t>{5, 7, 3}, {33, 16, 16}, {16, 40, 5}})
    check(product(kUnsignedSigned, 40, 64, 256), true, with(sizes));
  for (const auto& sizes : {std::vector<int64_t>{33, 33, 16}, {32, 32, 17}}) {
    *unit.mutable_schedule() = *schedule;
    with(sizes)(*unit.mutable_schedule());
    EXPECT_FALSE(checkSchedule(unit).ok()) << printSchedule(unit.schedule());
  }
}

/// Gives the leaf on tiles a piece of these sizes along loops i0, i1, ... of these extents; its steps are unchanged.
std::function<void(v1::Schedule&)> inPieces(const std::vector<int64_t>& sizes, const std::vector<int64_t>& extents) {
  return [=](v1::Schedule& edited) {
    for (int p = 0; p < edited.phases_size(); ++p) {
      v1::Tile& leaf = *edited.mutable_phases(p);
      v1::Kernel& kernel = *leaf.mutable_kernel();
      if (kernel.variant() != "tiles") continue;
      const v1::Extent depth = kernel.tile(kernel.tile_size() - 1);
      leaf.clear_loops();
      kernel.clear_points();
      kernel.clear_tile();
      for (size_t i = 0; i < sizes.size(); ++i) {
        const std::string name = absl::StrCat("i", i);
        if (sizes[i] > 1) {
          v1::Extent& extent = *kernel.add_tile();
          extent.set_dimension(name);
          extent.set_size(sizes[i]);
          if (name != kernel.vector_loop() || sizes[i] > kernel.lanes()) kernel.add_points(name);
        }
        if (sizes[i] == extents[i]) continue;
        v1::Loop& loop = *leaf.add_loops();
        loop.set_dimension(name);
        loop.set_step(sizes[i]);
      }
      *kernel.add_tile() = depth;
    }
  };
}

// The results of one column pass are computed while the sums of the next one are accumulated: for few and for many
// steps, with and without a last partial step, and for a number of rows that is not a multiple of the rows of a block.
TEST_F(TileKernel, ComputesResultsDuringTheNextColumnPass) {
  for (int64_t k : {64, 68, 192, 960})
    for (auto [rows, columns] : {std::pair(45, 64), {16, 128}, {7, 128}, {30, 96}, {33, 48}}) {
      WorkloadText text;
      const Tensor sum =
          productOf(text, kUnsignedSigned, 45, 128, k, Form::kInterleaved, text.fill({45, 128}, "-1000", "i32"));
      const Tensor bias = text.argument({128}, "i32"), residual = text.argument({45, 128}, "i8");
      check(text.finish({text.generic({sum, bias, residual}, {"d0, d1", "d1", "d0, d1", "d0, d1"},
                                      text.empty({45, 128}, "i8"), 2, "",
                                      "%s = arith.addi %i0, %i1 : i32\n    %w = arith.extsi %i2 : i8 to i32\n    "
                                      "%t = arith.addi %s, %w : i32\n    %r = arith.trunci %t : i32 to i8")}),
            true, inPieces({rows, columns}, {45, 128}));
    }
}

v1::BuildUnit sapphireRapids(const std::string& ir) {
  const v1::Target& target = *findBuiltinTarget("sapphirerapids");
  v1::BuildUnit unit = hostUnit(ir);
  unit.set_family(target.family());
  *unit.mutable_code() = target.code();
  *unit.mutable_registers() = target.registers();
  *unit.mutable_memory() = target.memory();
  *unit.mutable_units() = target.units();
  *unit.mutable_cost_parameters() = target.cost_parameters();
  *unit.mutable_intrinsics() = usableInstructions(target);
  return unit;
}

TEST_F(TileKernel, IsChosenByItsPrice) {
  auto chosen = [](const std::string& ir) {
    auto schedule = defaultSchedule(sapphireRapids(ir));
    EXPECT_TRUE(schedule.ok()) << schedule.status();
    return schedule.ok() ? productLeaf(*schedule).kernel().instruction() : "";
  };
  EXPECT_EQ(chosen(product(kUnsignedSigned, 128, 128, 256)), "tdpbusd");
  EXPECT_EQ(chosen(product(kSigned, 128, 128, 256)), "tdpbssd");
  EXPECT_EQ(chosen(product(kUnsigned, 128, 128, 256)), "tdpbuud");
  EXPECT_EQ(chosen(product(kSignedUnsigned, 128, 128, 256)), "tdpbsud");
  EXPECT_EQ(chosen(product(kHalves, 128, 128, 256)), "tdpbf16ps");
  // Vectors are faster than a tile that is used to a sixteenth, and than a tile whose sum is a single group.
  EXPECT_EQ(chosen(product(kUnsignedSigned, 1, 128, 256)), "vpdpbusd.512");
  EXPECT_EQ(chosen(product(kUnsignedSigned, 128, 128, 4)), "vpdpbusd.512");
  // Bits are flipped where elements are loaded, which no tile instruction does.
  WorkloadText text;
  const std::string body =
      "%bit = arith.constant -128 : i8\n    %f = arith.xori %i0, %bit : i8\n    %a = arith.extui %f : i8 to i32\n    "
      "%b = arith.extsi %i1 : i8 to i32\n    %m = arith.muli %a, %b : i32\n    %r = arith.addi %o, %m : i32";
  EXPECT_EQ(chosen(text.finish({text.generic({text.argument({128, 64, 4}, "i8"), text.argument({64, 128, 4}, "i8")},
                                             {"d0, d2, d3", "d2, d1, d3", "d0, d1"}, text.fill({128, 128}, "0", "i32"),
                                             4, "pprr", body)})),
            "vpdpbusd.512");
}

// The operand that neighbouring pieces share stays near, and the streamed one comes from the second level, one block at
// a time.
TEST_F(TileKernel, OrdersPiecesByWhatStaysNear) {
  auto leafOf = [](const std::string& ir) {
    auto schedule = defaultSchedule(sapphireRapids(ir));
    EXPECT_TRUE(schedule.ok()) << schedule.status();
    return schedule.ok() ? productLeaf(*schedule) : v1::Tile();
  };
  const auto sizes = [](const v1::Tile& leaf) {
    std::vector<int64_t> found;
    for (const v1::Extent& extent : leaf.kernel().tile()) found.push_back(extent.size());
    return found;
  };
  const auto loops = [](const v1::Tile& leaf) {
    std::vector<std::pair<std::string, int64_t>> found;
    for (const v1::Loop& loop : leaf.loops()) found.emplace_back(loop.dimension(), loop.step());
    return found;
  };
  using Loops = std::vector<std::pair<std::string, int64_t>>;
  // 32 rows of a kilobyte and as many columns fit in the near level alternately: two tiles of either per step. 64 rows
  // do not.
  const v1::Tile near = leafOf(product(kUnsignedSigned, 1024, 1024, 1024));
  EXPECT_EQ(sizes(near), (std::vector<int64_t>{32, 128, 16})) << printTileLine(near);
  EXPECT_EQ(loops(near), (Loops{{"i0", 32}, {"i1", 128}})) << "four turns of 32 columns";
  // Four megabytes of columns are streamed in blocks of one megabyte, half of the second level.
  const v1::Tile large = leafOf(product(kUnsignedSigned, 2048, 2048, 2048));
  EXPECT_EQ(loops(large), (Loops{{"i1", 512}, {"i0", 32}, {"i1", 128}})) << printTileLine(large);
}

/// A convolution of images [n, height + 2, width + 2, channels] with filters in blocks of 16.
std::string blockedWindow(int64_t n, int64_t height, int64_t width, int64_t channels, int64_t blocks) {
  WorkloadText text;
  const Tensor image = text.argument({n, height + 2, width + 2, channels / 4, 4}, "i8"),
               filter = text.argument({blocks, 3, 3, channels / 4, 16, 4}, "i8");
  return text.finish(
      {text.generic({image, filter}, {"d0, d2 + d5, d3 + d6, d7, d8", "d1, d5, d6, d7, d4, d8", "d0, d1, d2, d3, d4"},
                    text.fill({n, blocks, height, width, 16}, "0", "i32"), 9, "ppppprrrr", kUnsignedSigned.body())});
}

// Rows of an image need not be the only tile dimension: together with their neighbours, or with other blocks of
// channels, there are four independent sums instead of one.
TEST_F(TileKernel, TilesOfAPieceFollowEachOtherAlongSeveralLoops) {
  const auto macroTileOf = [](const std::string& ir) {
    auto schedule = defaultSchedule(sapphireRapids(ir));
    EXPECT_TRUE(schedule.ok()) << schedule.status();
    std::vector<std::pair<std::string, int64_t>> found;
    if (!schedule.ok()) return found;
    const v1::Kernel& kernel = productLeaf(*schedule).kernel();
    EXPECT_EQ(kernel.variant(), "tiles");
    for (const v1::Extent& extent : kernel.tile()) found.emplace_back(extent.dimension(), extent.size());
    return found;
  };
  using MacroTile = std::vector<std::pair<std::string, int64_t>>;
  // Loops of one iteration are dropped: i0 are blocks, i1 rows, i2 their points.
  EXPECT_EQ(macroTileOf(blockedWindow(1, 14, 14, 256, 16)), (MacroTile{{"i1", 4}, {"i2", 14}, {"i3", 16}, {"r5", 16}}));
  // Rows of 28 are two tiles. Images are farther apart than rows. If there are enough macro-tiles, four blocks are
  // processed in several column passes.
  EXPECT_EQ(macroTileOf(blockedWindow(16, 28, 28, 128, 8)),
            (MacroTile{{"i1", 4}, {"i2", 2}, {"i3", 28}, {"i4", 16}, {"r6", 16}}));
  for (auto [n, height, width, channels, blocks] : {std::tuple(1, 5, 14, 64, 3),
                                                    {1, 14, 14, 8, 2},
                                                    {3, 3, 7, 68, 2},
                                                    {17, 2, 2, 64, 1},
                                                    {2, 9, 20, 12, 5},
                                                    {1, 1, 5, 64, 7}})
    check(blockedWindow(n, height, width, channels, blocks));
}

TEST_F(TileKernel, FollowsTilesAlongSeveralLoopsAndRefusesMoreThanRegistersHold) {
  // Sizes of the piece along blocks (5), rows (6), points of rows (19) and channels of a block.
  const std::string ir = blockedWindow(1, 6, 19, 64, 5);
  const auto with = [](const std::vector<int64_t>& sizes) { return inPieces(sizes, {5, 6, 19, 16}); };
  for (const auto& sizes : {std::vector<int64_t>{2, 2, 10, 16},
                            {1, 4, 7, 16},
                            {3, 1, 5, 16},
                            {1, 2, 19, 16},
                            {2, 1, 19, 9},
                            {4, 1, 1, 16},
                            {2, 3, 10, 16},
                            {5, 1, 10, 16},
                            {3, 1, 19, 16},
                            {5, 4, 7, 16}})
    check(ir, true, with(sizes));
  v1::BuildUnit unit = hostUnit(ir);
  ASSERT_TRUE(addTileInstructions(unit, true));
  auto schedule = defaultSchedule(unit);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  for (const auto& sizes : {std::vector<int64_t>{1, 6, 19, 16}, {2, 5, 10, 16}, {2, 2, 19, 9}}) {
    *unit.mutable_schedule() = *schedule;
    with(sizes)(*unit.mutable_schedule());
    EXPECT_FALSE(checkSchedule(unit).ok()) << printSchedule(unit.schedule());
  }
}

// Followers of a product cost the same with any kernel, so they do not affect the choice.
TEST_F(TileKernel, IsChosenWhateverFollows) {
  for (int length : {0, 8, 40}) {
    WorkloadText text;
    const Tensor sum =
        productOf(text, kUnsignedSigned, 784, 64, 64, Form::kInterleaved, text.fill({784, 64}, "0", "i32"));
    std::string body = "%w0 = arith.sitofp %i0 : i32 to f32\n    %c = arith.constant 1.5 : f32";
    for (int i = 0; i < length; ++i) absl::StrAppend(&body, "\n    %w", i + 1, " = arith.mulf %w", i, ", %c : f32");
    absl::StrAppend(&body, "\n    %r = arith.addf %w", length, ", %c : f32");
    auto schedule = defaultSchedule(
        sapphireRapids(text.finish({text.generic({sum}, {"d0, d1", "d0, d1"}, text.empty({784, 64}), 2, "", body)})));
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    EXPECT_EQ(productLeaf(*schedule).kernel().variant(), "tiles") << length;
  }
}

TEST_F(TileKernel, BuildsObjectsOfTheChip) {
  const auto built = buildByDefault(sapphireRapids(product(kUnsignedSigned, 100, 100, 100)));
  EXPECT_TRUE(built.ok()) << built.status();
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing
