#include "clients/cli/explanation_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/schedule/text.h"

namespace tessera::client {
namespace {

using testing::HasSubstr;
using testing::Not;

v1::Explanation sample() {
  v1::Explanation explanation;
  v1::Plan& plan = *explanation.mutable_plan();
  plan.mutable_target()->set_name("cascadelake");
  plan.add_steps();
  v1::Workload* workload = plan.add_workloads();
  *workload->mutable_schedule() = *compiler::parseSchedule(
      "vectors 512\n[i1:Sp(core)/32 i0:Tp/14] outer-product nest 0 vectors i1 x16 tile i0:14,i1:32 points i0,i1 sums "
      "r2");
  plan.set_arena_bytes(3 << 20);
  v1::GraphReport& report = *plan.mutable_report();
  report.set_nodes_before(2);
  report.set_peak_live_bytes(2 << 20);
  report.set_sum_intermediate_bytes(12 << 20);
  report.set_layout_transforms(1);
  report.set_layout_transforms_before(9);
  report.add_rewrites()->set_name("fold-scales");
  report.mutable_rewrites(0)->set_count(17);
  v1::Decision* decision = report.add_decisions();
  decision->set_kind("layout");
  decision->set_place("conv1");
  decision->set_reason("3 channels do not fill a block");
  decision->set_cost(2048);
  decision->set_alternative_cost(4096);
  decision->set_unit("bytes");
  for (const char* op : {"Conv", "Relu"}) {
    v1::GraphView::Node* node = explanation.mutable_before()->add_nodes();
    node->set_op(op);
    node->set_name(std::string("the ") + op);
  }
  v1::GraphView::Node* group = explanation.mutable_after()->add_nodes();
  group->set_op("conv2d + relu");
  group->set_name("conv1 + relu1");
  group->set_flops(4'000'000);
  group->set_bytes(1'000'000);
  group->set_layout("NCHW16c");
  return explanation;
}

TEST(ExplanationText, ShowsChoicesThatPricesDoNotSettle) {
  v1::Explanation explanation = sample();
  EXPECT_THAT(explanationText(explanation, false), Not(HasSubstr("OPEN CHOICES")));
  for (const char* place : {"conv1", "conv2"}) {
    v1::Choice& choice = *explanation.mutable_plan()->mutable_report()->add_choices();
    choice.set_kind("algorithm");
    choice.set_place(place);
    choice.set_choice("direct");
    choice.set_cost_us(100);
    choice.set_error(0.1);
    v1::Choice::Alternative& other = *choice.add_alternatives();
    other.set_choice("winograd-2x2");
    other.set_cost_us(104);
  }
  EXPECT_THAT(explanationText(explanation, false),
              testing::ContainsRegex("algorithm +direct +200.0 +208.0 +32.8 +winograd-2x2 +conv1 and 1 more"));
}

TEST(ExplanationText, ShowsFusionsByThePeakAndAsPriced) {
  v1::Explanation explanation = sample();
  EXPECT_THAT(explanationText(explanation, false), Not(HasSubstr("FUSIONS")));
  v1::Decision* decision = explanation.mutable_plan()->mutable_report()->add_decisions();
  decision->set_kind("repeat");
  decision->set_place("scale");
  v1::FusionProfit& profit = *decision->mutable_profit();
  profit.set_kind("One+Many");
  profit.set_saved_bytes(1'250'000);
  profit.set_repeated_flops(30'000);
  profit.set_saved_launches(1);
  profit.set_profit_us(-12.5);
  profit.set_separate_us(40.25);
  const std::string text = explanationText(explanation, false);
  EXPECT_THAT(text, HasSubstr("FUSIONS"));
  EXPECT_THAT(text, testing::ContainsRegex("declined +One\\+Many +1.250 +0.03 +1 +-12.5 +- +40.2 +repeat +scale"));
}

TEST(ExplanationText, SaysWhatWasDoneAndWhatItCosts) {
  const std::string text = explanationText(sample(), false);
  EXPECT_THAT(text, HasSubstr("2 nodes become 1 groups, with 1 distinct kernels for cascadelake"));
  EXPECT_THAT(text, HasSubstr("fold-scales"));
  EXPECT_THAT(text, HasSubstr("17"));
  EXPECT_THAT(text, HasSubstr("4.00"));  // MFLOP, and flop per byte
  EXPECT_THAT(text, HasSubstr("outer-product 14x2"));
  EXPECT_THAT(text, HasSubstr("1 transforms of activations remain of 9, NCHW16c in 1 group"));
  EXPECT_THAT(text, HasSubstr("declined  layout  2.0 KiB  4.0 KiB     conv1  3 channels do not fill a block"));
  EXPECT_THAT(text, HasSubstr("peak 3.0 MiB for intermediates, 1.50x the largest live set (2.0 MiB), 0.25x the sum"));
  EXPECT_THAT(text, Not(HasSubstr("the Relu")));
}

TEST(ExplanationText, ListsNodesOnRequest) { EXPECT_THAT(explanationText(sample(), true), HasSubstr("the Relu")); }

TEST(ExplanationText, SaysADecisionOnceForAllItsPlaces) {
  v1::Explanation explanation = sample();
  v1::GraphReport& report = *explanation.mutable_plan()->mutable_report();
  for (const char* place : {"block2", "block3"}) {
    *report.add_decisions() = report.decisions(0);
    report.mutable_decisions(report.decisions_size() - 1)->set_place(place);
  }
  *report.add_decisions() = report.decisions(0);
  report.mutable_decisions(3)->set_place("block4");
  report.mutable_decisions(3)->set_cost(1024);
  const std::string few = explanationText(explanation, false);
  EXPECT_THAT(few, HasSubstr("conv1 and 2 more  3 channels do not fill a block"));
  EXPECT_THAT(few, Not(HasSubstr("block2")));
  EXPECT_THAT(few, HasSubstr("block4"));
  const std::string all = explanationText(explanation, true);
  for (const char* place : {"conv1 ", "block2 ", "block3 ", "block4 "}) EXPECT_THAT(all, HasSubstr(place));
  EXPECT_THAT(all, Not(HasSubstr("more")));
}

TEST(ExplanationText, LeavesOutWhatIsNotKnown) {
  v1::Explanation explanation = sample();
  explanation.clear_before();
  explanation.mutable_plan()->mutable_report()->clear_decisions();
  const std::string text = explanationText(explanation, true);
  EXPECT_THAT(text, Not(HasSubstr("BEFORE")));
  EXPECT_THAT(text, Not(HasSubstr("DECISIONS")));
}

}  // namespace
}  // namespace tessera::client
