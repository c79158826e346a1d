#include "clients/cli/artifact_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::client {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;

TEST(ArtifactComparison, WhatSlowsBothDownIsNoChange) {
  // The machine becomes twice as slow halfway; the second artifact is 20 % slower throughout.
  std::vector<double> before, after;
  for (int i = 0; i < 20; ++i) {
    const double machine = i < 10 ? 1 : 2;
    before.push_back(10 * machine + 0.01 * (i % 3));
    after.push_back(12 * machine + 0.01 * (i % 5));
  }
  const TimeChange slower = changeOf(before, after);
  EXPECT_NEAR(slower.change, 0.2, 0.01);
  const TimeChange same = changeOf(before, before);
  EXPECT_EQ(same.change, 0);
  EXPECT_FALSE(same.sure());
}

TEST(ArtifactComparison, AChangeWithinTheNoiseIsNotSure) {
  const std::vector<double> before = {10, 14, 8, 12, 10, 9, 13, 11}, after = {11, 9, 13, 10, 12, 14, 9, 11};
  const TimeChange change = changeOf(before, after);
  EXPECT_GT(change.change, 0.01);
  EXPECT_GT(change.noise, change.change);
  EXPECT_FALSE(change.sure());
}

TEST(ArtifactComparison, AClearChangeIsSureBothWays) {
  const std::vector<double> slow = {10.0, 10.1, 9.9, 10.0}, fast = {8.0, 8.1, 8.0, 7.9};
  EXPECT_TRUE(changeOf(slow, fast).sure());
  EXPECT_LT(changeOf(slow, fast).change, 0);
  EXPECT_TRUE(changeOf(fast, slow).sure());
  EXPECT_GT(changeOf(fast, slow).change, 0.2);
}

TEST(ArtifactComparison, LessThanOnePercentIsNeverSure) {
  EXPECT_FALSE(changeOf({1000, 1000, 1000}, {1009, 1009, 1009}).sure());
  EXPECT_TRUE(changeOf({1000, 1000, 1000}, {1011, 1011, 1011}).sure());
}

v1::Plan planOf(const std::vector<std::pair<std::string, std::string>>& steps) {
  v1::Plan plan;
  for (const auto& [name, hash] : steps) {
    plan.add_steps()->set_name(name);
    plan.mutable_steps()->rbegin()->set_workload(plan.workloads_size());
    plan.add_workloads()->set_hash(hash);
  }
  return plan;
}

TEST(ArtifactComparison, StepsOfOneNameBelongTogether) {
  const v1::Plan before = planOf({{"conv", "a"}, {"relu", "b"}, {"conv", "c"}, {"old", "d"}});
  v1::Plan after = planOf({{"new", "x"}, {"conv", "a"}, {"conv", "e"}, {"relu", "b"}});
  after.mutable_workloads(3)->mutable_schedule()->set_vector_bits(256);
  const auto pair = [](const char* name, int was, int is, CodeChange code) {
    return AllOf(Field(&StepPair::name, name), Field(&StepPair::before, was), Field(&StepPair::after, is),
                 Field(&StepPair::code, code));
  };
  EXPECT_THAT(pairSteps(before, 0, after, 0),
              ElementsAre(pair("conv", 0, 1, CodeChange::kSame), pair("relu", 1, 3, CodeChange::kOtherSchedule),
                          pair("conv", 2, 2, CodeChange::kOtherKernel), pair("old", 3, -1, CodeChange::kGone),
                          pair("new", -1, 0, CodeChange::kNew)));
}

TEST(ArtifactComparison, StepsOfAVariantUseTheOnePlansWorkloads) {
  v1::Plan plan = planOf({{"conv", "a"}, {"relu", "b"}});
  plan.add_variants()->add_steps()->set_name("conv");
  plan.mutable_variants(0)->mutable_steps(0)->set_workload(1);
  const auto pairs = pairSteps(plan, 0, plan, 1);
  ASSERT_EQ(pairs.size(), 2);
  EXPECT_EQ(pairs[0].code, CodeChange::kOtherKernel);
  EXPECT_EQ(pairs[1].code, CodeChange::kGone);
}

}  // namespace
}  // namespace tessera::client
