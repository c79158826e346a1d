#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "compiler/artifact/reweight.h"

namespace tessera::compiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A plan with one kernel, one step and one weight.
v1::Plan planOf(const std::string& constant) {
  v1::Plan plan;
  plan.set_model_sha256("a");
  plan.set_compiler_version("1");
  v1::Workload& workload = *plan.add_workloads();
  workload.set_hash(constant);
  workload.set_summary("matmul 4x4x4");
  workload.set_ir("func @f {\n  %0 = arith.constant " + constant + "\n}");
  v1::Step& step = *plan.add_steps();
  step.set_name("product");
  v1::Buffer& weight = *plan.add_buffers();
  weight.set_kind(v1::Buffer::WEIGHT);
  weight.mutable_spec()->set_name("w");
  weight.mutable_spec()->set_dtype(v1::DATA_TYPE_F32);
  weight.mutable_spec()->add_shape(4);
  return plan;
}

TEST(CodeDifferences, ModelAndReportAreNoPartOfTheCode) {
  v1::Plan base = planOf("1.0"), other = base;
  other.set_model_sha256("b");
  other.mutable_report()->add_rewrites()->set_name("fold-constants");
  EXPECT_THAT(codeDifferences(base, other), IsEmpty());
}

TEST(CodeDifferences, AConstantOfAKernelIsNamed) {
  EXPECT_THAT(codeDifferences(planOf("1.0"), planOf("2.0")),
              ElementsAre(testing::AllOf(HasSubstr("'product'"), HasSubstr("`%0 = arith.constant 1.0`"),
                                         HasSubstr("`%0 = arith.constant 2.0`"))));
}

TEST(CodeDifferences, RewritesAndWeightsAreNamed) {
  v1::Plan base = planOf("1.0"), other = base;
  v1::RewriteCount& rewrite = *other.mutable_report()->add_rewrites();
  rewrite.set_name("keep-busy-taps");
  rewrite.set_count(2);
  other.mutable_buffers(0)->mutable_spec()->set_shape(0, 3);
  EXPECT_THAT(codeDifferences(base, other),
              ElementsAre("rewrite keep-busy-taps: 0 times, with these weights 2",
                          HasSubstr("stored weight 'w' DATA_TYPE_F32[4]"), HasSubstr("DATA_TYPE_F32[3] is only")));
  other = base;
  other.mutable_buffers(0)->set_offset(64);
  EXPECT_THAT(codeDifferences(base, other), ElementsAre(HasSubstr("equal weights are stored once")));
}

TEST(CodeDifferences, OtherStepsAndOtherVersions) {
  v1::Plan base = planOf("1.0"), other = base;
  other.mutable_steps(0)->set_name("renamed");
  EXPECT_THAT(codeDifferences(base, other), ElementsAre(HasSubstr("'product' (matmul 4x4x4) becomes 'renamed'")));
  other = planOf("2.0");
  other.set_compiler_version("2");
  EXPECT_THAT(codeDifferences(base, other), ElementsAre("compiled by 1, this compiler is 2"));
}

TEST(CodeDifferences, StepsOfADamagedPlanNameNoWorkload) {
  v1::Plan base = planOf("1.0"), other = base;
  base.mutable_steps(0)->set_workload(7);
  EXPECT_THAT(codeDifferences(base, other), testing::Not(IsEmpty()));
}

}  // namespace
}  // namespace tessera::compiler
