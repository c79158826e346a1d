// Products within slices on instructions of the target: bf16 in pairs, 8-bit integers in groups of four, on vectors and
// on tiles, compared with the interpreter, which knows neither.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/testing/chain_text.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/tile_emulation.h"
#include "compiler/schedule/text.h"
#include "compiler/target/dot_product.h"
#include "compiler/target/target.h"
#include "compiler/target/tile_product.h"
#include "proto/messages/failure.h"

namespace tessera::compiler::codegen::testing {
namespace {

constexpr char kHalves[] =
    "%a = arith.extf %i0 : bf16 to f32\n    %b = arith.extf %i1 : bf16 to f32\n    %m = arith.mulf %a, %b : f32\n    "
    "%r = arith.addf %o, %m : f32";
constexpr char kBytes[] =
    "%a = arith.extui %i0 : i8 to i32\n    %b = arith.extsi %i1 : i8 to i32\n    %m = arith.muli %a, %b : i32\n    "
    "%r = arith.addi %o, %m : i32";

/// Queries [batch, m, k], keys [batch, n, k], values [batch, n, l].
struct Heads {
  int64_t batch, m, n, k, l;
};

/// The element types of a product of 8-bit integers, or of halves.
struct Kind {
  bool bytes = false;
  int64_t group() const { return bytes ? 4 : 2; }
  std::string element() const { return bytes ? "i8" : "bf16"; }
  std::string body() const { return bytes ? kBytes : kHalves; }
  Tensor start(WorkloadText& text, const std::vector<int64_t>& shape) const {
    return text.fill(shape, bytes ? "0" : "0.0", bytes ? "i32" : "f32");
  }
};

/// [b, n, l] -> [b, n / group, l, group], with the last group padded with zeros.
Tensor interleaved(WorkloadText& text, const Kind& kind, const Tensor& values) {
  const int64_t group = kind.group(), n = (values.shape[1] + group - 1) / group * group;
  Tensor padded = values;
  if (n != values.shape[1]) padded = text.pad(values, {0, 0, 0}, {0, n - values.shape[1], 0}, kind.bytes ? "0" : "0.0");
  const std::vector<int64_t> groups{n / group, values.shape[2], group};
  const Tensor split =
      text.raw(absl::StrCat("tensor.expand_shape ", padded.name, " [[0], [1, 2], [3]] output_shape [", values.shape[0],
                            ", ", groups[0], ", ", group, ", ", groups[1], "] : ", padded.type(), " into tensor<",
                            values.shape[0], "x", groups[0], "x", group, "x", groups[1], "x", kind.element(), ">"),
               {values.shape[0], groups[0], group, groups[1]}, kind.element());
  return text.generic({split}, {"d0, d1, d3, d2", "d0, d1, d2, d3"},
                      text.empty({values.shape[0], groups[0], groups[1], group}, kind.element()), 4, "",
                      "%r = " + std::string(kind.bytes ? "arith.ori %i0, %i0 : i8" : "arith.negf %i0 : bf16"));
}

/// Rows [b, m, n] times values in groups.
Tensor weighted(WorkloadText& text, const Kind& kind, const Tensor& rows, const Tensor& values) {
  const int64_t group = kind.group(), n = values.shape[1] * group;
  Tensor padded = rows;
  if (n != rows.shape[2]) padded = text.pad(rows, {0, 0, 0}, {0, 0, n - rows.shape[2]}, kind.bytes ? "0" : "0.0");
  const Tensor split =
      text.raw(absl::StrCat("tensor.expand_shape ", padded.name, " [[0], [1], [2, 3]] output_shape [", rows.shape[0],
                            ", ", rows.shape[1], ", ", n / group, ", ", group, "] : ", padded.type(), " into tensor<",
                            rows.shape[0], "x", rows.shape[1], "x", n / group, "x", group, "x", kind.element(), ">"),
               {rows.shape[0], rows.shape[1], n / group, group}, kind.element());
  return text.generic({split, values}, {"d0, d1, d3, d4", "d0, d3, d2, d4", "d0, d1, d2"},
                      kind.start(text, {rows.shape[0], rows.shape[1], values.shape[2]}), 5, "ppprr", kind.body());
}

Tensor scoresOf(WorkloadText& text, const Kind& kind, const Heads& heads) {
  const Tensor q = text.argument({heads.batch, heads.m, heads.k}, kind.element()),
               k = text.argument({heads.batch, heads.n, heads.k}, kind.element());
  return text.generic({q, k}, {"d0, d1, d3", "d0, d2, d3", "d0, d1, d2"},
                      kind.start(text, {heads.batch, heads.m, heads.n}), 4, "pppr", kind.body());
}

/// Attention whose products read bf16 and whose softmax is computed in f32.
std::string halfAttention(const Heads& heads) {
  const Kind kind{};
  WorkloadText text;
  const Tensor weights = softmax(text, scoresOf(text, kind, heads));
  const Tensor narrow = text.generic({weights}, {"d0, d1, d2", "d0, d1, d2"}, text.empty(weights.shape, "bf16"), 3, "",
                                     "%r = arith.truncf %i0 : f32 to bf16");
  const Tensor values = interleaved(text, kind, text.argument({heads.batch, heads.n, heads.l}, "bf16"));
  return text.finish({weighted(text, kind, narrow, values)});
}

/// Two products of 8-bit integers; the sums of the first are requantized to 8 bits.
std::string byteChain(const Heads& heads) {
  const Kind kind{.bytes = true};
  WorkloadText text;
  const Tensor sums = scoresOf(text, kind, heads);
  const Tensor narrow = text.generic(
      {sums}, {"d0, d1, d2", "d0, d1, d2"}, text.empty(sums.shape, "i8"), 3, "",
      "%s = arith.constant 7 : i32\n    %t = arith.shrsi %i0, %s : i32\n    %r = arith.trunci %t : i32 to i8");
  const Tensor values = interleaved(text, kind, text.argument({heads.batch, heads.n, heads.l}, "i8"));
  return text.finish({weighted(text, kind, narrow, values)});
}

/// A unit for the given chip, independent of this machine.
v1::BuildUnit unitFor(const char* chip, const std::string& ir) {
  const v1::Target& target = *findBuiltinTarget(chip);
  v1::BuildUnit unit = hostUnit(ir);
  *unit.mutable_code() = target.code();
  *unit.mutable_registers() = target.registers();
  *unit.mutable_intrinsics() = usableInstructions(target);
  return unit;
}

void onVectorsAlone(v1::BuildUnit& unit) {
  google::protobuf::RepeatedPtrField<v1::Intrinsic> kept;
  for (const v1::Intrinsic& each : unit.intrinsics())
    if (!isTileProduct(each)) *kept.Add() = each;
  *unit.mutable_intrinsics() = kept;
}

void onTilesAlone(v1::BuildUnit& unit) { addTileInstructions(unit, true); }

/// Instructions named by leaves of the tree, with the number of such leaves.
std::map<std::string, int> instructionsOf(const v1::Tile& tile) {
  std::map<std::string, int> names;
  if (const std::string& name = tile.kernel().instruction(); !name.empty()) ++names[name];
  for (const v1::Tile& child : tile.children())
    for (const auto& [name, count] : instructionsOf(child)) names[name] += count;
  return names;
}

std::map<std::string, int> instructionsOf(const std::string& ir, const Tiling& tiling,
                                          const std::function<void(v1::BuildUnit&)>& adjust) {
  v1::BuildUnit unit = hostUnit(ir);
  adjust(unit);
  auto schedule = defaultSchedule(unit, slicesOf(tiling));
  EXPECT_TRUE(schedule.ok()) << schedule.status().message();
  return schedule.ok() ? instructionsOf(schedule->phases(schedule->phases_size() - 1)) : std::map<std::string, int>();
}

void check(const std::string& ir, const Tiling& tiling, unsigned seed,
           const std::function<void(v1::BuildUnit&)>& adjust) {
  CheckOptions options = chained(tiling, seed);
  options.integer_range = 128;
  options.adjust = adjust;
  const auto info = checkWorkload(ir, options);
  ASSERT_GE(info.phases_size(), 1);
  EXPECT_NE(info.phases(info.phases_size() - 1).strategy().find("region of"), std::string::npos);
}

constexpr std::array<Heads, 7> kShapes = {{{2, 48, 64, 32, 32},
                                           {3, 29, 37, 20, 23},
                                           {1, 5, 7, 4, 2},
                                           {2, 33, 30, 16, 17},
                                           {1, 1, 40, 8, 16},
                                           {2, 70, 131, 36, 40},
                                           {1, 17, 2, 4, 1}}};
const std::array<Tiling, 4> kTilings = {
    {{{"d0", 1}, {"d1", 16}}, {{"d0", 1}}, {{"d1", 7}}, {{"d0", 1}, {"d1", 6}, {"d2", 16}}}};

/// Halves and bytes alternately.
void checkEveryShape(const std::function<void(v1::BuildUnit&)>& adjust) {
  unsigned seed = 0;
  for (const Heads& heads : kShapes)
    for (const Tiling& tiling : kTilings) {
      SCOPED_TRACE(::testing::Message() << heads.m << "x" << heads.n << "x" << heads.k << "x" << heads.l);
      const bool bytes = (seed + seed / kTilings.size()) % 2 == 1;
      check(bytes ? byteChain(heads) : halfAttention(heads), tiling, ++seed, adjust);
    }
}

TEST(RegionInstruction, VectorsComputeEveryShape) { checkEveryShape(onVectorsAlone); }

TEST(RegionInstruction, TilesComputeEveryShape) {
  v1::BuildUnit some;
  if (!addTileInstructions(some, true)) GTEST_SKIP() << "no tiles here";
  const TileEmulation tiles;
  checkEveryShape(onTilesAlone);
  EXPECT_FALSE(TileEmulation::hasShapes()) << "tiles are released";
}

TEST(RegionInstruction, BothProductsOfEachKindOfSlicesTakeOneUp) {
  const Heads heads{2, 64, 96, 32, 32};
  const Tiling tiling{{"d0", 1}, {"d1", 16}};
  auto vectors = [](const char* target) {
    return [target](v1::BuildUnit& unit) {
      *unit.mutable_intrinsics() = usableInstructions(*findBuiltinTarget(target));
      onVectorsAlone(unit);
      *unit.mutable_registers() = findBuiltinTarget(target)->registers();
    };
  };
  using Names = std::map<std::string, int>;
  EXPECT_EQ(instructionsOf(halfAttention(heads), tiling, vectors("znver4")), (Names{{"vdpbf16ps.512", 2}}));
  EXPECT_EQ(instructionsOf(byteChain(heads), tiling, vectors("cascadelake")), (Names{{"vpdpbusd.512", 2}}));
  EXPECT_EQ(instructionsOf(byteChain(heads), tiling, vectors("x86-64-v3")), (Names{{"vpmaddwd.256", 2}}));
  EXPECT_EQ(instructionsOf(halfAttention(heads), tiling, vectors("cascadelake")), Names{});
  v1::BuildUnit some;
  if (!addTileInstructions(some, true)) return;
  EXPECT_EQ(instructionsOf(halfAttention(heads), tiling, onTilesAlone), (Names{{"tdpbf16ps", 2}}));
  EXPECT_EQ(instructionsOf(byteChain(heads), tiling, onTilesAlone), (Names{{"tdpbusd", 2}}));
  // One more row gives slices of one row, which no tile holds: multiply-adds then read those panels that they can.
  EXPECT_EQ(instructionsOf(halfAttention({2, 65, 96, 32, 32}), tiling, onTilesAlone), (Names{{"tdpbf16ps", 2}}));
}

// With the padding column for an odd number of keys, a row's parts are not boxes: rows are taken whole, but slices are
// no larger.
TEST(RegionInstruction, OddRowsLieInScratchAsLargeAsASlice) {
  const Heads heads{3, 64, 61, 16, 16};
  CheckOptions options = chained({{"d0", 1}, {"d1", 16}});
  options.adjust = onVectorsAlone;
  const auto info = checkWorkload(halfAttention(heads), options);
  EXPECT_EQ(info.phases(info.phases_size() - 1).grid(), 3 * 4);
  // Scores, powers and weights of 16 rows, and the values; for all rows they would be more than three times as large.
  EXPECT_LT(info.scratch_bytes(), 16 * 62 * (4 + 4 + 2) + 62 * 16 * 4 + 64 * 16 * 4 + 4096);
}

TEST(RegionInstruction, RandomShapesAndTilings) {
  std::mt19937 random(5);
  auto pick = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  const bool tiles = [] {
    v1::BuildUnit unit;
    return addTileInstructions(unit, true);
  }();
  const TileEmulation emulation;
  for (unsigned seed = 0; seed < 24; ++seed) {
    const Heads heads{pick({1, 2, 3}), pick({1, 13, 32, 50}), pick({1, 7, 31, 64, 80}), pick({1, 8, 36, 37}),
                      pick({1, 16, 45})};
    Tiling tiling;
    if (random() % 4) tiling.emplace_back("d0", pick({1, 2}));
    if (random() % 4) tiling.emplace_back("d1", pick({1, 6, 14, 16, 64}));
    if (random() % 3 == 0) tiling.emplace_back("d2", pick({8, 16, 20}));
    std::shuffle(tiling.begin(), tiling.end(), random);
    if (tiling.empty()) tiling.emplace_back("d1", 12);
    const auto adjust = !tiles || random() % 2 ? onVectorsAlone : onTilesAlone;
    check(random() % 2 ? halfAttention(heads) : byteChain(heads), tiling, seed, adjust);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(RegionInstruction, TreesThatNameNoSuchInstructionAreRefused) {
  v1::BuildUnit unit = unitFor("znver4", halfAttention({2, 48, 64, 32, 32}));
  auto schedule = defaultSchedule(unit, slicesOf({{"d0", 1}, {"d1", 16}}));
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  auto again = parseSchedule(printSchedule(*schedule));
  ASSERT_TRUE(again.ok()) << again.status().message();
  *unit.mutable_schedule() = *again;
  EXPECT_TRUE(checkSchedule(unit).ok()) << checkSchedule(unit).message();
  std::string text = printSchedule(*schedule);
  const std::string name = "vdpbf16ps.512";
  ASSERT_NE(text.find(name), std::string::npos) << text;
  for (const auto& [other, message] : {std::pair("vdpbf17ps.512", "no such instruction"),
                                       {"vpdpbusd.512", "an instruction that the nest cannot use"}}) {
    std::string changed = text;
    changed.replace(changed.find(name), name.size(), other);
    auto parsed = parseSchedule(changed);
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    *unit.mutable_schedule() = *parsed;
    const v1::Failure failure = failureOf(checkSchedule(unit));
    EXPECT_EQ(failure.reason(), v1::Failure::INVALID_SCHEDULE);
    EXPECT_NE(failure.message().find(message), std::string::npos) << failure.message();
    EXPECT_EQ(failure.found(), other);
  }
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing
