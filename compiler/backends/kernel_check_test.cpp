#include "compiler/backends/kernel_check.h"

#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "gmock/gmock.h"
#include "proto/messages/failure.h"

namespace tessera::compiler::verification {
namespace {

using ::testing::HasSubstr;

/// A product over 37, a bias and a ReLU on 5 x 19.
std::string workload(const std::string& last) {
  return R"(
  func.func @w(%a: tensor<5x37xf32>, %b: tensor<37x19xf32>, %c: tensor<19xf32>) -> tensor<5x19xf32> {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<5x19xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<5x19xf32>) -> tensor<5x19xf32>
    %0 = linalg.matmul ins(%a, %b : tensor<5x37xf32>, tensor<37x19xf32>) outs(%f : tensor<5x19xf32>) -> tensor<5x19xf32>
    %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
                                          affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
        ins(%0, %c : tensor<5x19xf32>, tensor<19xf32>) outs(%e : tensor<5x19xf32>) {
    ^bb0(%p: f32, %q: f32, %o: f32):
      %s = arith.addf %p, %q : f32
      %r = )" +
         last + R"( : f32
      linalg.yield %r : f32
    } -> tensor<5x19xf32>
    return %1 : tensor<5x19xf32>
  })";
}

v1::BuildUnit unitOf(const std::string& ir) {
  v1::BuildUnit unit = codegen::hostUnit(ir);
  auto schedule = defaultSchedule(unit);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  if (schedule.ok()) *unit.mutable_schedule() = *std::move(schedule);
  return unit;
}

TEST(KernelCheckTest, FollowsAWorkloadFromItsTextToItsCode) {
  const v1::BuildUnit unit = unitOf(workload("arith.maximumf %s, %z"));
  auto built = buildObject(unit);
  ASSERT_TRUE(built.ok()) << built.status();
  const auto steps = checkKernel(unit, *built);
  ASSERT_TRUE(steps.ok()) << steps.status();
  ASSERT_EQ(steps->size(), 3);
  for (const v1::VerifiedStep& step : *steps) {
    EXPECT_EQ(step.skipped(), "") << step.step();
    EXPECT_EQ(step.place(), unit.symbol());
    EXPECT_GE(step.elements(), 2 * 95);  // two sets of inputs
    EXPECT_LE(step.share(), 1);
    EXPECT_EQ(step.undecided(), 0);
  }
  EXPECT_EQ((*steps)[0].step(), "normalize");
  EXPECT_EQ((*steps)[1].step(), "bufferize");
  EXPECT_EQ((*steps)[2].step(), "kernel");
  EXPECT_GT((*steps)[2].largest_error(), 0) << "the kernel computes in single precision";
  EXPECT_LT((*steps)[2].bound(), 1e-3);
}

TEST(KernelCheckTest, NamesAWrongKernelAndWhatWouldBeRight) {
  const v1::BuildUnit unit = unitOf(workload("arith.maximumf %s, %z"));
  const auto wrong = buildObject(unitOf(workload("arith.minimumf %s, %z")));
  ASSERT_TRUE(wrong.ok());
  const auto steps = checkKernel(unit, *wrong);
  ASSERT_FALSE(steps.ok());
  const v1::Failure failure = failureOf(steps.status());
  EXPECT_EQ(failure.reason(), v1::Failure::INTERNAL);
  EXPECT_THAT(failure.message(), HasSubstr("kernel of workload unit: result 0, element"));
  EXPECT_THAT(failure.message(), HasSubstr("without slices it is right; on plain loops it is right"));
}

TEST(KernelCheckTest, SeesAConstantThatIsATenThousandthOff) {
  const v1::BuildUnit unit = unitOf(workload("arith.mulf %s, %s"));
  const auto nearly = buildObject(unitOf(workload("arith.mulf %s, %s")));
  ASSERT_TRUE(nearly.ok());
  EXPECT_TRUE(checkKernel(unit, *nearly).ok());
  std::string off = workload("arith.mulf %s, %s");
  off.replace(off.find("arith.constant 0.0"), 18, "arith.constant 0.0003");
  const auto wrong = buildObject(unitOf(off));
  ASSERT_TRUE(wrong.ok());
  EXPECT_FALSE(checkKernel(unit, *wrong).ok());
}

TEST(KernelCheckTest, SaysWhyAKernelWasNotRun) {
  v1::BuildUnit unit = unitOf(workload("arith.maximumf %s, %z"));
  auto built = buildObject(unit);
  ASSERT_TRUE(built.ok());
  unit.mutable_code()->set_triple("riscv64-unknown-linux-gnu");
  const auto steps = checkKernel(unit, *built);
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_NE((*steps)[2].skipped(), "");
  EXPECT_EQ((*steps)[1].skipped(), "") << "its buffers need no such host";
}

}  // namespace
}  // namespace tessera::compiler::verification
