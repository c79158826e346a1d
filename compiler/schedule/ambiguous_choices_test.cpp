#include "compiler/schedule/ambiguous_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace tessera::compiler {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

void add(v1::GraphReport& report, const std::string& place, const std::string& choice, double cost_us,
         const std::vector<std::pair<std::string, double>>& alternatives, const std::string& kind = "algorithm",
         double error = 0.1, const std::string& subject = "conv2d 3x3, f32") {
  v1::Choice& made = *report.add_choices();
  made.set_kind(kind);
  made.set_place(place);
  made.set_choice(choice);
  made.set_subject(subject);
  made.set_cost_us(cost_us);
  made.set_error(error);
  for (const auto& [name, other_us] : alternatives) {
    v1::Choice::Alternative& other = *made.add_alternatives();
    other.set_choice(name);
    other.set_cost_us(other_us);
  }
}

std::vector<std::string> placesOf(const v1::AmbiguousChoice& open) {
  std::vector<std::string> places;
  for (const v1::Choice& pin : open.choices()) places.push_back(pin.place());
  return places;
}

TEST(OpenChoices, PricesWithinTheirErrorsAreOpenAndOthersAreNot) {
  v1::GraphReport report;
  add(report, "near", "direct", 100, {{"winograd-2x2", 120}});
  add(report, "far", "direct", 100, {{"winograd-2x2", 160}});
  add(report, "exact", "direct", 100, {{"winograd-2x2", 101}}, "algorithm", /*error=*/0);
  add(report, "without a price", "direct", 0, {});
  const auto open = ambiguousChoices(report);
  ASSERT_EQ(open.size(), 1u);
  EXPECT_THAT(placesOf(open[0]), ElementsAre("near"));
  EXPECT_EQ(open[0].choices(0).choice(), "winograd-2x2");
  EXPECT_EQ(open[0].choices(0).cost_us(), 0) << "a pin";
  EXPECT_EQ(open[0].instead_of(), "direct");
  EXPECT_NEAR(open[0].possible_gain_us(), 100 * 1.1 - 120 * 0.9, 1e-9);
}

TEST(OpenChoices, EqualOnesAreOneAndTheMostThatCanBeGainedIsFirst) {
  v1::GraphReport report;
  add(report, "small", "direct", 10, {{"winograd-2x2", 10}});
  add(report, "one", "direct", 100, {{"winograd-2x2", 130}, {"winograd-4x4", 110}});
  add(report, "another", "direct", 100, {{"winograd-2x2", 130}, {"winograd-4x4", 110}});
  add(report, "of the other kind", "winograd-4x4", 100, {{"winograd-2x2", 130}, {"direct", 110}});
  const auto open = ambiguousChoices(report);
  ASSERT_EQ(open.size(), 3u);
  EXPECT_THAT(placesOf(open[0]), ElementsAre("one", "another"));
  EXPECT_EQ(open[0].choices(1).choice(), "winograd-4x4") << "of several the one that may gain most";
  EXPECT_EQ(open[0].cost_us(), 200);
  EXPECT_EQ(open[0].alternative_us(), 220);
  EXPECT_THAT(placesOf(open[1]), ElementsAre("of the other kind"));
  EXPECT_THAT(placesOf(open[2]), ElementsAre("small"));
}

TEST(OpenChoices, LayoutsOfWhatIsNoDirectConvolutionAreNot) {
  v1::GraphReport report;
  add(report, "in the domain", "NCHW16c NCHW16c", 100, {{"NHWC NCHW16c", 101}}, "layout");
  add(report, "in the domain", "winograd-2x2", 50, {{"direct", 200}});
  add(report, "direct", "NCHW16c NCHW16c", 100, {{"NHWC NCHW16c", 101}}, "layout");
  const auto open = ambiguousChoices(report);
  ASSERT_EQ(open.size(), 1u);
  EXPECT_THAT(placesOf(open[0]), ElementsAre("direct"));
}

TEST(OpenChoices, TheSameQuestionHasTheSameHashInEveryModel) {
  const auto hashOf = [](const std::string& place, const std::string& choice, const std::string& other,
                         const std::string& subject, double cost_us, const std::string& kind = "algorithm") {
    v1::GraphReport report;
    add(report, place, choice, cost_us, {{other, cost_us + 1}}, kind, 0.1, subject);
    const auto open = ambiguousChoices(report);
    return open.empty() ? std::string("none") : open[0].hash();
  };
  const std::string hash = hashOf("Conv_1", "direct", "winograd-2x2", "conv2d 3x3, f32", 100);
  EXPECT_EQ(hashOf("Conv_7", "direct", "winograd-2x2", "conv2d 3x3, f32", 90), hash) << "prices are no part of it";
  EXPECT_NE(hashOf("Conv_1", "winograd-2x2", "direct", "conv2d 3x3, f32", 100), hash) << "the other way round";
  EXPECT_NE(hashOf("Conv_1", "direct", "winograd-2x2", "conv2d 3x3, bf16", 100), hash);
  const std::string layout = hashOf("Conv_1", "NCHW", "NHWC", "conv2d 3x3, f32", 100, "layout");
  EXPECT_EQ(hashOf("Conv_7", "NCHW", "NHWC", "conv2d 3x3, f32", 100, "layout"), layout);
  EXPECT_NE(hashOf("Conv_1", "NCHW", "NHWC", "conv2d 3x3, f32", 90, "layout"), layout) << "other neighbours";
}

TEST(OpenChoices, AreToldInWords) {
  v1::GraphReport report;
  add(report, "Conv_1", "direct", 100, {{"winograd-2x2", 101}});
  EXPECT_EQ(ambiguousChoices(report)[0].summary(), "algorithm winograd-2x2 instead of direct: conv2d 3x3, f32");
  report.mutable_choices(0)->set_subject(std::string(5000, 'x'));
  EXPECT_LE(ambiguousChoices(report)[0].summary().size(), 1000u) << "a record's summary is not endless";
}

TEST(OpenChoices, OfEqualPricesAndDifferentSubjectsAreTwo) {
  v1::GraphReport report;
  add(report, "one", "direct", 100, {{"winograd-2x2", 110}});
  add(report, "another", "direct", 100, {{"winograd-2x2", 110}}, "algorithm", 0.1, "conv2d 3x3 g2, f32");
  EXPECT_EQ(ambiguousChoices(report).size(), 2u);
}

TEST(OpenChoices, AModelWithoutChoicesHasNone) { EXPECT_THAT(ambiguousChoices({}), IsEmpty()); }

TEST(OpenChoices, WhatOtherPricesHaveOtherwiseIsOneChoice) {
  v1::GraphReport own, other;
  add(own, "first", "direct", 1, {{"winograd-2x2", 1000}});
  add(other, "first", "winograd-2x2", 50, {{"direct", 80}});
  add(own, "same", "fused", 10, {{"apart", 20}}, "tile-region");
  add(other, "same", "fused", 10, {{"apart", 20}}, "tile-region");
  add(own, "first", "NCHW16c NCHW16c", 3, {}, "layout");
  add(other, "first", "NCHW NCHW", 4, {}, "layout");
  add(own, "of one alone", "apart", 5, {}, "fuse-chain");
  const auto open = differingChoices(own, other, "the family");
  ASSERT_TRUE(open.has_value());
  EXPECT_THAT(placesOf(*open), ElementsAre("first", "first"));
  EXPECT_EQ(open->choices(0).choice(), "winograd-2x2");
  EXPECT_EQ(open->choices(1).choice(), "NCHW NCHW");
  EXPECT_EQ(open->cost_us(), 80 + 3) << "in the prices that know both, where they do";
  EXPECT_EQ(open->alternative_us(), 50 + 4);
  EXPECT_GT(open->possible_gain_us(), 0);
  EXPECT_THAT(open->summary(), testing::HasSubstr("as the family has it: algorithm winograd-2x2 instead of direct"));
  EXPECT_FALSE(differingChoices(own, own, "itself").has_value());
}

}  // namespace
}  // namespace tessera::compiler
