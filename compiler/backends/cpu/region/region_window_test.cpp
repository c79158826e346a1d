// Chains of convolutions slice by slice: halos are recomputed, or kept where slices follow each other; borders of
// padded intermediates are filled in the slices that touch them. Against the oracle.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/testing/chain_text.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/tree_workloads.h"
#include "compiler/schedule/text.h"
#include "proto/messages/failure.h"

namespace tessera::compiler::codegen::testing {
namespace {

struct Window {
  int64_t kernel = 3, pad = 1, stride = 1, dilation = 1;
};

/// conv, optionally relu, conv; images of [1, h, w, c].
std::string windowChain(int64_t h, int64_t w, int64_t channels, const Window& first, const Window& second,
                        bool with_relu) {
  WorkloadText text;
  const int64_t between = channels + 3, out = channels + 5;
  const Tensor x = text.argument({1, h, w, channels});
  const Tensor f1 = text.argument({first.kernel, first.kernel, channels, between}),
               f2 = text.argument({second.kernel, second.kernel, between, out});
  Tensor y = convolution(text, x, f1, first.pad, first.stride, first.dilation);
  if (with_relu) y = relu(text, y);
  return text.finish({convolution(text, y, f2, second.pad, second.stride, second.dilation)});
}

/// One phase apart from packing, with everything between the convolutions in scratch.
void expectRegion(const v1::KernelInfo& info) {
  ASSERT_GE(info.phases_size(), 1);
  EXPECT_NE(info.phases(info.phases_size() - 1).strategy().find("region of"), std::string::npos);
  for (int p = 0; p + 1 < info.phases_size(); ++p) EXPECT_EQ(info.phases(p).strategy(), "pack");
  EXPECT_GT(info.scratch_bytes(), 0);
}

TEST(RegionWindow, OneByOneThenThreeByThree) {
  for (bool with_relu : {false, true})
    expectRegion(checkWorkload(windowChain(14, 11, 8, {1, 0}, {3, 1}, with_relu), chained({{"d1", 4}})));
}

TEST(RegionWindow, TwoThreeByThree) {
  for (bool with_relu : {false, true}) {
    expectRegion(checkWorkload(windowChain(16, 13, 5, {3, 1}, {3, 1}, with_relu), chained({{"d1", 3}})));
    expectRegion(checkWorkload(windowChain(16, 13, 5, {3, 0}, {3, 0}, with_relu), chained({{"d1", 5}})));
  }
}

TEST(RegionWindow, RowsAndColumns) {
  expectRegion(checkWorkload(windowChain(12, 17, 4, {3, 1}, {3, 1}, true), chained({{"d1", 4}, {"d2", 8}})));
}

TEST(RegionWindow, StridesAndDilation) {
  expectRegion(checkWorkload(windowChain(21, 19, 4, {3, 1, 2}, {3, 1}, true), chained({{"d1", 4}})));
  expectRegion(checkWorkload(windowChain(21, 19, 4, {3, 1}, {3, 1, 2}, true), chained({{"d1", 3}})));
  expectRegion(checkWorkload(windowChain(20, 15, 4, {3, 2, 1, 2}, {3, 1}, false), chained({{"d1", 6}})));
  expectRegion(checkWorkload(windowChain(20, 15, 4, {3, 1}, {3, 2, 1, 2}, false), chained({{"d1", 6}})));
  expectRegion(checkWorkload(windowChain(23, 16, 4, {5, 2}, {1, 0, 2}, false), chained({{"d1", 5}})));
}

TEST(RegionWindow, HaloIsAsSmallAsTheWindows) {
  const auto info = checkWorkload(windowChain(64, 16, 8, {3, 1}, {3, 1}, true), chained({{"d1", 8}}));
  expectRegion(info);
  // Rows of the padded input (12) and of the padded intermediate (10), both of 18 columns: never all 66.
  EXPECT_LT(info.scratch_bytes(), (12 * 8 + 10 * 11) * 18 * 4 * 5 / 4);
}

TEST(RegionWindow, ResidualBlock) {
  WorkloadText text;
  const Tensor x = text.argument({2, 15, 12, 16}), f1 = text.argument({3, 3, 16, 16}),
               f2 = text.argument({3, 3, 16, 16});
  const std::string id = "d0, d1, d2, d3";
  const Tensor inner = relu(text, convolution(text, x, f1, 1));
  const Tensor sum = text.generic({convolution(text, inner, f2, 1), x}, {id, id, id}, text.empty(x.shape), 4, "",
                                  "%r = arith.addf %i0, %i1 : f32");
  expectRegion(checkWorkload(text.finish({relu(text, sum)}), chained({{"d0", 1}, {"d1", 4}})));
}

/// [1, c, h, w] to [1, h, w, c], or back.
Tensor turned(WorkloadText& text, const Tensor& x, bool to_planes) {
  const auto& s = x.shape;
  const std::vector<int64_t> shape =
      to_planes ? std::vector<int64_t>{s[0], s[3], s[1], s[2]} : std::vector<int64_t>{s[0], s[2], s[3], s[1]};
  return text.generic({x}, {to_planes ? "d0, d2, d3, d1" : "d0, d3, d1, d2", "d0, d1, d2, d3"}, text.empty(shape), 4,
                      "", "%z = arith.constant 0.0 : f32\n    %r = arith.addf %i0, %z : f32");
}

/// Planes in, planes out: transposing the input is part of each slice, the result is transposed as it is stored, and
/// each slice prefetches rows of the next one's planes.
std::string planesChain(int64_t h, int64_t w, int64_t channels, const Window& first, int64_t outputs) {
  WorkloadText text;
  const Tensor x = text.argument({1, channels, h, w});
  const Tensor f1 = text.argument({first.kernel, first.kernel, channels, channels + 3}),
               f2 = text.argument({1, 1, channels + 3, outputs});
  const Tensor y = convolution(text, turned(text, x, false), f1, first.pad, first.stride, first.dilation);
  return text.finish({turned(text, convolution(text, relu(text, y), f2, 0), true)});
}

TEST(RegionWindow, PlanesAreTurnedWithinSlices) {
  for (int64_t outputs : {16, 48, 19, 3}) {
    expectRegion(checkWorkload(planesChain(14, 35, 16, {3, 1}, outputs), chained({{"d2", 4}})));
    expectRegion(checkWorkload(planesChain(15, 29, 33, {3, 1, 2}, outputs), chained({{"d2", 3}})));
    expectRegion(checkWorkload(planesChain(7, 17, 9, {1, 0}, outputs), chained({{"d2", 2}})));
    expectRegion(checkWorkload(planesChain(9, 1, 16, {1, 0}, outputs), chained({{"d2", 1}})));
  }
}

/// A region whose slices keep halos, in this number of parts.
void expectKept(const v1::KernelInfo& info, int64_t parts) {
  expectRegion(info);
  const auto& phase = info.phases(info.phases_size() - 1);
  EXPECT_NE(phase.strategy().find(absl::StrCat("halos kept in ", parts, " part")), std::string::npos)
      << phase.strategy();
  EXPECT_EQ(phase.grid(), parts);
}

TEST(RegionWindow, HalosAreKept) {
  for (bool with_relu : {false, true}) {
    expectKept(checkWorkload(windowChain(16, 13, 5, {3, 1}, {3, 1}, with_relu), chained({{"d1", 8}, {"d1", 4}})), 2);
    expectKept(checkWorkload(windowChain(16, 13, 5, {3, 1}, {3, 1}, with_relu), chained({{"d1", 16}, {"d1", 4}})), 1);
    expectKept(checkWorkload(windowChain(16, 13, 5, {3, 0}, {3, 0}, with_relu), chained({{"d1", 6}, {"d1", 1}})), 2);
    expectKept(checkWorkload(windowChain(14, 11, 8, {1, 0}, {3, 1}, with_relu), chained({{"d1", 8}, {"d1", 4}})), 2);
  }
}

TEST(RegionWindow, HalosAreKeptWithinColumns) {
  expectKept(checkWorkload(windowChain(23, 17, 4, {3, 1}, {3, 1}, true), chained({{"d2", 8}, {"d1", 9}, {"d1", 3}})),
             9);
}

TEST(RegionWindow, RandomChains) {
  std::mt19937 random(7);
  auto pick = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  for (unsigned seed = 0; seed < 12; ++seed) {
    auto window = [&] {
      Window window;
      window.kernel = pick({1, 3, 5});
      window.pad = window.kernel / 2 * pick({0, 1, 1});
      window.stride = pick({1, 1, 2});
      window.dilation = pick({1, 1, 2});
      return window;
    };
    const Window first = window(), second = window();
    Tiling tiling{{"d1", pick({1, 2, 3, 7})}};
    if (random() % 3 == 0) tiling.emplace_back("d2", pick({2, 5}));
    checkWorkload(windowChain(pick({19, 24, 29}), pick({17, 20}), pick({1, 3, 16}), first, second, random() % 2 != 0),
                  chained(tiling, seed));
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

/// The status of a tree whose slices keep halos after its loops are changed.
absl::Status withLoops(const std::string& loops) {
  v1::BuildUnit unit = hostUnit(windowChain(18, 13, 5, {3, 1}, {3, 1}, true));
  auto schedule = defaultSchedule(unit, slicesOf({{"d1", 8}, {"d1", 4}}));
  if (!schedule.ok()) return schedule.status();
  const std::string text = printSchedule(*schedule), kept = "[d1:Sp(core)/8 d1:Tp/4]";
  EXPECT_NE(text.find(kept), std::string::npos) << text;
  auto changed = parseSchedule(absl::StrReplaceAll(text, {{kept, loops}}));
  if (!changed.ok()) return changed.status();
  *unit.mutable_schedule() = *changed;
  return checkSchedule(unit);
}

TEST(RegionWindow, TreesSayWhichHalosAreKept) {
  EXPECT_EQ(withLoops("[d1:Sp(core)/8 d1:Tp/4]"), absl::OkStatus());
  const auto refused = [](const std::string& loops, const std::string& why) {
    const absl::Status status = withLoops(loops);
    EXPECT_EQ(failureOf(status).reason(), v1::Failure::INVALID_SCHEDULE) << loops << ": " << status;
    EXPECT_EQ(failureOf(status).attribute(), "0") << loops << ": " << status;
    EXPECT_NE(status.message().find(why), std::string::npos) << loops << ": " << status;
  };
  refused("[d1:Sp(core)/8 d1:Tp/3]", "in sequences of 8");
  refused("[d1:Sp(core)/8 d1:Tp/8]", "in sequences of 8");
  refused("[d1:Tp/8 d1:Sp(core)/4]", "unit of d1");
  refused("[d1:Tp/8 d1:Tp/4]", "unit of d1");
  refused("[d1:Sp(core)/8 d1:Sp(core)/4]", "cut twice");
  refused("[d1:Sp(core)/8 d2:Sp(core)/8 d1:Tp/4]", "cut twice");
  refused("[d1:Sp(core)/8 d2:Tp/4]", "kinds of slices");
}

/// Bufferization would put the first product's result and the second one's padded result in one buffer, whose rows are
/// then no halo of either.
TEST(RegionWindow, ABufferThatHeldSomethingElseFirstKeepsOnlyWhatIsFinal) {
  WorkloadText text;
  Tensor x = text.argument({1, 29, 17, 8});
  for (const auto& [kernel, filters, stride] : {std::array<int64_t, 3>{1, 4, 2}, {3, 4, 1}, {3, 11, 1}})
    x = convolution(text, x, text.argument({kernel, kernel, x.shape[3], filters}), kernel / 2, stride);
  const std::string ir = text.finish({x});
  for (const int64_t slice : {1, 2, 3}) {
    expectKept(checkWorkload(ir, chained({{"d1", 200}, {"d1", slice}})), 1);
    expectKept(checkWorkload(ir, chained({{"d2", 5}, {"d1", 2 * slice}, {"d1", slice}})), 2 * (15 / (2 * slice) + 1));
  }
}

/// Maximum over windows of `size` rows and columns.
Tensor pool(WorkloadText& text, const Tensor& x, int64_t size, int64_t stride) {
  auto out = [&](int64_t in) { return (in - size) / stride + 1; };
  const std::vector<int64_t> shape{x.shape[0], out(x.shape[1]), out(x.shape[2]), x.shape[3]};
  const Tensor window = text.empty({size, size});
  return text.generic(
      {x, window}, {absl::StrCat("d0, d1 * ", stride, " + d3, d2 * ", stride, " + d4, d5"), "d3, d4", "d0, d1, d2, d5"},
      text.fill(shape, "0xFF800000"), 6, "ppprrp", "%r = arith.maximumf %i0, %o : f32");
}

/// Values of one shape, padded by one constant: the first padding is copied from the buffer of the second one.
TEST(RegionWindow, PaddingOfOneShapeIsWrittenForEach) {
  for (const int64_t slice : {1, 2, 3}) {
    WorkloadText text;
    Tensor x = text.argument({1, 22, 13, 4});
    for (int member = 0; member < 3; ++member) x = relu(text, convolution(text, x, text.argument({3, 3, 4, 4}), 1));
    const std::string ir = text.finish({pool(text, x, 2, 2)});
    expectKept(checkWorkload(ir, chained({{"d1", 11}, {"d1", slice}})), 1);
    expectKept(checkWorkload(ir, chained({{"d1", 2 * slice}, {"d1", slice}})), (11 + 2 * slice - 1) / (2 * slice));
  }
}

TEST(RegionWindow, RandomChainsKeepHalos) {
  std::mt19937 random(11);
  auto pick = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  int kept = 0;
  for (unsigned seed = 0; seed < 16; ++seed) {
    WorkloadText text;
    Tensor x = text.argument({pick({1, 1, 2}), pick({17, 23, 24, 29}), pick({9, 16, 17}), pick({1, 3, 8})});
    const int members = static_cast<int>(pick({2, 3}));
    for (int member = 0; member < members; ++member) {
      Window window;
      window.kernel = pick({1, 3, 3, 5});
      window.pad = window.kernel / 2 * pick({0, 1, 1});
      window.stride = member > 0 ? 1 : pick({1, 1, 2});
      window.dilation = x.shape[1] > 16 ? pick({1, 1, 2}) : 1;
      if ((std::min(x.shape[1], x.shape[2]) + 2 * window.pad) < window.dilation * (window.kernel - 1) + 3)
        window = {1, 0, 1, 1};
      const Tensor filter = text.argument({window.kernel, window.kernel, x.shape[3], pick({1, 4, 11, 16, 19})});
      x = convolution(text, x, filter, window.pad, window.stride, window.dilation);
      if (random() % 2 == 0) x = relu(text, x);
    }
    if (random() % 2 == 0 && std::min(x.shape[1], x.shape[2]) > 4) x = pool(text, x, pick({2, 3}), pick({1, 2}));
    const int64_t rows = x.shape[1], slice = pick({1, 2, 3}), part = slice * pick({2, 3, 100});
    if (2 * slice > rows) continue;
    Tiling tiling;
    if (x.shape[0] > 1) tiling.emplace_back("d0", 1);
    if (random() % 3 == 0 && x.shape[2] > 5) tiling.emplace_back("d2", 5);
    tiling.emplace_back("d1", part);
    tiling.emplace_back("d1", slice);
    const std::string ir = text.finish({x});
    // Windows of one row, or with a stride of at least their height, share no rows.
    const auto built = buildByDefault(unitOf({"chain", ir}), slicesOf(tiling));
    if (!built.ok() && built.status().message().find("share no rows to keep") != std::string::npos) continue;
    ++kept;
    const auto info = checkWorkload(ir, chained(tiling, seed));
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << ir;
    EXPECT_NE(info.phases(info.phases_size() - 1).strategy().find("halos kept"), std::string::npos) << seed;
  }
  EXPECT_GE(kept, 8);
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing
