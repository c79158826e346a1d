#include "compiler/backends/spatial/shared_cache.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "compiler/backends/spatial/testing/kernels.h"

namespace tessera::compiler::simulator {
namespace {

using namespace testing;
using ::testing::ElementsAre;

const v1::Target& builtinChip(const std::string& name) {
  return *std::ranges::find(builtinTargets(), name, &v1::Target::name);
}

TEST(SharedCache, KeepsTheTensorsOfRecentNests) {
  SharedCache cache(builtinChip("ascend-910-like"));
  EXPECT_EQ(cache.level(), "L2");
  const auto find = [&](const std::vector<SharedCache::Use>& uses) { return cache.use(uses).tensors; };
  constexpr int64_t kPart = 10 << 20;  // a third of L2
  EXPECT_THAT(find({{1, kPart}, {2, kPart}}), ElementsAre(false, false));
  EXPECT_THAT(find({{2, kPart}, {3, kPart}}), ElementsAre(true, false));
  EXPECT_EQ(cache.usedBytes(), 3 * kPart);
  // The least recently used one leaves.
  EXPECT_THAT(find({{4, kPart}}), ElementsAre(false));
  EXPECT_THAT(find({{2, kPart}, {3, kPart}, {4, kPart}}), ElementsAre(true, true, true));
  EXPECT_THAT(find({{1, kPart}}), ElementsAre(false));
  // A nest that takes more than the capacity leaves nothing.
  EXPECT_THAT(find({{1, kPart}, {2, 3 * kPart}}), ElementsAre(false, false));
  EXPECT_EQ(cache.usedBytes(), 0);
  EXPECT_THAT(find({{1, INT64_MAX}, {2, INT64_MAX}}), ElementsAre(false, false));
  EXPECT_THAT(find({{1, 0}, {1, 0}}), ElementsAre(false, false));
}

TEST(SharedCache, IsOneInstanceForTheWholeChip) {
  for (const auto& [name, level] : std::vector<std::pair<std::string, std::string>>{
           {"mali-g76", "L2"}, {"cloud", ""}, {"tpu-like", ""}, {"systolic-128", ""}})
    EXPECT_EQ(SharedCache(builtinChip(name)).level(), level) << name;
}

/// y = exp(x), then z = exp(y) as another kernel: y is read from L2.
TEST(SharedCache, ServesWhatAnEarlierKernelStored) {
  const v1::Target& target = builtinChip("ascend-910-like");
  v1::SpatialKernel kernel;
  for (int buffer = 0; buffer < 2; ++buffer) addBuffer(kernel, kF32, {512, 300});
  kernel.set_operands(2);
  kernel.set_results(1);
  NestMaker each(kernel, "exp", {{"i0", 512}, {"i1", 300}});
  each.access(1, {"i0", "i1"});
  each.yield({each.operation("exp", kF32, {each.access(0, {"i0", "i1"})})});
  ASSERT_TRUE(scheduleKernel(kernel, target).ok());
  auto loaded = LoadedKernel::load(kernel, target);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  SharedCache cache(target);
  const auto first = (*loaded)->cost(cache, std::vector<int64_t>{0, 1}),
             second = (*loaded)->cost(cache, std::vector<int64_t>{1, 2});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->SerializeAsString(), (*loaded)->cost()->SerializeAsString()) << "nothing was left before";
  const auto level = [](const KernelCost& cost, const std::string& name) {
    return *std::ranges::find(cost.levels(), name, &v1::SimulatedRun::Level::name);
  };
  constexpr int64_t kBytes = int64_t{4} * 512 * 300;
  EXPECT_EQ(level(*first, "HBM").read_bytes(), kBytes);
  EXPECT_EQ(level(*second, "HBM").read_bytes(), 0);
  EXPECT_EQ(level(*second, "L2").read_bytes() - level(*first, "L2").read_bytes(), kBytes);
  EXPECT_EQ(level(*second, "HBM").written_bytes(), kBytes);
  EXPECT_EQ(level(*second, "L2").written_bytes(), kBytes);
  EXPECT_EQ(level(*second, "L2").peak_bytes(), 3 * kBytes);
  EXPECT_LT(second->cycles(), first->cycles());
  EXPECT_LT(second->energy_pj(), first->energy_pj());
}

}  // namespace
}  // namespace tessera::compiler::simulator
