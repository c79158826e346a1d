#include "compiler/schedule/pins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/text.h"
#include "google/protobuf/util/message_differencer.h"

namespace tessera::compiler {
namespace {

using testing::HasSubstr;

constexpr const char* kTree =
    "vectors 256\n[i0:Sp(core)/4] Shar\n  [i1:Tp/8] elementwise nest 0 vectors i1 x8 tile i1:8\n  [] scalar nest 1\n";

const std::string kHash(64, 'a');

v1::Pins somePins() {
  v1::Pins pins;
  auto choose = [&](const char* kind, const char* place, const char* choice, const char* variant) {
    v1::Choice& pin = *pins.add_choices();
    pin.set_kind(kind);
    pin.set_place(place);
    pin.set_choice(choice);
    pin.set_variant(variant);
  };
  choose("algorithm", "a \"quoted\\\" name # of\nfour lines", "direct", "");
  choose("layout", "", "NCHW NCHW16c", "x=1x3x5x7 y=1");
  choose("fuse-chain", "a + b", "apart", "");
  pins.mutable_choices(2)->set_refusal("no \"slices\"");
  v1::Pins::PinnedWorkload& workload = *pins.add_workloads();
  workload.set_hash(kHash);
  workload.set_summary("relu");
  auto schedule = parseSchedule(kTree);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  *workload.mutable_schedule() = *schedule;
  return pins;
}

std::string faultOf(const std::string& text) { return std::string(parsePins(text).status().message()); }

TEST(Pins, ComeBackFromTheirText) {
  v1::Pins pins = somePins();
  auto parsed = parsePins(printPins(pins));
  ASSERT_TRUE(parsed.ok()) << parsed.status() << printPins(pins);
  pins.mutable_workloads(0)->clear_summary();  // a comment
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(pins, *parsed)) << printPins(*parsed);
}

TEST(Pins, MayBeCommentsAndBlankLinesAlone) {
  auto parsed = parsePins("# nothing\n\n   # here\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->choices_size() + parsed->workloads_size(), 0);
}

TEST(Pins, CommentsMayStandWithinATree) {
  auto parsed = parsePins(absl::StrCat("workload ", kHash, "\n  vectors 256\n# here\n\n  [] scalar nest 0\n"));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->workloads(0).schedule().phases_size(), 1);
}

TEST(Pins, FaultsNameLineAndColumnOfTheWholeText) {
  const std::string before = absl::StrCat("choice algorithm x direct\nworkload ", kHash, "\n");
  EXPECT_THAT(faultOf(before + "  vectors many\n"), HasSubstr("line 3, column 11"));
  EXPECT_THAT(faultOf(before + " vectors 256\n"), HasSubstr("line 3, column 2: indented too little"));
  EXPECT_THAT(faultOf("\nchoice algorithm \"x direct\n"), HasSubstr("line 2, column 18: a quotation has no end"));
  EXPECT_THAT(faultOf("choice algorithm x\n"), HasSubstr("line 1, column 18"));
  EXPECT_THAT(faultOf("chioce algorithm x direct\n"), HasSubstr("accepted: choice KIND"));
  EXPECT_THAT(faultOf("workload 12ab\n"), HasSubstr("line 1, column 10"));
}

TEST(Pins, RefuseToDecideTwice) {
  EXPECT_THAT(faultOf("choice algorithm x direct\nchoice algorithm x winograd-2x2\n"),
              HasSubstr("line 2, column 18: a place is decided twice"));
  const std::string workload = absl::StrCat("workload ", kHash, "\n  [] scalar nest 0\n");
  EXPECT_THAT(faultOf(workload + workload), HasSubstr("line 3, column 10: a workload is decided twice"));
  EXPECT_TRUE(parsePins("choice algorithm x direct\nchoice algorithm x winograd-2x2 for \"a=1\"\n").ok());
}

TEST(Pins, ErrorsRepeatLittleOfLongTexts) { EXPECT_LT(faultOf("workload " + std::string(1 << 20, 'z')).size(), 400); }

TEST(Pins, HoldWhatAPlanAndItsVariantsDecide) {
  v1::Plan plan;
  auto input = [](v1::Plan& variant, int64_t batch) {
    v1::TensorSpec& spec = *variant.add_inputs();
    spec.set_name("x");
    spec.add_shape(batch);
    spec.add_shape(3);
  };
  input(plan, 1);
  plan.mutable_report()->add_choices()->set_kind("algorithm");
  EXPECT_EQ(pinsOf(plan).choices(0).variant(), "");
  v1::Plan& variant = *plan.add_variants();
  input(variant, 8);
  variant.mutable_report()->add_choices()->set_kind("layout");
  plan.add_workloads()->set_hash(kHash);
  const v1::Pins pins = pinsOf(plan);
  ASSERT_EQ(pins.choices_size(), 2);
  EXPECT_EQ(pins.choices(0).variant(), "x=1x3");
  EXPECT_EQ(pins.choices(1).variant(), "x=8x3");
  EXPECT_EQ(pins.workloads(0).hash(), kHash);
}

}  // namespace
}  // namespace tessera::compiler
