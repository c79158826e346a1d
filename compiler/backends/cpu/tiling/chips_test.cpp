// The influence of a chip's figures: trees of one product on several chips, and work for every core.
#include <gmock/gmock.h>

#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/product_tree.h"
#include "compiler/backends/cpu/testing/workload_text.h"
#include "compiler/schedule/text.h"
#include "compiler/target/dot_product.h"
#include "compiler/target/target.h"

namespace tessera::compiler::codegen::testing {
namespace {

v1::BuildUnit unitFor(const v1::Target& target, const std::string& ir) {
  v1::BuildUnit unit;
  unit.set_workload_hash("test");
  unit.set_symbol("unit");
  unit.set_ir(ir);
  unit.set_family(target.family());
  *unit.mutable_code() = target.code();
  *unit.mutable_registers() = target.registers();
  *unit.mutable_memory() = target.memory();
  *unit.mutable_units() = target.units();
  *unit.mutable_cost_parameters() = target.cost_parameters();
  *unit.mutable_intrinsics() = usableInstructions(target);
  return unit;
}

std::string product(int64_t m, int64_t n, int64_t k) {
  WorkloadText text;
  return text.finish({text.named("matmul", {text.argument({m, k}), text.argument({k, n})}, text.fill({m, n}, "0.0"))});
}

v1::Schedule treeFor(const v1::Target& target, const std::string& ir) {
  auto schedule = defaultSchedule(unitFor(target, ir));
  EXPECT_TRUE(schedule.ok()) << target.name() << ": " << schedule.status().message();
  return schedule.ok() ? *schedule : v1::Schedule();
}

int rowsFor(const v1::Target& target, const std::string& ir) {
  return registerTile(productLeaf(treeFor(target, ir))).first;
}

v1::Target builtin(const std::string& name) { return *findBuiltinTarget(name); }

// Rows 4 KiB apart map to one set of L1, and there are too few columns to pay for a copy: the tile has as many rows as
// the set has ways.
TEST(Chips, WaysBoundRowsThatShareASet) {
  const std::string ir = product(240, 64, 1024);
  v1::Target cascade_lake = builtin("cascadelake"), fewer = cascade_lake;
  EXPECT_LE(rowsFor(cascade_lake, ir), 8);
  fewer.mutable_memory(0)->set_associativity(4);
  fewer.mutable_memory(0)->set_capacity_bytes(16 << 10);
  EXPECT_LE(rowsFor(fewer, ir), 4);
  EXPECT_LE(rowsFor(builtin("icelake-server"), ir), 12);
  EXPECT_NE(printSchedule(treeFor(cascade_lake, ir)), printSchedule(treeFor(fewer, ir)));
}

// A 7 x 7 image of 1024 channels under 3 x 3 windows: its weights are loaded from memory once if the vectors of a tile,
// all 9216 steps of them, stay in L2 together with the next ones while the rows run.
TEST(Chips, VectorsStayInL2WhileRowsPass) {
  WorkloadText text;
  const std::vector<int64_t> shape{64, 7, 7, 16};
  const Tensor c =
      text.generic({text.argument({64, 9, 9, 16}), text.argument({64, 64, 3, 3, 16, 16})},
                   {"d4, d1 + d5, d2 + d6, d7", "d0, d4, d5, d6, d7, d3", "d0, d1, d2, d3"}, text.fill(shape, "0.0"), 8,
                   "pppprrrr", "%m = arith.mulf %i0, %i1 : f32\n    %r = arith.addf %o, %m : f32");
  const std::string ir = text.finish({c});
  v1::Target chip = builtin("sapphirerapids");
  chip.mutable_memory(2)->set_bandwidth_bytes_per_cycle(4);
  for (const int64_t megabytes : {2, 8}) {
    chip.mutable_memory(1)->set_capacity_bytes(megabytes << 20);
    int64_t blocks = 1;  // of 16 channels, in a tile
    const v1::Schedule tree = treeFor(chip, ir);
    for (const v1::Extent& extent : productLeaf(tree).kernel().tile())
      if (extent.dimension() == "i0") blocks = extent.size();
    EXPECT_LE(blocks * 64 * 9216, chip.memory(1).capacity_bytes() / 2);
    EXPECT_EQ(blocks > 1, megabytes > 2);
  }
}

// If rows lie in more pages than a core's TLB holds, each short run would stall: the columns run within a tile of rows,
// as many at a time as stay in L2. Not with few rows, with results that stay in L2, or with sums long enough to hide
// prefetches.
TEST(Chips, ColumnsPassWithinATileOfRowsThatLieInManyPages) {
  const v1::Target chip = builtin("sapphirerapids");
  const auto tree = [&](int64_t m, int64_t n, int64_t k) { return printSchedule(treeFor(chip, product(m, n, k))); };
  using ::testing::ContainsRegex;
  const auto columns_inside = ContainsRegex("i1:Sp.core./[0-9]+ i0:[ST]p[^ ]*/[0-9]+ i1:[ST]p[^ ]*/[0-9]+\\] outer");
  EXPECT_THAT(tree(512, 10007, 32), columns_inside);
  EXPECT_THAT(tree(129, 20011, 257), columns_inside);
  EXPECT_THAT(tree(32, 20011, 32), ::testing::Not(columns_inside)) << "few rows";
  EXPECT_THAT(tree(512, 251, 32), ::testing::Not(columns_inside)) << "results stay in L2";
  EXPECT_THAT(tree(512, 10007, 512), ::testing::Not(columns_inside)) << "a long sum";
  v1::Target more = chip;
  more.mutable_cost_parameters()->mutable_prefetching()->set_pages(1024);
  EXPECT_THAT(printSchedule(treeFor(more, product(512, 10007, 32))), ::testing::Not(columns_inside));
}

// The same registers, another width of the arithmetic, other caches, another number of cores: other trees.
TEST(Chips, PlansDifferWhereChipsDo) {
  const std::string large = product(2048, 2048, 2048);
  const std::string cascade_lake = printSchedule(treeFor(builtin("cascadelake"), large));
  EXPECT_NE(cascade_lake, printSchedule(treeFor(builtin("neoverse-n1"), large)));
  v1::Target two_levels = builtin("cascadelake");
  two_levels.mutable_memory()->DeleteSubrange(1, 2);
  EXPECT_NE(cascade_lake, printSchedule(treeFor(two_levels, large)));
  // Fields that a plan does not use do not change it.
  v1::Target renamed = builtin("cascadelake");
  renamed.mutable_memory(3)->set_energy_pj_per_byte(7);
  EXPECT_EQ(cascade_lake, printSchedule(treeFor(renamed, large)));
}

// One level without a size: the least that a description may say of memory.
TEST(Chips, AChipWithoutCachesIsPlannedForAsWell) {
  v1::Target bare = builtin("cascadelake");
  bare.clear_memory();
  v1::MemoryLevel& memory = *bare.add_memory();
  memory.set_name("DRAM");
  memory.set_bandwidth_bytes_per_cycle(5);
  memory.set_shared_by(1);
  for (const std::string& ir : {product(512, 512, 512), product(2048, 64, 2048), product(1, 7, 13)}) {
    const auto built = buildByDefault(unitFor(bare, ir));
    EXPECT_TRUE(built.ok()) << built.status().message();
  }
}

// Several sums are computed together to hide the latency of an addition, unless cores would be idle then.
TEST(Chips, LongSumsAreNotSideBySideWhereCoresWouldWait) {
  v1::Target two = builtin("icelake-server"), one = two;
  two.mutable_units(0)->set_count(2);
  one.mutable_units(0)->set_count(1);
  auto gridOf = [](const v1::Target& target, int64_t steps) {
    WorkloadText text;
    const Tensor x = text.argument({2, steps});
    const Tensor sums =
        text.generic({x}, {"d0, d1", "d0"}, text.fill({2}, "0.0"), 2, "pr", "%r = arith.addf %o, %i0 : f32");
    const std::string ir = text.finish({sums});
    const auto built = buildByDefault(unitFor(target, ir));
    EXPECT_TRUE(built.ok()) << built.status().message();
    return built.ok() ? built->info().phases(0).grid() : 0;
  };
  EXPECT_EQ(gridOf(two, 1 << 20), 2);
  EXPECT_EQ(gridOf(one, 1 << 20), 1);
  EXPECT_EQ(gridOf(two, 100), 1) << "not worth a core";
}

/// The first layer of a network: a window over three planes into `outputs` channels of an image `width` results wide.
std::string firstLayer(int64_t window, int64_t stride, int64_t width, int64_t outputs = 64) {
  WorkloadText text;
  const int64_t extent = ((width - 1) * stride) + window, blocks = outputs / 16;
  const std::string s = std::to_string(stride);
  return text.finish(
      {text.generic({text.argument({3, extent, extent}), text.argument({blocks, 3, window, window, 16})},
                    {"d4, d1 * " + s + " + d5, d2 * " + s + " + d6", "d0, d4, d5, d6, d3", "d0, d1, d2, d3"},
                    text.fill({blocks, width, width, 16}, "0.0"), 7, "pppprrr",
                    "%m = arith.mulf %i0, %i1 : f32\n    %r = arith.addf %o, %m : f32")});
}

// Overlapping windows read elements that their neighbours read at another step. If unrolled, LLVM would load them once
// and, without free registers, spill them: that took up to twice the time.
TEST(Chips, StepsThatReadTheSameAreNotWrittenOutWhereRegistersAreFull) {
  const v1::Target chip = builtin("sapphirerapids");
  const auto tree = [&](int64_t window, int64_t stride, int64_t width) {
    return printSchedule(treeFor(chip, firstLayer(window, stride, width)));
  };
  using ::testing::ContainsRegex;
  using ::testing::HasSubstr;
  EXPECT_THAT(tree(7, 2, 112), ContainsRegex("tile [^ ]*i3:16,r6:2 ")) << "even columns and odd ones";
  EXPECT_THAT(tree(3, 1, 112), ContainsRegex("tile [^ ]*i3:16 ")) << "every step reads the neighbour's";
  EXPECT_THAT(tree(7, 8, 28), HasSubstr("r6:7 ")) << "windows that do not overlap";
  EXPECT_THAT(tree(7, 2, 2), HasSubstr("r6:7 ")) << "few enough to stay in registers";
}

class ManyCores : public ::testing::TestWithParam<int> {};

TEST_P(ManyCores, AllHaveWork) {
  const int cores = GetParam();
  v1::Target many = builtin("cascadelake");
  many.mutable_units(0)->set_count(cores);
  std::vector<std::pair<std::string, std::string>> workloads = {
      {"2048x2048x2048", product(2048, 2048, 2048)}, {"1024x1024x1024", product(1024, 1024, 1024)},
      {"128x2048x2048", product(128, 2048, 2048)},   {"512x512x512", product(512, 512, 512)},
      {"197x768x3072", product(197, 768, 3072)},     {"4096x64x512", product(4096, 64, 512)},
      {"64x36864x16", product(64, 36864, 16)},       {"96x10000x64", product(96, 10000, 64)}};
  WorkloadText text;
  const Tensor x = text.argument({1, 64, 56, 56, 16});
  workloads.emplace_back(
      "elementwise", text.finish({text.generic({x}, {"d0, d1, d2, d3, d4", "d0, d1, d2, d3, d4"}, text.empty(x.shape),
                                               5, "", "%r = arith.addf %i0, %i0 : f32")}));
  for (const auto& [name, ir] : workloads) {
    const auto built = buildByDefault(unitFor(many, ir));
    ASSERT_TRUE(built.ok()) << name << ": " << built.status().message();
    for (const auto& phase : built->info().phases()) {
      // All cores, or nearly all, are busy in every round; copies are short and may be less balanced.
      const int64_t rounds = (phase.grid() + cores - 1) / cores;
      EXPECT_GE(100 * phase.grid(), 85 * cores) << name << " " << phase.strategy();
      if (phase.strategy() != "pack")
        EXPECT_GE(static_cast<double>(phase.grid()) / static_cast<double>(cores * rounds), 0.85)
            << name << " " << phase.strategy() << ", grid " << phase.grid();
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Chips, ManyCores, ::testing::Values(12, 16, 28, 48, 56, 64));

}  // namespace
}  // namespace tessera::compiler::codegen::testing
