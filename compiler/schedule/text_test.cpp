#include "compiler/schedule/text.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <random>

#include "compiler/schedule/summary.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;

constexpr char kSlices[] = R"(vectors 512
fused 1+2 4+5+6
[i0:Sp(core)/4] pack nest 0 operand 1 vectors i1 x16 tile i0:4,i1:32 points i0,i1
L2 [d0:Sp(core)/1 d1.0:Sp(core)/64 r0:Tp/96] Shar softmax
  stage strided nest 0.1 operand 0 strides 1040,16,1
  [] Shar
    [i1:Tp/32 i0:Tp/14] outer-product nest 0 vectors i1 x16 tile i0:14,i1:32,r2:4 points i0,i1 sums r2 interleaved fetch ahead 16 rows panel results next 0.0.in1,1.0.in0 blocks 0.0.out0
      stage apart operand 0 along i0 order i0,r2 distance 272 within outside 1 ahead 16
        [] pack nest 0 vectors i1 x16
      stage panels operand 1 along i1 order i1,r2
    [rows:Tp/8] Shar
      [i0:Tp/2] horizontal nest 1 vectors r1 x16 tile i0:2,r1:32 points i0 sums r1
      [i0:Tp/2] elementwise nest 2 vectors i1 x16 tile i0:2,i1:32 points i0,i1
  [] Shar
    [] shared-pack nest 0 operand 1
    [] scalar nest 0 x1 sums r2 transposed i1
)";

TEST(ScheduleText, IsReadBackAsItWasPrinted) {
  auto schedule = parseSchedule(kSlices);
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  EXPECT_EQ(printSchedule(*schedule), kSlices);
  EXPECT_EQ(schedule->phases(1).children(0).children(0).stages(0).copies_size(), 1);
  EXPECT_EQ(schedule->phases(1).children(0).children(0).kernel().prefetch().next_blocks(0).result(), true);
  EXPECT_TRUE(schedule->phases(1).children(0).children(0).kernel().interleaved());
  EXPECT_EQ(schedule->phases(1).children(0).children(0).stages(0).distance(), 272);
  EXPECT_EQ(schedule->phases(1).children(0).children(0).stages(0).ahead(), 16);
  EXPECT_EQ(schedule->phases(1).loops(1).step(), 64);
  EXPECT_EQ(summarizeSchedule(*schedule), "outer-product 14x2 in slices d0/1 d1.0/64 r0/96");
}

TEST(ScheduleText, PartsAndTheSlicesThatFollowEachOtherInThemAreTwoLoopsOfOneDimension) {
  constexpr char kKept[] = "vectors 256\nL2 [d1:Sp(core)/28 d1:Tp/4] Shar\n  [] Shar\n    [] scalar nest 0 x1\n";
  auto schedule = parseSchedule(kKept);
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  EXPECT_EQ(printSchedule(*schedule), kKept);
  EXPECT_EQ(summarizeSchedule(*schedule), "scalar in slices d1/28 d1/4, halos kept");
}

TEST(ScheduleText, BypassedTensorsAreNamed) {
  const std::string text = "vectors 0\nL1 [m:Tp/4 k:Sp(core)/2] compute nest 3 with vector\n  stage bypass A,B\n";
  const auto tree = parseSchedule(text);
  ASSERT_TRUE(tree.ok()) << tree.status();
  EXPECT_EQ(printSchedule(*tree), text);
  EXPECT_EQ(tree->phases(0).stages(0).order_size(), 2);
  EXPECT_FALSE(parseSchedule("L1 [] compute nest 0\n  stage bypass A operand 1\n").ok());
}

TEST(ScheduleText, LeavesOfDescribedChipsAreReadBack) {
  const std::string text = R"(vectors 0
[] initial nest 0
HBM [i/16:Sp(cube)/8 n:Tp/1] Seq
  L1 [r/16:Tp/4] Seq
    L0C+L0A+L0B [i/16:Tp/1] call nest 1 with cube.f16 match i0:i,one.j:j,r0:r sources 1,0
HBM [i0:Sp(vector)/64] Seq
  UB [] vector nest 2 with vector x128
)";
  const auto tree = parseSchedule(text);
  ASSERT_TRUE(tree.ok()) << tree.status();
  EXPECT_EQ(printSchedule(*tree), text);
  const v1::Kernel& call = tree->phases(1).children(0).children(0).kernel();
  ASSERT_EQ(call.matching_size(), 3);
  EXPECT_EQ(call.matching(1).loop(), "one.j");
  EXPECT_EQ(call.matching(1).iteration(), "j");
  EXPECT_EQ(call.sources(0), 1);
  EXPECT_EQ(summarizeSchedule(*tree), "calls cube.f16");
  const auto fused = parseSchedule(R"(vectors 0
[] initial nest 0
HBM [i/16:Sp(cube)/8] Shar
  HBM [r1:Tp/1] Seq
    L1 [] call nest 1 with cube.f16 sources 1,0
  UB [] vector nest 2 with vector x64
)");
  ASSERT_TRUE(fused.ok()) << fused.status();
  EXPECT_EQ(summarizeSchedule(*fused), "calls cube.f16, vector on its results");
  EXPECT_FALSE(parseSchedule("[] call nest 0 match i0").ok());
  EXPECT_FALSE(parseSchedule("[] call nest 0 sources a").ok());
}

TEST(ScheduleText, BlanksAndCommentsSayNothing) {
  auto plain = parseSchedule("vectors 256\n[i0:Tp/8] elementwise nest 0 vectors i0 x8 tile i0:8\n");
  auto commented =
      parseSchedule("# a tree\n\nvectors 256  # of AVX2\n[ i0:Tp/8 ]  elementwise nest 0 vectors i0 x8 tile i0:8\n\n");
  ASSERT_TRUE(plain.ok() && commented.ok()) << plain.status().message() << commented.status().message();
  EXPECT_TRUE(MessageDifferencer::Equals(*plain, *commented));
}

TEST(ScheduleText, FaultsNameLineColumnAndWhatIsAccepted) {
  struct Case {
    const char* text;
    const char* message;
  };
  for (const Case& each :
       {Case{"vectors wide", "line 1, column 9: no number: found \"wide\""},
        Case{"vectors 512 bits", "line 1, column 13: more than expected"},
        Case{"vectors 512\n[i0/4] scalar nest 0", "line 2, column 2: no loop"},
        Case{"[i0:Up/4] scalar nest 0", "neither temporal nor spatial"},
        Case{"[i0:Tp/4", "the list of loops does not end"}, Case{"[] scalar", "a kernel names its nest"},
        Case{"[] scalar nest 0 tile i0", "no extent of a tile"},
        Case{"[] scalar nest 0 points i0,,i1", "an empty value in a list"},
        Case{"[] scalar nest 0 fetch soon", "nothing that a kernel fetches"},
        Case{"[] scalar nest 0 fetch next 1.in0", "no operand of a sibling"},
        Case{"[] scalar nest 0 quickly", "accepted: operand, with INSTRUCTION, vectors"},
        Case{"    [] Shar", "line 1, column 5: indented too far"}, Case{"stage panels operand 0", "a stage of nothing"},
        Case{"[] Shar\n  stage panels operand 0 below", "nothing that a stage says"}}) {
    auto schedule = parseSchedule(each.text);
    ASSERT_FALSE(schedule.ok()) << each.text;
    EXPECT_THAT(std::string(schedule.status().message()), HasSubstr(each.message)) << each.text;
    EXPECT_EQ(failureOf(schedule.status()).reason(), v1::Failure::INVALID_SCHEDULE);
  }
}

TEST(ScheduleText, NestingHasABound) {
  std::string text;
  for (int depth = 0; depth < 1000; ++depth) text += std::string(2 * depth, ' ') + "[] Shar\n";
  auto schedule = parseSchedule(text);
  ASSERT_FALSE(schedule.ok());
  EXPECT_THAT(std::string(schedule.status().message()), HasSubstr("nested too deeply"));
}

// Accepted text prints to text that is accepted again, and nothing crashes.
TEST(ScheduleText, RandomEditsAreReadOrRefused) {
  std::mt19937 random(7);
  int read = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = kSlices;
    for (unsigned edit = 0; edit <= random() % 3; ++edit) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random() % 128);
          break;
        case 1:
          text.erase(at, 1 + random() % 5);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 8));
      }
    }
    auto schedule = parseSchedule(text);
    if (!schedule.ok()) continue;
    ++read;
    auto again = parseSchedule(printSchedule(*schedule));
    ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << text;
    ASSERT_TRUE(MessageDifferencer::Equals(*schedule, *again)) << text << "\n" << printSchedule(*schedule);
  }
  EXPECT_GT(read, 1000);
}

}  // namespace
}  // namespace tessera::compiler
