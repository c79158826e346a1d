#include "compiler/intrinsic/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "compiler/intrinsic/simulation_check.h"
#include "compiler/intrinsic/standard_operators.h"
#include "compiler/intrinsic/testing/instructions.h"

namespace tessera::compiler::intrinsic {
namespace {

using ::testing::HasSubstr;

Nest convolution() {
  return loopnest::parse("C2D", "O[n, k, p, q] += I[n, c, p + r, q + s] * W[k, c, r, s]", {2, 2, 2, 2, 2, 2, 2})
      .value();
}

TEST(Verify, TheExampleOfFigure53Holds) {
  const Nest unit = nestOf(testing::smallMatrixUnit()).value();
  const Matching matching{{0, 1, 0, 0, 2, 2, 2}, {1, 2}};  // n k p q c r s
  EXPECT_TRUE(verify(convolution(), unit, matching).correct);
  const MappingMatrices matrices = matricesOf(convolution(), unit, matching);
  EXPECT_EQ(print(matrices.software), "  n k p q c r s\nO 1 1 1 1 0 0 0\nI 1 0 1 1 1 1 1\nW 0 1 0 0 1 1 1\n");
  EXPECT_EQ(print(matrices.mapping), "  n k p q c r s\ni 1 0 1 1 0 0 0\nj 0 1 0 0 0 0 0\nr 0 0 0 0 1 1 1\n");
}

TEST(Verify, TheMistakeOf55IsRefusedWithItsPlace) {
  const Nest unit = nestOf(testing::smallMatrixUnit()).value();
  const Verdict verdict = verify(convolution(), unit, {{0, 0, -1, -1, 2, -1, -1}, {1, 2}});
  EXPECT_FALSE(verdict.correct);
  EXPECT_THAT(verdict.reason, HasSubstr("Z * Y at (I, k): 1 instead of 0"));
  EXPECT_THAT(verify(convolution(), unit, {{0, -1, -1, -1, 2, -1, -1}, {1, 2}}).reason, HasSubstr("X * Y^T at ("));
}

TEST(Verify, OfAllMatchingsOfC2DAlgorithm4LetsSevenTimesSevenPass) {
  // 3 loops for i, 1 for j, 3 for r; the admission rule then accepts 35 of them.
  const Nest unit = nestOf(testing::smallMatrixUnit()).value(), software = convolution();
  size_t correct = 0;
  Matching matching{std::vector<int>(7, -1), {1, 2}};
  for (int code = 0; code < 1 << 14; ++code) {
    for (int loop = 0; loop < 7; ++loop) matching.iteration[loop] = (code >> (2 * loop) & 3) - 1;
    correct += verify(software, unit, matching).correct;
  }
  EXPECT_EQ(correct, 49u);
}

/// Small operators of every kind, with extents that no instruction divides.
std::vector<Nest> smallOperators() {
  std::vector<Nest> nests;
  for (const StandardOperator& standard : standardOperators()) {
    Nest nest = nestOf(standard);
    const bool many = nest.loops.size() > 7;
    for (size_t i = 0; i < nest.loops.size(); ++i) nest.loops[i].extent = !many && i % 3 == 1 ? 3 : 2;
    if (std::string(standard.name) == "T2D") {
      nest = loopnest::parse("T2D", "O[n, k, p, q] += I[n, c, p + r, q + s] * W[c, k, 1 - r, 2 - s]",
                             {2, 3, 2, 2, 3, 2, 3})
                 .value();
    }
    for (Access& access : nest.accesses) access.dtype = v1::DATA_TYPE_I32;
    nests.push_back(std::move(nest));
  }
  nests.push_back(loopnest::parse("strided", "O[n, p] += I[n, 2 * p + r] * W[r]", {2, 5, 2}).value());
  nests.push_back(loopnest::parse("window", "O[n, p] += I[n, p + r] * W[r]", {2, 5, 3}).value());
  nests.push_back(loopnest::parse("broadcast", "O[i, j, l] += A[i, k] * B[k, j]", {2, 3, 2, 2}).value());
  return nests;
}

// The verifier works on boolean matrices, the simulation on numbers: for thousands of right and wrong candidates both
// must agree.
TEST(Verify, AgreesWithTheSimulationOnThousandsOfCandidates) {
  const std::vector<v1::Intrinsic> units = {testing::smallMatrixUnit(), testing::smallAxpy(), testing::smallGemv(),
                                            testing::smallWindow()};
  std::mt19937 draw(7);
  std::map<Agreement, int> seen;
  int candidates = 0, correct = 0;
  for (const Nest& software : smallOperators()) {
    for (const v1::Intrinsic& intrinsic : units) {
      const Nest unit = nestOf(intrinsic).value();
      const Mappings right = enumerateMappings(software, unit);
      std::vector<Matching> tried(right.matchings.begin(),
                                  right.matchings.begin() + std::min<size_t>(right.matchings.size(), 20));
      Nest whole = withUnitLoops(software, unit, {1, 2});
      if (whole.loops.size() != right.software.loops.size()) tried.clear();
      const int iterations = static_cast<int>(unit.loops.size());
      for (int i = 0; i < 80; ++i) {
        Matching& matching = tried.emplace_back(Matching{std::vector<int>(whole.loops.size()), {1, 2}});
        if (draw() % 2 == 0) std::swap(matching.source[0], matching.source[1]);
        for (int& iteration : matching.iteration) iteration = static_cast<int>(draw() % (iterations + 1)) - 1;
        // Half of the candidates are one loop away from a right one.
        if (i % 2 == 0 && !right.matchings.empty() && whole.loops.size() == right.software.loops.size()) {
          matching = right.matchings[draw() % right.matchings.size()];
          matching.iteration[draw() % whole.loops.size()] = static_cast<int>(draw() % (iterations + 1)) - 1;
        }
      }
      for (const Matching& matching : tried) {
        // Loops of one point hide errors, so a stand-in with another matching is no candidate.
        bool stands = true;
        for (size_t loop = software.loops.size(); loop < whole.loops.size(); ++loop) {
          stands = stands &&
                   unit.loops[matching.iteration[loop] < 0 ? 0 : matching.iteration[loop]].name ==
                       whole.loops[loop].name.substr(4) &&
                   matching.iteration[loop] >= 0;
        }
        if (!stands || (matching.source[0] == 2 && whole.loops.size() != software.loops.size())) continue;
        const Verdict verdict = verify(whole, unit, matching);
        const Simulated simulated = simulate(whole, intrinsic, matching, 1000 + candidates);
        ++candidates;
        correct += verdict.correct;
        ++seen[simulated.agreement];
        EXPECT_EQ(verdict.correct, simulated.agreement == Agreement::kEqual)
            << print(software) << " on " << intrinsic.name() << ": " << ::testing::PrintToString(matching.iteration)
            << ::testing::PrintToString(matching.source) << " " << verdict.reason << " / "
            << static_cast<int>(simulated.agreement) << " " << simulated.what;
      }
    }
  }
  EXPECT_GT(candidates, 3000);
  EXPECT_GT(correct, 400);
  EXPECT_GT(seen[Agreement::kDiffers], 1000);
  EXPECT_GT(seen[Agreement::kIdle], 20);
  EXPECT_GT(seen[Agreement::kReplicates], 0);
  EXPECT_EQ(seen[Agreement::kCannotRun], 0);
  RecordProperty("candidates", candidates);
  std::cout << candidates << " candidates, " << correct << " correct, " << seen[Agreement::kDiffers] << " differ, "
            << seen[Agreement::kIdle] << " idle, " << seen[Agreement::kReplicates] << " replicate\n";
}

TEST(Verify, EveryMappingOfABuiltInUnitComputesTheOperator) {
  const Nest software =
      loopnest::parse("C2D", "O[n, k, p, q] += I[n, c, p + r, q + s] * W[k, c, r, s]", {2, 17, 3, 3, 5, 2, 2}).value();
  for (const auto& [target, name] : {std::pair{"ascend-910-like", "cube.s8"},
                                     {"sapphirerapids", "tdpbssd"},
                                     {"sm_80", "mma.m16n8k32.s8.s32"},
                                     {"neoverse-v1", "smmla.128"}}) {
    const v1::Intrinsic intrinsic = testing::builtinInstruction(target, name);
    const Nest unit = nestOf(intrinsic).value();
    const Mappings mappings = enumerateMappings(software, unit);
    ASSERT_EQ(mappings.matchings.size(), 35u) << name;
    for (size_t i = 0; i < mappings.matchings.size(); i += 6) {
      const Simulated simulated = simulate(mappings.software, intrinsic, mappings.matchings[i], i);
      EXPECT_EQ(simulated.agreement, Agreement::kEqual) << name << " " << simulated.what;
    }
  }
}

}  // namespace
}  // namespace tessera::compiler::intrinsic
