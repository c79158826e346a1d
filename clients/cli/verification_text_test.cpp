#include "clients/cli/verification_text.h"

#include "gmock/gmock.h"

namespace tessera::client {
namespace {

using ::testing::HasSubstr;

void add(v1::Plan& plan, const std::string& step, const std::string& place, double share, const std::string& skipped) {
  v1::VerifiedStep& entry = *plan.mutable_report()->add_verified();
  entry.set_step(step);
  entry.set_place(place);
  entry.set_share(share);
  entry.set_bound(share > 0 ? 1e-6 : 0);
  entry.set_elements(10);
  entry.set_skipped(skipped);
}

TEST(VerificationTextTest, CountsStepsAndKernelsAndNamesWhatWasLeftOut) {
  v1::Plan plan;
  add(plan, "import", "", 0, "");
  add(plan, "winograd", "", 0.25, "");
  for (const char* step : {"normalize", "bufferize", "kernel"}) add(plan, step, "w_1", 0.125, "");
  for (const char* step : {"normalize", "bufferize"}) add(plan, step, "w_2", 0.5, "");
  add(plan, "kernel", "w_2", 0, "this host has no neon");
  const std::string text = verificationText(plan);
  EXPECT_THAT(text, HasSubstr("verified 2 of 2 steps of the graph, 1 of 2 kernels"));
  EXPECT_THAT(text, HasSubstr("largest error 0.5 of its bound (1e-06, normalize of w_2)"));
  EXPECT_THAT(text, HasSubstr("not verified: kernel of w_2: this host has no neon"));
}

TEST(VerificationTextTest, SaysWhatAPrecisionMadeOfTheProducts) {
  v1::Plan plan;
  EXPECT_EQ(precisionText(plan), "");
  v1::Decision& other = *plan.mutable_report()->add_decisions();
  other.set_kind("layout");
  other.set_reason("NCHW");
  v1::Decision& decision = *plan.mutable_report()->add_decisions();
  decision.set_kind("precision");
  decision.set_reason("3 products read operands rounded to bf16");
  *plan.add_variants()->mutable_report()->add_decisions() = decision;
  const std::string line = "  precision: 3 products read operands rounded to bf16\n";
  EXPECT_EQ(precisionText(plan), line + line);
}

TEST(VerificationTextTest, VariantsCount) {
  v1::Plan plan;
  add(plan, "import", "", 0, "");
  add(*plan.add_variants(), "import", "", 0, "too large");
  EXPECT_THAT(verificationText(plan), HasSubstr("verified 1 of 2 steps"));
  EXPECT_THAT(verificationJson(plan), HasSubstr("too large"));
}

}  // namespace
}  // namespace tessera::client
