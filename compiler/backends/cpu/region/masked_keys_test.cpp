// Keys that a softmax's mask removes: which slices skip them, and in groups of which size.
#include <gtest/gtest.h>

#include <random>

#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/testing/chain_text.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "proto/messages/failure.h"

namespace tessera::compiler::codegen::testing {
namespace {

/// softmax(A B * scale + mask) C with masked columns, where the mask is -inf.
std::string maskedAttention(int64_t m, int64_t n, int last_seeing_row) {
  WorkloadText text;
  const Tensor a = text.argument({2, m, 16}), b = text.argument({2, n, 16}), c = text.argument({2, n, 20});
  const Tensor s = batchProduct(text, a, b, true);
  const std::string id = "d0, d1, d2";
  // Row i sees columns up to i; rows after last_seeing_row see none.
  const Tensor masked = text.generic(
      {s}, {id, id}, text.empty(s.shape), 3, "",
      "%f = arith.constant 0.25 : f32\n    %low = arith.constant 0xFF800000 : f32\n"
      "    %limit = arith.constant " +
          std::to_string(last_seeing_row) +
          " : index\n    %x = arith.mulf %i0, %f : f32\n    %row = linalg.index 1 : index\n"
          "    %column = linalg.index 2 : index\n    %after = arith.cmpi ult, %row, %column : index\n"
          "    %none = arith.cmpi ult, %limit, %row : index\n    %seen = arith.select %after, %low, %x : f32\n"
          "    %r = arith.select %none, %low, %seen : f32");
  return text.finish({batchProduct(text, softmax(text, masked), c)});
}

TEST(Region, MaskedRows) {
  for (const Tiling& tiling :
       {Tiling{{"d0", 1}, {"d1", 8}}, Tiling{{"d0", 1}, {"d1", 8}, {"r0", 5}}, Tiling{{"d1", 16}, {"r0", 16}}}) {
    checkWorkload(maskedAttention(37, 40, 1000), chained(tiling));
    checkWorkload(maskedAttention(37, 40, 20), chained(tiling));  // NaN in rows 21 to 36, as without fusion
  }
}

std::string window(int64_t before) {
  return "%before = arith.constant " + std::to_string(before) +
         " : index\n    %reach = arith.addi %column, %before : index\n    %seen = arith.cmpi ule, %column, %row : "
         "index\n    %near = arith.cmpi uge, %reach, %row : index\n    %both = arith.andi %seen, %near : i1\n    "
         "%r = arith.select %both, %i0, %low : f32";
}

std::string strategyOf(const v1::KernelInfo& info) { return info.phases(info.phases_size() - 1).strategy(); }

TEST(Region, CausalRowsSkipTheKeysBehindThem) {
  for (const Chain& chain :
       {Chain{2, 300, 300, 16, 24}, Chain{1, 257, 321, 20, 17, "f32", true}, Chain{3, 130, 130, 8, 5, "f64"}}) {
    for (const Tiling& tiling : {Tiling{{"d0", 1}, {"d1", 16}}, Tiling{{"d1", 48}}, Tiling{{"d0", 1}, {"d1", 37}}}) {
      const auto info =
          checkWorkload(attentionMaskedBy(causal(chain.n - chain.m, chain.element), chain), chained(tiling));
      EXPECT_NE(strategyOf(info).find("of the keys masked"), std::string::npos) << strategyOf(info);
    }
  }
}

TEST(Region, CausalBlocksBehindTheRowsDoNotRun) {
  for (const Chain& chain : {Chain{2, 100, 100, 16, 24}, Chain{1, 57, 91, 20, 17, "f32", true}}) {
    for (const Tiling& tiling : {Tiling{{"d0", 1}, {"d1", 16}, {"r0", 16}}, Tiling{{"d1", 48}, {"r0", 7}},
                                 Tiling{{"d0", 1}, {"d1", 3}, {"r0", 3}}}) {
      const auto info = checkWorkload(attentionMaskedBy(causal(chain.n - chain.m), chain), chained(tiling));
      EXPECT_NE(strategyOf(info).find("of the keys masked"), std::string::npos) << strategyOf(info);
    }
  }
}

/// Slightly more than half of the keys: a row of 16 slices of 16 sees 17 of 32 pieces on average.
TEST(Region, SkippedKeysAreCounted) {
  const std::string ir = attentionMaskedBy(causal(0), {1, 256, 256, 16, 16});
  EXPECT_NE(strategyOf(checkWorkload(ir, chained({{"d1", 16}, {"r0", 16}}))).find("47 % of the keys masked"),
            std::string::npos);
  EXPECT_NE(strategyOf(checkWorkload(ir, chained({{"d1", 16}}))).find("38 % of the keys masked"), std::string::npos);
}

TEST(Region, WindowsSkipKeysBeforeThem) {
  for (const Tiling& tiling : {Tiling{{"d0", 1}, {"d1", 16}, {"r0", 16}}, Tiling{{"d1", 24}, {"r0", 10}},
                               Tiling{{"d0", 1}, {"d1", 32}}, Tiling{{"d0", 1}, {"d1", 64}}}) {
    const auto info = checkWorkload(attentionMaskedBy(window(70), {2, 400, 400, 16, 20}), chained(tiling));
    EXPECT_NE(strategyOf(info).find("of the keys masked"), std::string::npos) << strategyOf(info);
  }
}

/// Rows that see no key at all: NaN, as without fusion, whether their blocks are skipped or not.
TEST(Region, RowsThatSeeNothing) {
  for (int64_t offset : {-150, -1}) {
    const std::string mask = "%shift = arith.constant " + std::to_string(-offset) +
                             " : index\n    %reach = arith.addi %column, %shift : index\n    %seen = arith.cmpi ule, "
                             "%reach, %row : index\n    %r = arith.select %seen, %i0, %low : f32";
    for (const Tiling& tiling : {Tiling{{"d0", 1}, {"d1", 16}}, Tiling{{"d0", 1}, {"d1", 16}, {"r0", 32}}})
      checkWorkload(attentionMaskedBy(mask, {2, 200, 200, 16, 20}), chained(tiling));
  }
}

/// With a mask that does not depend on positions, no key is skipped.
TEST(Region, NothingIsSkippedWithoutPositions) {
  const auto info =
      checkWorkload(attentionMaskedBy("%z = arith.constant 0.0 : f32\n    %seen = arith.cmpf olt, %z, %i0 "
                                      ": f32\n    %r = arith.select %seen, %i0, %z : f32",
                                      {1, 128, 256, 16, 16}),
                    chained({{"d1", 16}}));
  EXPECT_EQ(strategyOf(info).find("masked"), std::string::npos) << strategyOf(info);
}

TEST(Region, RandomMasks) {
  std::mt19937 random(23);
  auto pick = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  for (unsigned seed = 0; seed < 24; ++seed) {
    Chain chain{pick({1, 2, 3}), pick({1, 31, 100, 211}), pick({65, 127, 200, 257}), pick({1, 8, 37}),
                pick({1, 16, 45})};
    chain.transposed = random() % 2 != 0;
    const std::string mask = random() % 2 ? causal(pick({0, 1, 60})) : window(pick({0, 5, 90}));
    Tiling tiling;
    if (random() % 4) tiling.emplace_back("d0", 1);
    tiling.emplace_back("d1", pick({1, 6, 16, 50}));
    if (random() % 2) tiling.emplace_back("r0", pick({5, 16, 64}));
    checkWorkload(attentionMaskedBy(mask, chain), chained(tiling, seed));
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

/// softmax(where(mask, A B, -inf)) C with conditions in memory, one per key, stored as `element` and computed by `body`
/// from a scalar; `projected`: followed by another product.
std::string attentionOfLength(const Chain& chain, const std::string& element, const std::string& body,
                              bool projected = false) {
  WorkloadText text;
  const auto [batch, m, n, k, l, type, transposed] = chain;
  const Tensor a = text.argument({batch, m, k}, type);
  const Tensor b = text.argument(transposed ? std::vector{batch, n, k} : std::vector{batch, k, n}, type);
  const Tensor c = text.argument({batch, n, l}, type), length = text.argument({}, "i64");
  const Tensor mask = text.generic({length}, {"", "d0"}, text.empty({n}, element), 1, "",
                                   "%key = linalg.index 0 : index\n    %at = arith.index_cast %key : index to i64\n    "
                                   "%within = arith.cmpi slt, %at, %i0 : i64\n    " +
                                       body);
  const std::string id = "d0, d1, d2", low = type == "f64" ? "0xFFF0000000000000" : "0xFF800000";
  const Tensor masked = text.generic(
      {batchProduct(text, a, b, transposed), mask}, {id, "d2", id}, text.empty({batch, m, n}, type), 3, "",
      "%low = arith.constant " + low + " : " + type +
          (element == "i1" ? "\n    %r = arith.select %i1, %i0, %low : "
                           : "\n    %kept = arith.trunci %i1 : i8 to i1\n    %r = arith.select %kept, %i0, %low : ") +
          type);
  const Tensor y = batchProduct(text, softmax(text, masked), c);
  return text.finish({projected ? batchProduct(text, y, text.argument({batch, l, 8}, type)) : y});
}

constexpr char kBit[] = "%r = arith.select %within, %within, %within : i1";
constexpr char kByte[] = "%r = arith.extui %within : i1 to i8";

// Lengths from zero, whose rows are NaN, to all keys: whole pieces up to the last key that is kept.
TEST(Region, ConditionsInMemoryEndTheKeys) {
  for (const Chain& chain :
       {Chain{2, 26, 300, 16, 24}, Chain{1, 33, 391, 20, 17, "f32", true}, Chain{3, 30, 130, 8, 5, "f64"}}) {
    for (const Tiling& tiling : {Tiling{{"d0", 1}, {"d1", 16}}, Tiling{{"d1", 24}}}) {
      for (unsigned seed = 0; seed < 4; ++seed) {
        CheckOptions options = chained(tiling, seed);
        options.integer_range = chain.n + 20;
        const bool projected = seed % 2 != 0;
        const std::string ir = seed % 4 < 2 ? attentionOfLength(chain, "i8", kByte, projected)
                                            : attentionOfLength(chain, "i1", kBit, projected);
        const auto info = checkWorkload(ir, options);
        EXPECT_NE(strategyOf(info).find("keys counted by 64"), std::string::npos) << strategyOf(info);
      }
    }
  }
}

// A false condition in the middle is computed and masked as usual.
TEST(Region, KeysBehindTheLastConditionAlone) {
  const std::string parity =
      "%bit = arith.trunci %at : i64 to i1\n    %odd = arith.andi %bit, %within : i1\n    %r = arith.extui %odd : i1 "
      "to i8";
  for (unsigned seed = 0; seed < 6; ++seed) {
    CheckOptions options = chained({{"d1", 16}}, seed);
    options.integer_range = 320;
    checkWorkload(attentionOfLength({1, 32, 300, 16, 24}, "i8", parity), options);
  }
}

// Conditions that differ between rows do not shorten all rows.
TEST(Region, ConditionsByRowAreNotCounted) {
  WorkloadText text;
  const Tensor a = text.argument({32, 16}), b = text.argument({200, 16}), c = text.argument({200, 24});
  const Tensor mask = text.argument({32, 200}, "i8");
  const std::string id = "d0, d1, d2";
  const auto batch = [&](const Tensor& x) {
    return text.raw("tensor.expand_shape " + x.name + " [[0, 1], [2]] output_shape [1, " + join(x.shape) +
                        "] : " + x.type() + " into tensor<1x" + join(x.shape, "x") + "xf32>",
                    {1, x.shape[0], x.shape[1]});
  };
  const Tensor masked = text.generic(
      {batchProduct(text, batch(a), batch(b), true), mask}, {id, "d1, d2", id}, text.empty({1, 32, 200}), 3, "",
      "%low = arith.constant 0xFF800000 : f32\n    %kept = arith.trunci %i1 : i8 to i1\n    "
      "%r = arith.select %kept, %i0, %low : f32");
  const auto info =
      checkWorkload(text.finish({batchProduct(text, softmax(text, masked), batch(c))}), chained({{"d1", 16}}));
  EXPECT_EQ(strategyOf(info).find("counted"), std::string::npos) << strategyOf(info);
}

/// The pieces are those of the tree: other pieces skip other keys, none skips none, and an invalid piece is refused.
TEST(Region, PiecesOfMaskedKeysAreTheTrees) {
  for (const Tiling& tiling : {Tiling{{"d1", 16}}, Tiling{{"d1", 16}, {"r0", 32}}}) {
    const std::string ir = attentionMaskedBy(causal(0), {2, 256, 256, 16, 16});
    v1::BuildUnit unit = hostUnit(ir);
    auto schedule = defaultSchedule(unit, slicesOf(tiling));
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    const v1::Tile& region = schedule->phases(schedule->phases_size() - 1);
    ASSERT_EQ(region.loops(region.loops_size() - 1).dimension(), "keys");
    EXPECT_EQ(region.loops(region.loops_size() - 1).step(), tiling.size() == 1 ? 64 : 32);
    EXPECT_EQ(region.loops(region.loops_size() - 1).unit(), "");
    for (const int64_t piece : {-32, 0, 1, 33, 256, 1000}) {
      v1::Schedule changed = *schedule;
      changed.mutable_phases(changed.phases_size() - 1)->mutable_loops()->rbegin()->set_step(piece);
      *unit.mutable_schedule() = changed;
      const absl::Status status = checkSchedule(unit);
      EXPECT_EQ(failureOf(status).reason(), v1::Failure::INVALID_SCHEDULE) << piece << status;
    }
    // Blocks that all slices run, whatever they need of them: the same leaves.
    if (tiling.size() == 1) continue;
    CheckOptions options = chained(tiling);
    options.edit = [&](v1::Schedule& followed) {
      followed.mutable_phases(followed.phases_size() - 1)->mutable_loops()->RemoveLast();
    };
    EXPECT_EQ(strategyOf(checkWorkload(ir, options)).find("masked"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing
