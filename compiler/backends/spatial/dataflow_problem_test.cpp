#include "compiler/backends/spatial/dataflow_problem.h"

#include <gmock/gmock.h>

#include "compiler/backends/spatial/dataflow_groups.h"
#include "compiler/backends/spatial/mapping_search.h"
#include "compiler/backends/spatial/searched_tiling.h"
#include "compiler/backends/spatial/testing/kernels.h"
#include "compiler/dataflow_search/search.h"
#include "compiler/schedule/text.h"

namespace tessera::compiler::simulator {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// out = left * right.
int addProduct(v1::SpatialKernel& kernel, int left, int right, v1::DataType type) {
  const int64_t rows = kernel.buffers(left).shape(0), sums = kernel.buffers(left).shape(1),
                columns = kernel.buffers(right).shape(1);
  const int out = addBuffer(kernel, type, {rows, columns});
  addFill(kernel, out);
  NestMaker product(kernel, "matmul", {{"i0", rows}, {"i1", columns}, {"r0", sums}});
  const int old = product.access(out, {"i0", "i1"}), a = product.access(left, {"i0", "r0"}),
            b = product.access(right, {"r0", "i1"});
  const int wide = product.operation("extf", kF32, {a}), other = product.operation("extf", kF32, {b});
  product.yield({product.operation("addf", kF32, {old, product.operation("mulf", kF32, {wide, other})})});
  return out;
}

int addRounding(v1::SpatialKernel& kernel, int from) {
  const int64_t rows = kernel.buffers(from).shape(0), columns = kernel.buffers(from).shape(1);
  const int to = addBuffer(kernel, kF16, {rows, columns});
  NestMaker each(kernel, "round", {{"i0", rows}, {"i1", columns}});
  each.access(to, {"i0", "i1"});
  each.yield({each.operation("truncf", kF16, {each.access(from, {"i0", "i1"})})});
  return to;
}

struct Scheduled {
  explicit Scheduled(v1::SpatialKernel given) : kernel(std::move(given)) {
    kernel.set_operands(kernel.buffers_size());
    kernel.set_results(1);
    EXPECT_EQ(scheduleKernel(kernel, chip()), absl::OkStatus());
    checked = checkKernel(kernel).value();
  }
  KernelRun run(std::vector<int64_t> operands) const { return {&checked, &kernel.schedule(), std::move(operands)}; }
  v1::SpatialKernel kernel;
  CheckedKernel checked;
};

std::vector<std::string> loopsOf(const loopnest::Nest& nest, size_t statement) {
  std::vector<std::string> names;
  for (const int loop : nest.statements[statement].loops) names.push_back(nest.loops[static_cast<size_t>(loop)].name);
  return names;
}

v1::SpatialKernel productAndRounding() {
  v1::SpatialKernel kernel;
  const int left = addBuffer(kernel, kF16, {12, 16}), right = addBuffer(kernel, kF16, {16, 8});
  addRounding(kernel, addProduct(kernel, left, right, kF32));
  return kernel;
}

TEST(DataflowProblem, NestsShareLoopsOverTheDimensionsOfTheirTensor) {
  const Scheduled kernel(productAndRounding());
  const auto problem = dataflowProblemOf({kernel.run({0, 1, 2, 3})}, nestedMachineOf(chip()), chip());
  ASSERT_TRUE(problem.ok()) << problem.status();
  ASSERT_THAT(problem->nest.statements, SizeIs(2));  // the fill computes nothing
  EXPECT_THAT(problem->on_instruction, ElementsAre(true, false));
  EXPECT_THAT(loopsOf(problem->nest, 0), ElementsAre("i0", "i1", "r0"));
  EXPECT_THAT(loopsOf(problem->nest, 1), ElementsAre("i0", "i1"));
  EXPECT_THAT(problem->unlinked, SizeIs(0));
  EXPECT_EQ(loopnest::validate(problem->nest), absl::OkStatus());
  // An element on the two vector units of 8 lanes takes the engines 1/16 of a cycle.
  EXPECT_DOUBLE_EQ(problem->nest.statements[0].body.flops, 2);
  double rate = 0;
  for (const auto& unit : nestedMachineOf(chip()).units)
    rate = std::max(rate, static_cast<double>(unit.count) * unit.operations_per_cycle);
  EXPECT_DOUBLE_EQ(problem->nest.statements[1].body.flops, rate / 16);
}

TEST(DataflowProblem, KernelsOfAChainAreOneProblem) {
  v1::SpatialKernel second;
  const int left = addBuffer(second, kF16, {12, 8}), right = addBuffer(second, kF16, {8, 20});
  addProduct(second, left, right, kF32);
  const Scheduled one(productAndRounding()), other(second);
  const auto problem =
      dataflowProblemOf({one.run({0, 1, 2, 3}), other.run({3, 4, 5})}, nestedMachineOf(chip()), chip());
  ASSERT_TRUE(problem.ok()) << problem.status();
  ASSERT_THAT(problem->nest.statements, SizeIs(3));
  // The second product sums over the columns of the first one.
  const std::vector<std::string> first = loopsOf(problem->nest, 0), last = loopsOf(problem->nest, 2);
  EXPECT_EQ(last[0], first[0]);
  EXPECT_EQ(last[2], first[1]);
  EXPECT_NE(last[1], first[2]);
  // Two products in one phase are no program.
  const auto obstacle = [&](const std::string& tree) { return obstacleOf(parseSchedule(tree).value(), *problem); };
  EXPECT_THAT(
      obstacle("DRAM [i0:Tp/4] Shar\n  far [] compute nest 0\n  far [] compute nest 1\n  far [] compute nest 2\n"),
      HasSubstr("2 products"));
  EXPECT_EQ(obstacle("DRAM [i0:Tp/4] Shar\n  far [] compute nest 0\n  far [] compute nest 1\nDRAM [] compute nest 2\n"),
            "");
  // The search accepts the problem, and its tree is priced.
  dataflow_search::Options options;
  int polls = 0;
  options.stopped = [&] { return ++polls > 200; };
  const auto answer = searchExact(problem->nest, nestedMachineOf(chip()), options);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_TRUE(answer->best.has_value());
  EXPECT_GE(answer->best->cost.cycles, answer->bound.least.cycles);
}

TEST(DataflowProblem, ReadingInAnotherLayoutIsReported) {
  v1::SpatialKernel kernel;
  const int left = addBuffer(kernel, kF16, {12, 16}), right = addBuffer(kernel, kF16, {16, 8});
  const int out = addProduct(kernel, left, right, kF32);
  const int flat = addBuffer(kernel, kF16, {96});
  NestMaker each(kernel, "round", {{"i0", 96}});
  each.access(flat, {"i0"});
  each.yield({each.operation("truncf", kF16, {each.access(out, {"i0"}, {1})})});
  const Scheduled made(kernel);
  const auto problem = dataflowProblemOf({made.run({0, 1, 2, 3})}, nestedMachineOf(chip()), chip());
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_THAT(problem->unlinked, SizeIs(1));
}

TEST(DataflowProblem, GathersAreRefused) {
  v1::SpatialKernel kernel;
  const int table = addBuffer(kernel, kF32, {9}), indices = addBuffer(kernel, kI64, {5}),
            out = addBuffer(kernel, kF32, {5});
  NestMaker gather(kernel, "gather", {{"i0", 5}});
  gather.access(out, {"i0"});
  const int index = gather.access(indices, {"i0"});
  gather.yield({gather.load(table, {index}, {1})});
  const Scheduled made(kernel);
  const auto problem = dataflowProblemOf({made.run({0, 1, 2})}, nestedMachineOf(chip()), chip());
  EXPECT_THAT(std::string(problem.status().message()), HasSubstr("gather: it reads at computed positions"));
}

TEST(DataflowProblem, MemoriesOfOneLevelAreMerged) {
  const cost::Machine machine = nestedMachineOf(chip());
  ASSERT_THAT(machine.memories, SizeIs(3));
  EXPECT_EQ(machine.memories[0].name, "near+sums+way-out");
  EXPECT_EQ(machine.memories[0].capacity_bytes, 512 + 768 + 160);
  EXPECT_DOUBLE_EQ(machine.memories[0].read_bytes_per_cycle, 16 + 16 + 8);
  EXPECT_EQ(machine.memories[1].name, "far");
}

TEST(SearchedTiling, TilesFitAndDoNotDependOnTheRun) {
  v1::SpatialKernel kernel;
  const int left = addBuffer(kernel, kF16, {48, 64}), right = addBuffer(kernel, kF16, {64, 40});
  addProduct(kernel, left, right, kF32);
  const CheckedKernel checked = checkKernel(kernel).value();
  const ProductNest product = productOf(checked.nests[1], checked).value();
  const auto best = bestProgram(product, chip());
  ASSERT_TRUE(best.ok()) << best.status();
  const auto tilings = searchedTilings(best->first.choice, chip(), 3);
  ASSERT_FALSE(tilings.empty());
  const auto again = searchedTilings(best->first.choice, chip(), 3);
  ASSERT_EQ(again.size(), tilings.size());
  for (size_t i = 0; i < tilings.size(); ++i) {
    EXPECT_EQ(again[i].tiling, tilings[i].tiling);
    EXPECT_EQ(tilings[i].tiling.back(), best->first.choice.tiling.back());
    for (size_t level = 0; level + 1 < tilings[i].tiling.size(); ++level) {
      for (size_t d = 0; d < tilings[i].tiling[level].size(); ++d) {
        EXPECT_GE(tilings[i].tiling[level][d], 1);
        EXPECT_LE(tilings[i].tiling[level][d], tilings[i].tiling[level + 1][d]);
      }
    }
  }
}

}  // namespace
}  // namespace tessera::compiler::simulator
