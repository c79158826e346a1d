// Register tiles by equation 3.4; packing and cache blocks must not change results.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/product_tree.h"
#include "compiler/backends/cpu/testing/workload_text.h"

namespace tessera::compiler::codegen::testing {
namespace {

constexpr char kMultiplyAdd[] = "%m = arith.mulf %i0, %i1 : f32\n    %r = arith.addf %o, %m : f32";

/// Multiply-adds per load or store of a tile of rows x vectors sums over a reduction of `steps`.
double intensity(int rows, int vectors, double steps) {
  return rows * vectors * steps / (steps * (rows + vectors) + 2.0 * rows * vectors);
}

/// The highest intensity that a register file can hold (equation 3.4 of the thesis), of all tiles.
double densest(int registers, double steps) {
  double most = 0;
  for (int mi = 1; mi <= registers; ++mi)
    for (int ni = 1; ni <= registers; ++ni)
      for (int mii = 2; mii <= mi; ++mii)
        if (mi % mii == 0 && mi * ni + ni + mii <= registers) most = std::max(most, intensity(mi, ni, steps));
  return most;
}

TEST(RegisterTile, OfAProductFitsTheRegisterFile) {
  for (auto [bits, registers, cpu] : {std::tuple(512, 32, "cascadelake"), std::tuple(256, 16, "x86-64-v3")}) {
    WorkloadText text;
    const Tensor c =
        text.named("matmul", {text.argument({480, 256}), text.argument({256, 512})}, text.fill({480, 512}, "0.0"));
    v1::BuildUnit unit = hostUnit(text.finish({c}));
    unit.mutable_code()->set_cpu(cpu);
    unit.clear_intrinsics();  // this host's, which the processor may lack
    unit.mutable_registers()->set_vector_bits(bits);
    unit.mutable_registers()->set_vector_count(registers);
    auto schedule = defaultSchedule(unit);
    ASSERT_TRUE(schedule.ok()) << schedule.status().message();
    const v1::Tile& product = productLeaf(*schedule);
    const auto [rows, vectors] = registerTile(product);
    EXPECT_LE(rows * vectors + vectors + 1, registers);
    EXPECT_GE(rows * vectors, registers / 16 * 10) << "too few chains to hide the latency of a multiply-add";
    EXPECT_GE(intensity(rows, vectors, 256), 0.9 * densest(registers, 256));
    ASSERT_EQ(packedOperands(product), 1) << "rows of 2 KB are packed, in the tree to see";
    EXPECT_EQ(product.stages(0).operand(), 1);

    *unit.mutable_schedule() = *schedule;
    auto plain = buildObject(unit);
    ASSERT_TRUE(plain.ok()) << plain.status().message();
    ASSERT_EQ(plain->info().phases_size(), 2);
    EXPECT_EQ(plain->info().phases(0).strategy(), "pack");
    EXPECT_EQ(plain->info().phases(1).strategy(), "contraction");
  }
}

// Operands of followers are read once per result: a bias and a residual do not turn a product of panels into one of dot
// products.
TEST(VectorLoop, OfAProductWithFollowersIsThatOfItsPanels) {
  WorkloadText text;
  const std::vector<int64_t> shape{512, 24, 32};
  const Tensor c =
      text.generic({text.argument({512, 3072}), text.argument({24, 3072, 32})}, {"d0, d3", "d1, d3, d2", "d0, d1, d2"},
                   text.fill(shape, "0.0"), 4, "pppr", kMultiplyAdd);
  const Tensor y = text.generic({c, text.argument({24, 32}), text.argument(shape)},
                                {"d0, d1, d2", "d1, d2", "d0, d1, d2", "d0, d1, d2"}, text.empty(shape), 3, "",
                                "%s = arith.addf %i0, %i1 : f32\n    %r = arith.addf %s, %i2 : f32");
  auto schedule = defaultSchedule(hostUnit(text.finish({y})));
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  const v1::Tile& product = productLeaf(*schedule);
  EXPECT_EQ(product.kernel().variant(), "outer-product");
  for (const v1::Stage& stage : product.stages())
    EXPECT_NE(stage.operand(), 1) << "the constant operand lies in panels already";
  EXPECT_TRUE(std::ranges::any_of(product.loops(), [](const v1::Loop& loop) { return loop.dimension() == "r3"; }))
      << "the sum is cut into blocks";
}

/// Caches so small that products of a few thousand elements are blocked, packed and prefetched.
void shrinkCaches(v1::BuildUnit& unit) {
  for (int64_t bytes : {int64_t{2} << 10, int64_t{8} << 10, int64_t{160} << 10}) {
    unit.add_memory()->set_capacity_bytes(bytes);
    unit.mutable_memory()->rbegin()->set_shared_by(bytes > 100 << 10 ? 10 : 1);
  }
}

// Rows at a power-of-two distance share few sets of the caches; a block-by-block copy of them does not.
TEST(CacheBlocks, SpreadRowsThatShareSets) {
  for (auto [size, packed] : {std::pair<int64_t, int>(2048, 2), {2000, 1}, {1024, 2}, {512, 1}}) {
    WorkloadText text;
    const Tensor c = text.named("matmul", {text.argument({size, size}), text.argument({size, size})},
                                text.fill({size, size}, "0.0"));
    auto schedule = defaultSchedule(hostUnit(text.finish({c})));
    ASSERT_TRUE(schedule.ok()) << schedule.status().message();
    EXPECT_EQ(packedOperands(productLeaf(*schedule)), packed) << size;
  }
}

/// Whether vectors run along the columns of the product, as ProductTree assumes.
bool runsAlongColumns(const v1::Schedule& schedule) { return productLeaf(schedule).kernel().variant() != "dot"; }

class Packing : public ::testing::TestWithParam<unsigned> {};

TEST_P(Packing, AndBlocksChangeNothing) {
  std::mt19937 random(GetParam());
  auto pick = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  const int64_t batch = pick({1, 1, 3}), m = pick({5, 12, 13, 29, 40}), n = pick({7, 32, 50, 64, 97, 130}),
                k = pick({3, 16, 21, 40, 53});
  const bool ta = random() % 2 == 0, tb = random() % 2 == 0;
  WorkloadText text;
  const Tensor a = text.argument(ta ? std::vector{batch, k, m} : std::vector{batch, m, k});
  const Tensor b = text.argument(tb ? std::vector{batch, n, k} : std::vector{batch, k, n});
  const std::vector<int64_t> shape{batch, m, n};
  const Tensor start = GetParam() % 3 == 0 ? text.argument(shape) : text.fill(shape, "1.5");
  Tensor c = text.generic({a, b}, {ta ? "d0, d3, d1" : "d0, d1, d3", tb ? "d0, d2, d3" : "d0, d3, d2", "d0, d1, d2"},
                          start, 4, "pppr", kMultiplyAdd);
  if (random() % 2 == 0) {
    const Tensor bias = text.argument({n}), residual = text.argument(shape);
    c = text.generic({c, bias, residual}, {"d0, d1, d2", "d2", "d0, d1, d2", "d0, d1, d2"}, text.empty(shape), 3, "",
                     "%s = arith.addf %i0, %i1 : f32\n    %r = arith.mulf %s, %i2 : f32");
  }
  const int64_t rows = pick({1, 2, 4}), vectors = pick({1, 2, 3});
  const int64_t block_m = pick({0, 4, 8, 16}), block_n = pick({0, 32, 64}), block_k = pick({0, 8, 20});
  const int packed = static_cast<int>(random() % 4);
  ProductTree product{.batch = batch, .m = m, .n = n, .k = k, .rows = rows, .vectors = vectors};
  product.block_m = block_m;
  product.block_n = block_n;
  product.block_k = block_k;
  product.pack_a = (packed & 1) != 0;
  product.pack_b = (packed & 2) != 0;
  // a few rows or columns that are contiguous along k use dot products by default; such trees are not replaced
  bool along_columns = true;
  const v1::KernelInfo info = checkWorkload(text.finish({c}), {.seed = GetParam(),
                                                               .adjust =
                                                                   [&](v1::BuildUnit& unit) {
                                                                     if (GetParam() % 2 == 1) shrinkCaches(unit);
                                                                   },
                                                               .edit =
                                                                   [&](v1::Schedule& schedule) {
                                                                     along_columns = runsAlongColumns(schedule);
                                                                     if (along_columns)
                                                                       replaceProduct(schedule, product);
                                                                   }});
  const auto packs = std::count_if(info.phases().begin(), info.phases().end(),
                                   [](const auto& phase) { return phase.strategy() == "pack"; });
  if (along_columns) {
    EXPECT_EQ(packs, packed > 0 ? 1 : 0);
  }
}

TEST_P(Packing, UnderSmallCaches) {
  std::mt19937 random(GetParam() + 7000);
  auto pick = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  const int64_t m = pick({9, 16, 33, 61, 100}), panels = pick({1, 3, 5, 8, 12}), k = pick({16, 40, 64, 67});
  WorkloadText text;
  const Tensor a = text.argument({m, k});
  Tensor c;
  if (random() % 2 == 0) {  // panels, as the graph level packs constant operands
    c = text.generic({a, text.argument({panels, k, 16})}, {"d0, d3", "d1, d3, d2", "d0, d1, d2"},
                     text.fill({m, panels, 16}, "0.0"), 4, "pppr", kMultiplyAdd);
  } else {
    const int64_t n = panels * 16 + pick({-5, 0, 3});
    c = text.generic({a, text.argument({k, n})}, {"d0, d2", "d2, d1", "d0, d1"}, text.fill({m, n}, "0.0"), 3, "ppr",
                     kMultiplyAdd);
  }
  checkWorkload(text.finish({c}), {.seed = GetParam(), .adjust = shrinkCaches});
}

// A broadcast operand that is worth a copy (slow rows, or many passes) is copied a block of rows at a time into the
// thread's scratch: blocks and tiles that do not divide evenly, a reduction cut into blocks, batches, followers, both
// layouts.
TEST_P(Packing, WithinBlocks) {
  if (GetParam() >= 16) GTEST_SKIP();
  std::mt19937 random(GetParam() + 9000);
  auto pick = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  const int64_t batch = pick({1, 1, 2}), m = pick({31, 42, 61}), n = pick({400, 421}), k = pick({16, 27, 41});
  const bool ta = random() % 2 == 0;
  WorkloadText text;
  const std::vector<int64_t> shape{batch, m, n};
  Tensor c = text.generic(
      {text.argument(ta ? std::vector{batch, k, m} : std::vector{batch, m, k}), text.argument({batch, k, n})},
      {ta ? "d0, d3, d1" : "d0, d1, d3", "d0, d3, d2", "d0, d1, d2"},
      random() % 2 == 0 ? text.argument(shape) : text.fill(shape, "0.5"), 4, "pppr", kMultiplyAdd);
  if (random() % 2 == 0)
    c = text.generic({c, text.argument({n})}, {"d0, d1, d2", "d2", "d0, d1, d2"}, text.empty(shape), 3, "",
                     "%r = arith.addf %i0, %i1 : f32");
  ProductTree product{.batch = batch, .m = m, .n = n, .k = k, .rows = pick({2, 4, 7}), .vectors = 2};
  product.block_m = pick({8, 21, 28});
  product.block_k = pick({0, 8, 20});
  product.copy_a = true;
  const v1::KernelInfo info =
      checkWorkload(text.finish({c}),
                    {.seed = GetParam(), .edit = [&](v1::Schedule& schedule) { replaceProduct(schedule, product); }});
  for (const auto& phase : info.phases()) EXPECT_NE(phase.strategy(), "pack") << "the copy is no phase of its own";
  EXPECT_GT(info.scratch_bytes(), 0);
  EXPECT_LE(info.scratch_bytes(), 32 * 41 * 4 + 64) << "no more than a block";
}

// The analysis' own choice for operands too large for L1, in all four layouts, a power of two apart.
TEST_P(Packing, IsChosenForLargeOperands) {
  if (GetParam() >= 8) GTEST_SKIP();
  const bool ta = GetParam() & 1, tb = GetParam() & 2;
  const int64_t m = GetParam() & 4 ? 161 : 148, n = 192, k = 130;
  WorkloadText text;
  const Tensor c = text.generic({text.argument(ta ? std::vector{k, m} : std::vector{m, k}),
                                 text.argument(tb ? std::vector{n, k} : std::vector{k, n})},
                                {ta ? "d2, d0" : "d0, d2", tb ? "d1, d2" : "d2, d1", "d0, d1"},
                                text.fill({m, n}, "0.0"), 3, "ppr", kMultiplyAdd);
  const v1::KernelInfo info = checkWorkload(text.finish({c}), {.seed = GetParam()});
  EXPECT_EQ(info.phases(info.phases_size() - 1).strategy(), "contraction");
  if (ta && tb) return;  // both contiguous along the result's columns: no packing is needed
  ASSERT_EQ(info.phases_size(), 2);
  EXPECT_EQ(info.phases(0).strategy(), "pack");
  EXPECT_GE(info.workspace_bytes(), std::min(m, n) * k * 4);
}

// Few rows: the other operand is read unpacked, with the part of the reduction that stays in L1 at a time. Few columns:
// vectors run along the reduction, and columns that are not contiguous along it are copied.
TEST_P(Packing, OfThinProducts) {
  if (GetParam() >= 32) GTEST_SKIP();
  std::mt19937 random(GetParam() + 500);
  auto pick = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  const bool thin_rows = random() % 2 == 0;
  const int64_t thin = pick({1, 2, 3, 5, 7, 8, 17, 33}), wide = pick({31, 50, 97}), k = pick({97, 213, 300});
  const int64_t m = thin_rows ? thin : wide, n = thin_rows ? wide : thin;
  const bool ta = random() % 3 == 0, tb = random() % 2 == 0;
  WorkloadText text;
  const Tensor a = text.argument(ta ? std::vector{k, m} : std::vector{m, k});
  const Tensor b = text.argument(tb ? std::vector{n, k} : std::vector{k, n});
  const Tensor start = GetParam() % 3 == 0 ? text.argument({m, n}) : text.fill({m, n}, "0.0");
  Tensor c = text.generic({a, b}, {ta ? "d2, d0" : "d0, d2", tb ? "d1, d2" : "d2, d1", "d0, d1"}, start, 3, "ppr",
                          kMultiplyAdd);
  if (random() % 2 == 0)
    c = text.generic({c, text.argument({n})}, {"d0, d1", "d1", "d0, d1"}, text.empty({m, n}), 2, "",
                     "%r = arith.addf %i0, %i1 : f32");
  const v1::KernelInfo info = checkWorkload(text.finish({c}), {.seed = GetParam()});
  if (ta || tb || !thin_rows) return;
  for (const auto& phase : info.phases()) EXPECT_NE(phase.strategy(), "pack") << "for " << m << " rows";
}

TEST(DotProducts, CopyFewColumnsOnce) {
  WorkloadText text;
  const Tensor c =
      text.named("matmul", {text.argument({300, 512}), text.argument({512, 3})}, text.fill({300, 3}, "0.0"));
  const v1::KernelInfo info = checkWorkload(text.finish({c}), {});
  ASSERT_EQ(info.phases_size(), 2);
  EXPECT_EQ(info.phases(0).strategy(), "pack");
  EXPECT_EQ(info.phases(1).strategy(), "contraction");
  EXPECT_GE(info.workspace_bytes(), 512 * 3 * 4);
}

// Vectors along one of several reductions: the copied operand is a single panel along it, which tiles continue through,
// whatever the distance between its rows. Both operands in any order of their dimensions, with few or no columns.
TEST_P(Packing, OfDotsOverSeveralReductions) {
  std::mt19937 random(GetParam() + 11000);
  auto pick = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  const bool is_double = random() % 2 == 0;
  const std::string element = is_double ? "f64" : "f32";
  // Rows and columns of the result, three reductions.
  const std::vector<int64_t> extents{pick({1, 1, 3, 9}), pick({1, 1, 2, 3}), pick({2, 5}), pick({1, 4}),
                                     pick({33, 102, 130})};
  WorkloadText text;
  auto operand = [&](std::vector<int> loops) {
    std::shuffle(loops.begin(), loops.end(), random);
    std::vector<int64_t> shape;
    std::string map;
    for (int loop : loops) {
      shape.push_back(extents[loop]);
      map += (map.empty() ? "d" : ", d") + std::to_string(loop);
    }
    return std::pair(text.argument(shape, element), map);
  };
  const auto [a, a_map] = operand({0, 2, 3, 4});
  const auto [b, b_map] = operand({1, 2, 3, 4});
  const Tensor c =
      text.generic({a, b}, {a_map, b_map, "d0, d1"}, text.fill({extents[0], extents[1]}, "0.0", element), 5, "pprrr",
                   "%m = arith.mulf %i0, %i1 : " + element + "\n    %r = arith.addf %o, %m : " + element);
  checkWorkload(text.finish({c}), {.seed = GetParam()});
}

// When a reduction is cut, only the columns are left for the grid: they must divide evenly between two threads, in
// panels too.
TEST(BlockedReduction, DividesBetweenThreads) {
  for (const bool panels : {false, true}) {
    WorkloadText text;
    const Tensor a = text.argument({3, 1700});
    Tensor c;
    if (panels) {
      c = text.generic({a, text.argument({24, 1700, 16})}, {"d0, d3", "d1, d3, d2", "d0, d1, d2"},
                       text.fill({3, 24, 16}, "0.0"), 4, "pppr", kMultiplyAdd);
    } else {
      c = text.named("matmul", {a, text.argument({1700, 384})}, text.fill({3, 384}, "0.0"));
    }
    const v1::KernelInfo info = checkWorkload(text.finish({c}), {});
    const int64_t grid = info.phases(info.phases_size() - 1).grid();
    EXPECT_GE(grid, 2) << (panels ? "panels" : "rows");
    EXPECT_EQ(grid % 2, 0) << (panels ? "panels" : "rows");
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Packing, ::testing::Range(0U, 60U));

/// A sum, and a consumer that first computes `count` quotients of x and only then uses them one by one.
std::string chainOf(int count) {
  WorkloadText text;
  const Tensor x = text.argument({8, 64});
  std::string body, value = "%i0";
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    body += "%c" + n + " = arith.constant " + std::to_string(i + 2) + ".0 : f32\n    %p" + n + " = arith.divf %c" + n +
            ", %i0 : f32\n    ";
  }
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    body += "%q" + n + " = arith.divf " + value + ", %p" + n + " : f32\n    ";
    value = "%q" + n;
  }
  const Tensor sum =
      text.generic({x}, {"d0, d1", "d0, d1"}, text.empty({8, 64}), 2, "", "%r = arith.addf %i0, %i0 : f32");
  const Tensor y = text.generic({x, sum}, {"d0, d1", "d0, d1", "d0, d1"}, text.empty({8, 64}), 2, "",
                                body + "%r = arith.addf " + value + ", %i1 : f32");
  return text.finish({y});
}

TEST(RegisterPressure, CutsWhatWouldSpill) {
  const CheckOptions options{.low = 1, .high = 2};
  const v1::KernelInfo fits = checkWorkload(chainOf(6), options);
  ASSERT_EQ(fits.phases_size(), 1);
  EXPECT_EQ(fits.phases(0).strategy(), "elementwise");
  const v1::KernelInfo cut = checkWorkload(chainOf(32), options);
  ASSERT_GE(cut.phases_size(), 1);  // both sides of the cut may still form one region
  EXPECT_NE(cut.phases(0).strategy().find("registers"), std::string::npos) << cut.phases(0).strategy();
}

TEST(PlainLoops, AreMadeOnRequest) {
  WorkloadText text;
  const Tensor c = text.named("matmul", {text.argument({9, 33}), text.argument({33, 40})}, text.fill({9, 40}, "0.0"));
  const Tensor e = text.generic({c}, {"d0, d1", "d0, d1"}, text.empty({9, 40}), 2, "", "%r = math.exp %i0 : f32");
  const v1::KernelInfo info = checkWorkload(text.finish({e}), {.request = {.scalar = true}});
  for (const auto& phase : info.phases()) EXPECT_EQ(phase.strategy(), "scalar-loops");
  EXPECT_EQ(info.strategy(), "scalar-loops");
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing
