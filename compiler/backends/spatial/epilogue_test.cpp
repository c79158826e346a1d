#include "compiler/backends/spatial/epilogue.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "compiler/backends/spatial/testing/kernels.h"
#include "compiler/schedule/text.h"
#include "proto/messages/failure.h"

namespace tessera::compiler::simulator {
namespace {

using namespace testing;
using ::testing::HasSubstr;

v1::Target builtin(const std::string& name) {
  const auto found = std::ranges::find(builtinTargets(), name, &v1::Target::name);
  EXPECT_NE(found, builtinTargets().end()) << name;
  return *found;
}

/// Buffers and nests of padded().
enum PaddedBuffer { kLeft, kRight, kBias, kResidual, kOut, kSums };
enum PaddedNest { kFillSums, kFillOut, kProductNest, kFollowerNest };

/// out[1 + i, 1 + j] = max(sum of a[i, k] * b[k, j] + bias[j] + residual[i, j], 0), with 0 around it: a product with a
/// bias, a residual, ReLU and the next operator's padding.
v1::SpatialKernel padded(int64_t i, int64_t j, int64_t k, v1::DataType type = kF16) {
  v1::SpatialKernel kernel;
  addBuffer(kernel, type, {i, k});
  addBuffer(kernel, type, {k, j});
  addBuffer(kernel, kF32, {j});
  addBuffer(kernel, kF16, {i, j});
  addBuffer(kernel, kF16, {i + 2, j + 2});
  addBuffer(kernel, kF32, {i, j});
  kernel.set_operands(kSums);
  kernel.set_results(1);
  addFill(kernel, kSums);
  addFill(kernel, kOut);
  NestMaker product(kernel, "matmul", {{"i0", i}, {"i1", j}, {"r0", k}});
  const int old = product.access(kSums, {"i0", "i1"}), a = product.access(kLeft, {"i0", "r0"}),
            b = product.access(kRight, {"r0", "i1"});
  const int wide = product.operation("extf", kF32, {a}), other = product.operation("extf", kF32, {b});
  product.yield({product.operation("addf", kF32, {old, product.operation("mulf", kF32, {wide, other})})});
  NestMaker each(kernel, "add + relu", {{"i0", i}, {"i1", j}});
  each.access(kOut, {"i0", "i1"}, {j + 2, 1}, j + 3);
  const int sum = each.access(kSums, {"i0", "i1"}), bias = each.access(kBias, {"i1"}),
            residual = each.access(kResidual, {"i0", "i1"});
  int value = each.operation("addf", kF32, {sum, bias});
  value = each.operation("addf", kF32, {value, each.operation("extf", kF32, {residual})});
  value = each.operation("maximumf", kF32, {value, each.constant(kF32, 0)});
  each.yield({each.operation("truncf", kF16, {value})});
  return kernel;
}

/// The leaf of the follower; null if the schedule has none.
v1::Tile* followerIn(v1::SpatialKernel& kernel) {
  for (v1::Tile& phase : *kernel.mutable_schedule()->mutable_phases())
    for (v1::Tile* tile = &phase; tile->children_size() > 0; tile = tile->mutable_children(0))
      if (tile->children_size() == 2) return tile->mutable_children(1);
  return nullptr;
}

/// The output of a kernel on integers, whose sums are exact in any order.
std::vector<uint8_t> outputOf(const v1::SpatialKernel& kernel, const v1::Target& target, KernelCost* cost = nullptr) {
  auto loaded = LoadedKernel::load(kernel, target);
  EXPECT_TRUE(loaded.ok()) << loaded.status() << printSchedule(kernel.schedule());
  if (!loaded.ok()) return {};
  std::mt19937 random(11);
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<uint8_t*> pointers;
  for (int b = 0; b < kernel.operands(); ++b) {
    size_t count = 1;
    for (const int64_t extent : kernel.buffers(b).shape()) count *= static_cast<size_t>(extent);
    Numbers numbers(count);
    for (double& number : numbers) number = static_cast<double>(random() % 7) - 3;
    bytes.push_back(bytesOf(kernel.buffers(b).dtype(), numbers));
  }
  for (std::vector<uint8_t>& each : bytes) pointers.push_back(each.data());
  const absl::Status done = (*loaded)->run(pointers);
  EXPECT_TRUE(done.ok()) << done;
  if (cost) *cost = (*loaded)->cost().value();
  return bytes[static_cast<size_t>(kernel.operands()) - 1];
}

v1::SpatialKernel scheduledFor(v1::SpatialKernel kernel, const v1::Target& target, bool scalar = false) {
  const absl::Status status = scheduleKernel(kernel, target, {.scalar = scalar});
  EXPECT_TRUE(status.ok()) << status;
  return kernel;
}

/// The follower's results are those of the nests one after another, on odd sizes too, and the sums never reach the
/// outermost memory.
TEST(Epilogue, RunsOnTheTilesOfAProduct) {
  int fused = 0;
  for (const char* name : {"ascend-910-like", "tpu-like", "edge", "cloud", "systolic-128"}) {
    const v1::Target target = builtin(name);
    const v1::DataType type = std::string(name) == "systolic-128" ? kBF16 : kF16;
    for (const auto& [i, j, k] : {std::tuple(64, 96, 48), std::tuple(131, 37, 65), std::tuple(1, 19, 33)}) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(i));
      v1::SpatialKernel kernel = scheduledFor(padded(i, j, k, type), target);
      KernelCost cost;
      const std::vector<uint8_t> output = outputOf(kernel, target, &cost);
      EXPECT_EQ(output, outputOf(scheduledFor(padded(i, j, k, type), target, /*scalar=*/true), target));
      const v1::Tile* follower = followerIn(kernel);
      if (follower == nullptr) continue;  // it is not faster
      ++fused;
      EXPECT_EQ(kernel.schedule().phases_size(), 3);
      const auto& outermost = *cost.levels().rbegin();
      EXPECT_EQ(outermost.written_bytes(), 2 * ((i + 2) * (j + 2) + i * j)) << "zeros, then the follower's output";
      EXPECT_GE(outermost.read_bytes(), 2 * (i * k + k * j + i * j) + 4 * j);
      EXPECT_EQ(cost.steps_size(), 4);
      const auto& vector = *std::ranges::find_if(
          cost.units(), [&](const auto& unit) { return unit.name() == follower->kernel().instruction(); });
      EXPECT_GE(vector.operations(), 3.0 * i * j);
    }
  }
  EXPECT_GE(fused, 8) << "of 15";
}

TEST(Epilogue, RunsInPlaceOnTheOperandThatItOverwrites) {
  const v1::Target target = builtin("ascend-910-like");
  v1::SpatialKernel kernel = padded(64, 96, 48);
  // The sums are the result, and the follower replaces them.
  kernel.mutable_buffers(kOut)->clear_shape();
  kernel.mutable_buffers(kOut)->set_dtype(kF32);
  for (const int64_t extent : {64, 96}) kernel.mutable_buffers(kOut)->add_shape(extent);
  kernel.mutable_nests()->DeleteSubrange(kFillOut, 1);
  kernel.mutable_nests(0)->mutable_accesses(0)->set_buffer(kOut);
  kernel.mutable_nests(1)->mutable_accesses(0)->set_buffer(kOut);
  v1::SpatialKernel::Nest& follower = *kernel.mutable_nests(2);
  *follower.mutable_accesses(1) = kernel.nests(1).accesses(0);
  *follower.mutable_accesses(0) = kernel.nests(1).accesses(0);
  follower.set_yields(0, follower.yields(0) - 1);
  follower.mutable_body()->RemoveLast();
  v1::SpatialKernel fused = scheduledFor(kernel, target);
  ASSERT_NE(followerIn(fused), nullptr) << printSchedule(fused.schedule());
  EXPECT_EQ(outputOf(fused, target), outputOf(scheduledFor(kernel, target, true), target));
}

/// max(a * b + c * d, 0): the first product is followed, the second one is stored and loaded.
TEST(Epilogue, FollowsOneOfTwoProducts) {
  const v1::Target target = builtin("ascend-910-like");
  v1::SpatialKernel kernel;
  for (int factor = 0; factor < 2; ++factor) {
    addBuffer(kernel, kF16, {64, 80});
    addBuffer(kernel, kF16, {80, 96});
  }
  const int out = addBuffer(kernel, kF32, {64, 96});
  kernel.set_operands(out + 1);
  kernel.set_results(1);
  std::vector<int> sums;
  for (int product = 0; product < 2; ++product) {
    sums.push_back(addBuffer(kernel, kF32, {64, 96}));
    addFill(kernel, sums.back());
    NestMaker nest(kernel, "matmul", {{"i0", 64}, {"i1", 96}, {"r0", 80}});
    const int old = nest.access(sums.back(), {"i0", "i1"}), a = nest.access(2 * product, {"i0", "r0"}),
              b = nest.access(2 * product + 1, {"r0", "i1"});
    const int wide = nest.operation("extf", kF32, {a}), other = nest.operation("extf", kF32, {b});
    nest.yield({nest.operation("addf", kF32, {old, nest.operation("mulf", kF32, {wide, other})})});
  }
  NestMaker each(kernel, "add + relu", {{"i0", 64}, {"i1", 96}});
  each.access(out, {"i0", "i1"});
  const int left = each.access(sums[0], {"i0", "i1"}), right = each.access(sums[1], {"i0", "i1"});
  const int sum = each.operation("addf", kF32, {left, right});
  each.yield({each.operation("maximumf", kF32, {sum, each.constant(kF32, 0)})});
  v1::SpatialKernel fused = scheduledFor(kernel, target);
  ASSERT_NE(followerIn(fused), nullptr) << printSchedule(fused.schedule());
  EXPECT_EQ(outputOf(fused, target), outputOf(scheduledFor(kernel, target, /*scalar=*/true), target));
}

/// Each reason why a nest cannot run on parts of the results.
TEST(Epilogue, OtherNestsKeepAPhaseOfTheirOwn) {
  using Kernel = v1::SpatialKernel;
  struct Case {
    std::function<void(Kernel&)> change;
    const char* reason;
  };
  const auto follower = [](Kernel& kernel) -> Kernel::Nest& { return *kernel.mutable_nests(kFollowerNest); };
  for (const Case& each : std::vector<Case>{
           {[](Kernel& k) { k.set_operands(kSums + 1); }, "are an operand"},
           {[&](Kernel& k) { follower(k).mutable_loops(0)->set_extent(30); }, "exactly the results"},
           {[&](Kernel& k) { follower(k).mutable_accesses(1)->set_subscripts(0, "31 - i0"); }, "exactly the results"},
           {[&](Kernel& k) { follower(k).mutable_accesses(3)->set_buffer(kSums); }, "several results"},
           {[&](Kernel& k) {
              follower(k).mutable_accesses(1)->set_buffer(kBias);
              follower(k).mutable_accesses(1)->set_strides(0, 0);
            },
            "does not read the results"},
           {[&](Kernel& k) { follower(k).mutable_accesses(0)->set_strides(1, 0); }, "depend on each other"},
           {[&](Kernel& k) { follower(k).mutable_body(1)->set_operands(0, 0); }, "reads its own output"},
           {[](Kernel& k) { *k.add_nests() = k.nests(kFollowerNest); }, "nest 4 needs the results too"},
           {[&](Kernel& k) {
              *k.add_nests() = k.nests(kFillOut);
              k.mutable_nests(4)->mutable_accesses(0)->set_buffer(kLeft);
              k.mutable_buffers(kLeft)->set_dtype(kF16);
              k.mutable_buffers(kLeft)->set_shape(0, 64);
              k.mutable_nests()->SwapElements(4, kFollowerNest);
            },
            "overwrites a factor"}}) {
    SCOPED_TRACE(each.reason);
    Kernel kernel = padded(32, 24, 40);
    each.change(kernel);
    const absl::StatusOr<CheckedKernel> checked = checkKernel(kernel);
    if (!checked.ok()) {
      ADD_FAILURE() << checked.status();
      continue;
    }
    const int last = std::string(each.reason) == "overwrites a factor" ? kFollowerNest + 1 : kFollowerNest;
    EXPECT_THAT(std::string(carriedAccess(*checked, kProductNest, last).status().message()), HasSubstr(each.reason));
  }
}

/// Trees are followed as they are, or refused with the path of the tile.
TEST(Epilogue, ChangedTreesAreRefusedWithTheirPath) {
  const v1::Target target = builtin("ascend-910-like");
  const v1::SpatialKernel kernel = scheduledFor(padded(64, 96, 48), target);
  const auto refusal = [&](const std::function<void(v1::Tile & leaf)>& change) {
    v1::SpatialKernel other = kernel;
    change(*followerIn(other));
    return std::string(LoadedKernel::load(other, target).status().message());
  };
  EXPECT_THAT(refusal([](v1::Tile& leaf) { leaf.mutable_kernel()->set_instruction("cube"); }),
              HasSubstr("nest 3 cannot follow nest 2"));
  EXPECT_THAT(refusal([](v1::Tile& leaf) { leaf.mutable_kernel()->set_nest(kFillOut); }), HasSubstr("nest"));
  EXPECT_THAT(refusal([](v1::Tile& leaf) { leaf.mutable_kernel()->set_lanes(7); }), HasSubstr("does not fit the nest"));
  EXPECT_THAT(refusal([](v1::Tile& leaf) { leaf.set_level("L1"); }), HasSubstr("does not fit the nest"));
  EXPECT_THAT(refusal([](v1::Tile& leaf) { leaf.add_loops()->set_dimension("i0"); }), HasSubstr("does not fit"));
  // The other scalar unit is a valid choice.
  v1::SpatialKernel slow = kernel;
  followerIn(slow)->mutable_kernel()->set_instruction("scalar");
  followerIn(slow)->mutable_kernel()->set_lanes(1);
  EXPECT_EQ(outputOf(slow, target), outputOf(kernel, target));
  EXPECT_GT(LoadedKernel::load(slow, target).value()->cost()->cycles(),
            LoadedKernel::load(kernel, target).value()->cost()->cycles());
}

/// A memory that cannot hold a block of each operand beside the results refuses the follower.
TEST(Epilogue, ItsBlocksNeedRoom) {
  v1::Target target = builtin("ascend-910-like");
  const v1::SpatialKernel kernel = scheduledFor(padded(64, 96, 48), target);
  const auto level = std::ranges::find(*target.mutable_memory(), "UB", &v1::MemoryLevel::name);
  ASSERT_NE(level, target.mutable_memory()->end());
  level->set_capacity_bytes(2048);
  const absl::Status status = LoadedKernel::load(kernel, target).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("UB of ascend-910-like has"));
  v1::SpatialKernel apart = scheduledFor(padded(64, 96, 48), target);
  EXPECT_EQ(followerIn(apart), nullptr);
}

}  // namespace
}  // namespace tessera::compiler::simulator
