// The search against an enumeration of its space, priced by compiler/cost alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "compiler/dataflow_search/search.h"
#include "compiler/dataflow_search/testing/tree_enumerator.h"
#include "compiler/schedule/text.h"

namespace tessera::compiler::dataflow_search {
namespace {

constexpr size_t kMaxTrees = 30'000;  ///< of one problem

struct Family {
  const char* name;
  const char* text;
  std::vector<std::vector<int64_t>> extents;  ///< to choose from, for each loop in the order of first occurrence
  int problems = 0;
};

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {"product", "C[m, n] += A[m, k] * B[k, n]", {{1, 2, 4, 6}, {1, 2, 3, 4}, {1, 2, 4}}, 24},
      {"batched product", "C[h, m, n] += A[h, m, k] * B[h, k, n]", {{1, 2}, {2, 3}, {1, 2, 4}, {2}}, 12},
      {"strided convolution", "O[k, p] += I[c, 2 * p + r] * W[k, c, r]", {{1, 2}, {2, 4}, {1, 2}, {1, 3}}, 12},
      {"elementwise", "G[m, n] = tanh(X[m, n]); H[m, n] = G[m, n] + Y[m, n]", {{1, 2, 4}, {1, 2, 3}}, 10},
      {"chain of products",
       "C[m, l] += A[m, k] * B[k, l]; E[m, n] += C[m, l] * D[l, n]",
       {{1, 2}, {1, 2}, {1, 2}, {1, 2}},
       24},
      {"chain of convolutions",
       "M[k, p] += I[c, p + r] * W[k, c, r]; O[j, x] += M[k, x + u] * V[j, k, u]",
       {{1, 2}, {6}, {1}, {2}, {1}, {4}, {3}},
       6},
      {"softmax", "M[m] = max(S[m, l]); P[m, l] = S[m, l] - M[m]; D[m] = P[m, l]", {{1, 2}, {1, 2, 3}}, 10},
      {"residual", "G[m] = tanh(X[m]); C[j] += G[m] * B[m, j]; H[m] = G[m] + X[m]", {{1, 2}, {1, 2}}, 10},
  };
  return all;
}

template <typename T>
T oneOf(std::mt19937_64& random, const std::vector<T>& values) {
  return values[random() % values.size()];
}

cost::Machine randomMachine(std::mt19937_64& random, int levels) {
  cost::Machine machine;
  int64_t instances = oneOf<int64_t>(random, {1, 2, 4});
  const int64_t units = instances * oneOf<int64_t>(random, {1, 1, 2});
  for (int level = 0; level < levels; ++level) {
    const bool outermost = level == levels - 1;
    if (outermost) instances = 1;
    machine.memories.push_back({.name = "L" + std::to_string(level),
                                .instances = instances,
                                .capacity_bytes = outermost ? 0 : oneOf<int64_t>(random, {24, 48, 96, 0}),
                                .read_bytes_per_cycle = oneOf<double>(random, {0.5, 2, 8, 1e12}),
                                .write_bytes_per_cycle = oneOf<double>(random, {0.5, 2, 8, 1e12}),
                                .energy_pj_per_byte = oneOf<double>(random, {0.25, 1, 16}),
                                .write_energy_pj_per_byte = oneOf<double>(random, {0.25, 1, 16})});
    instances = std::max<int64_t>(1, instances / 2);
  }
  machine.units = {{.name = "core", .count = units, .operations_per_cycle = oneOf<double>(random, {2, 4, 16})}};
  if (random() % 4 == 0)
    machine.units.push_back({.name = "vector", .count = units, .operations_per_cycle = oneOf<double>(random, {1, 8})});
  machine.energy_pj_per_operation = oneOf<double>(random, {0, 2});
  return machine;
}

std::string describe(const loopnest::Nest& nest, const cost::Machine& machine) {
  std::string text = print(nest);
  for (const auto& loop : nest.loops) text += " " + loop.name + "=" + std::to_string(loop.extent);
  for (const auto& memory : machine.memories)
    text += "\n" + memory.name + " x" + std::to_string(memory.instances) + ", " +
            std::to_string(memory.capacity_bytes) + " bytes, " + std::to_string(memory.read_bytes_per_cycle) + " / " +
            std::to_string(memory.write_bytes_per_cycle);
  for (const auto& unit : machine.units)
    text += "\n" + unit.name + " x" + std::to_string(unit.count) + ", " + std::to_string(unit.operations_per_cycle);
  return text;
}

class AgainstEnumeration : public ::testing::TestWithParam<size_t> {};

TEST_P(AgainstEnumeration, TheOptimumIsEqual) {
  const Family& family = families()[GetParam()];
  std::mt19937_64 random(11 + GetParam());
  int compared = 0, solved = 0;
  size_t trees_seen = 0, answers = 0;
  double gaps = 0;
  for (int tries = 0; tries < 40 * family.problems && compared < family.problems; ++tries) {
    std::vector<int64_t> extents;
    for (const std::vector<int64_t>& choices : family.extents) extents.push_back(oneOf(random, choices));
    const loopnest::Nest nest = loopnest::parse(family.name, family.text, extents).value();
    const cost::Machine machine = randomMachine(random, random() % 3 == 0 ? 3 : 2);
    const auto trees = enumerateTrees(nest, machine, kMaxTrees);
    if (!trees) continue;
    ++compared;
    trees_seen += trees->size();
    std::vector<double> least(4, std::numeric_limits<double>::infinity());
    std::vector<const v1::Schedule*> best(4, nullptr);
    const LowerBound bound = lowerBound(nest, machine, Objective::kCycles).value();
    for (const v1::Schedule& tree : *trees) {
      const auto cost = analyzeDataflow(nest, tree, machine);
      if (!cost.ok() || !cost->violations.empty()) continue;
      const Value value = valueOf(*cost);
      ASSERT_LE(bound.least.cycles, value.cycles * (1 + 1e-12)) << describe(nest, machine) << printSchedule(tree);
      ASSERT_LE(bound.least.energy_pj, value.energy_pj * (1 + 1e-12)) << describe(nest, machine) << printSchedule(tree);
      ASSERT_LE(bound.least.bytes, value.bytes) << describe(nest, machine) << printSchedule(tree);
      for (size_t objective = 0; objective < 4; ++objective) {
        const double score = scoreOf(value, static_cast<Objective>(objective));
        if (score >= least[objective]) continue;
        least[objective] = score;
        best[objective] = &tree;
      }
    }
    solved += best[0] != nullptr;
    for (size_t objective = 0; objective < 4; ++objective) {
      Options options;
      options.objective = static_cast<Objective>(objective);
      const auto answer = searchExact(nest, machine, options);
      ASSERT_TRUE(answer.ok()) << answer.status() << "\n" << describe(nest, machine);
      ASSERT_TRUE(answer->complete);
      ASSERT_EQ(answer->best.has_value(), best[objective] != nullptr) << describe(nest, machine);
      if (!best[objective]) continue;
      const std::string where = "objective " + std::to_string(objective) + " of " + describe(nest, machine) +
                                "\nfound:\n" + printSchedule(answer->best->tree) + "enumerated:\n" +
                                printSchedule(*best[objective]);
      // The bound holds for every tree, and the answer is a tree of the space.
      ASSERT_LE(answer->space_bound, least[objective] * (1 + 1e-9)) << where;
      ASSERT_GE(answer->best->score, least[objective] * (1 - 1e-9)) << where;
      gaps += answer->gapInSpace();
      ++answers;
      if (options.objective == Objective::kEnergy || options.objective == Objective::kBytes) {
        ASSERT_EQ(answer->gapInSpace(), 0) << where;
        ASSERT_NEAR(answer->best->score, least[objective], 1e-9 * least[objective]) << where;
      }
    }
  }
  EXPECT_EQ(compared, family.problems);
  EXPECT_GT(solved, family.problems / 2);
  // Only what the model of cycles leaves out may remain.
  EXPECT_LT(gaps / static_cast<double>(answers), 0.25);
  RecordProperty("trees", static_cast<int>(trees_seen));
  RecordProperty("mean_gap_ppm", static_cast<int>(1e6 * gaps / static_cast<double>(answers)));
}

INSTANTIATE_TEST_SUITE_P(Families, AgainstEnumeration, ::testing::Range(size_t{0}, size_t{8}));

TEST(ExactSearch, ThreadsDoNotChangeTheAnswer) {
  std::mt19937_64 random(5);
  int found = 0;
  for (int problem = 0; problem < 6; ++problem) {
    const loopnest::Nest nest = loopnest::parse("chain", "C[m, l] += A[m, k] * B[k, l]; E[m, n] += C[m, l] * D[l, n]",
                                                {oneOf<int64_t>(random, {2, 4}), 2, oneOf<int64_t>(random, {2, 3}), 2})
                                    .value();
    const cost::Machine machine = randomMachine(random, 3);
    Options options;
    options.objective = static_cast<Objective>(problem % 4);
    std::optional<Answer> one;
    for (const int threads : {1, 2, 5}) {
      options.threads = threads;
      const auto answer = searchExact(nest, machine, options);
      ASSERT_TRUE(answer.ok()) << answer.status();
      EXPECT_TRUE(answer->complete);
      if (!one) one = *answer;
      ASSERT_EQ(answer->best.has_value(), one->best.has_value());
      EXPECT_EQ(answer->phases, one->phases);
      EXPECT_EQ(answer->expanded, one->expanded);
      EXPECT_EQ(answer->space_bound, one->space_bound);
      if (!answer->best) continue;
      ++found;
      EXPECT_EQ(answer->best->score, one->best->score);
      EXPECT_EQ(printSchedule(answer->best->tree), printSchedule(one->best->tree)) << describe(nest, machine);
    }
  }
  EXPECT_GT(found, 3);
}

TEST(ExactSearch, AChipThatNothingFitsIsRefusedWithoutASearch) {
  const loopnest::Nest nest =
      loopnest::parse("convolution", "O[k, p] += I[c, p + r] * W[k, c, r]", {512, 512, 512, 7}).value();
  cost::Machine machine;
  machine.memories = {
      {.name = "L0", .instances = 1, .capacity_bytes = 59, .read_bytes_per_cycle = 4, .write_bytes_per_cycle = 4},
      {.name = "DRAM", .instances = 1, .read_bytes_per_cycle = 4, .write_bytes_per_cycle = 4}};
  machine.units = {{.name = "core", .count = 1, .operations_per_cycle = 2}};
  Options options;
  int polls = 0;
  options.stopped = [&] { return ++polls > 1000; };
  // One result, and seven values and weights: 60 bytes.
  auto answer = searchExact(nest, machine, options);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_FALSE(answer->best.has_value());
  EXPECT_TRUE(answer->complete);
  EXPECT_THAT(answer->obstacle, ::testing::HasSubstr("needs 60 bytes of L0"));
  EXPECT_EQ(polls, 0);
  machine.memories[0].capacity_bytes = 60;
  answer = searchExact(nest, machine, options);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->obstacle, "");
  EXPECT_GT(polls, 0);
}

}  // namespace
}  // namespace tessera::compiler::dataflow_search
