// Register tiles by equation 3.4, and what packing and cache blocks must not change.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compiler/codegen/codegen.h"
#include "compiler/codegen/contraction_plan.h"
#include "compiler/codegen/testing/check_workload.h"
#include "compiler/codegen/testing/loaded_unit.h"
#include "compiler/codegen/testing/workload_text.h"

namespace tessera::compiler::codegen::testing {
namespace {

constexpr char kMultiplyAdd[] = "%m = arith.mulf %i0, %i1 : f32\n    %r = arith.addf %o, %m : f32";

TEST(RegisterTile, IsTheDensestThatFits) {
  const struct {
    int registers, rows, vectors, broadcasts;
  } kFiles[] = {{32, 6, 4, 2}, {16, 6, 2, 2}};  // AVX-512, AVX2
  for (const auto& [registers, rows, vectors, broadcasts] : kFiles) {
    for (double steps : {64.0, 256.0, 4096.0}) {
      const RegisterTile tile = densestTile(registers, steps);
      EXPECT_EQ(tile.rows, rows) << registers << " registers, " << steps << " steps";
      EXPECT_EQ(tile.vectors, vectors);
      EXPECT_EQ(tile.broadcasts, broadcasts);
      // All alternatives, counted here once more.
      for (int mi = 1; mi <= registers; ++mi)
        for (int ni = 1; ni <= registers; ++ni)
          for (int mii = 2; mii <= mi; ++mii) {
            if (mi % mii != 0 || mi * ni + ni + mii > registers) continue;
            const double intensity = mi * ni * steps / (steps * (mi + ni) + 2.0 * mi * ni);
            EXPECT_LE(intensity, tile.intensity(steps) * (1 + 1e-12)) << mi << " x " << ni << " x " << mii;
          }
    }
  }
}

TEST(RegisterTile, OfAProductFitsTheRegisterFile) {
  for (auto [bits, registers, cpu] : {std::tuple(512, 32, "cascadelake"), std::tuple(256, 16, "x86-64-v3")}) {
    WorkloadText text;
    const Tensor c =
        text.named("matmul", {text.argument({480, 256}), text.argument({256, 512})}, text.fill({480, 512}, "0.0"));
    v1::BuildUnit unit = hostUnit(text.finish({c}));
    unit.mutable_code()->set_cpu(cpu);
    unit.mutable_registers()->set_vector_bits(bits);
    unit.mutable_registers()->set_vector_count(registers);
    auto schedule = chooseSchedule(unit);
    ASSERT_TRUE(schedule.ok()) << schedule.status().message();
    ASSERT_EQ(schedule->register_tile_size(), 2);
    const int rows = schedule->register_tile(0), vectors = schedule->register_tile(1);
    EXPECT_LE(rows * vectors + vectors + 1, registers);
    EXPECT_GE(rows * vectors, registers / 16 * 10) << "too few chains to hide the latency of a multiply-add";
    EXPECT_GE(RegisterTile({rows, vectors, 1}).intensity(256), 0.9 * densestTile(registers, 256).intensity(256));
    ASSERT_EQ(schedule->packed_operands_size(), 1) << "rows of 2 KB are packed, in the plan to see";
    EXPECT_EQ(schedule->packed_operands(0), 1);

    // The schedule replays: building it gives the same object as building without one.
    auto plain = buildObject(unit);
    *unit.mutable_schedule() = *schedule;
    auto replayed = buildObject(unit);
    ASSERT_TRUE(plain.ok() && replayed.ok());
    EXPECT_EQ(plain->object(), replayed->object());
    ASSERT_EQ(plain->info().phases_size(), 2);
    EXPECT_EQ(plain->info().phases(0).strategy(), "pack");
    EXPECT_EQ(plain->info().phases(1).strategy(), "contraction");
  }
}

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
  const v1::KernelInfo info = checkWorkload(text.finish({c}), {.seed = GetParam(), .adjust = [&](v1::BuildUnit& unit) {
                                                                 v1::Schedule& schedule = *unit.mutable_schedule();
                                                                 schedule.add_register_tile(static_cast<int>(rows));
                                                                 schedule.add_register_tile(static_cast<int>(vectors));
                                                                 if (batch > 1) schedule.add_cache_tile(0);
                                                                 for (int64_t block : {block_m, block_n, block_k})
                                                                   schedule.add_cache_tile(block);
                                                                 schedule.add_packed_operands(-1);
                                                                 for (int input : {0, 1})
                                                                   if (packed >> input & 1)
                                                                     schedule.add_packed_operands(input);
                                                               }});
  const auto packs = std::count_if(info.phases().begin(), info.phases().end(),
                                   [](const auto& phase) { return phase.strategy() == "pack"; });
  EXPECT_EQ(packs, packed > 0 ? 1 : 0);
}

// What the analysis chooses by itself for operands too large for L1, in all four layouts, a power of two apart.
TEST_P(Packing, IsChosenForLargeOperands) {
  if (GetParam() >= 8) GTEST_SKIP();
  const bool ta = GetParam() & 1, tb = GetParam() & 2;
  const int64_t m = GetParam() & 4 ? 61 : 48, n = 512, k = 130;
  WorkloadText text;
  const Tensor c = text.generic({text.argument(ta ? std::vector{k, m} : std::vector{m, k}),
                                 text.argument(tb ? std::vector{n, k} : std::vector{k, n})},
                                {ta ? "d2, d0" : "d0, d2", tb ? "d1, d2" : "d2, d1", "d0, d1"},
                                text.fill({m, n}, "0.0"), 3, "ppr", kMultiplyAdd);
  const v1::KernelInfo info = checkWorkload(text.finish({c}), {.seed = GetParam()});
  ASSERT_EQ(info.phases_size(), 2);
  EXPECT_EQ(info.phases(0).strategy(), "pack");
  EXPECT_GE(info.workspace_bytes(), n * k * 4);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Packing, ::testing::Range(0U, 60U));

TEST(PlainLoops, AreMadeOnRequest) {
  WorkloadText text;
  const Tensor c = text.named("matmul", {text.argument({9, 33}), text.argument({33, 40})}, text.fill({9, 40}, "0.0"));
  const Tensor e = text.generic({c}, {"d0, d1", "d0, d1"}, text.empty({9, 40}), 2, "", "%r = math.exp %i0 : f32");
  const v1::KernelInfo info = checkWorkload(
      text.finish({e}), {.adjust = [](v1::BuildUnit& unit) { unit.mutable_schedule()->set_strategy("scalar-loops"); }});
  for (const auto& phase : info.phases()) EXPECT_EQ(phase.strategy(), "scalar-loops");
  EXPECT_EQ(info.strategy(), "scalar-loops");
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing
