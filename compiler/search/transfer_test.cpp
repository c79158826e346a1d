// Transfer of a workload's tree to a workload with the same operators and another shape.
#include "compiler/search/transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/schedule/text.h"
#include "compiler/search/search.h"
#include "proto/messages/search_methods.h"

namespace tessera::compiler::search {
namespace {

v1::Schedule parsed(const std::string& text) {
  auto schedule = parseSchedule(text);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return schedule.ok() ? *schedule : v1::Schedule();
}

const char* const kStart =
    "vectors 512\n"
    "[i1:Sp(core)/256 i0:Tp/2 i1:Tp/16] outer-product nest 0 vectors i1 x16 tile i0:2,i1:16 sums r2\n";
const char* const kKnown =
    "vectors 512\n"
    "[i1:Sp(core)/256 r2:Tp/128 i1:Tp/32 i0:Tp/12] outer-product nest 0 vectors i1 x16 tile i0:12,i1:32 points i0,i1 "
    "sums r2 fetch ahead 8\n";

TEST(Transfer, ATreeKeepsItsDecisionsWithinTheOtherShape) {
  const auto carried =
      transferSchedule(parsed(kStart), parsed(kKnown), {{{0, "i0"}, 61}, {{0, "i1"}, 700}, {{0, "r2"}, 500}});
  ASSERT_TRUE(carried);
  EXPECT_EQ(printSchedule(*carried), printSchedule(parsed(kKnown)));
}

TEST(Transfer, WhatIsLongerThanTheLoopsIsCut) {
  const auto carried =
      transferSchedule(parsed(kStart), parsed(kKnown), {{{0, "i0"}, 7}, {{0, "i1"}, 700}, {{0, "r2"}, 100}});
  ASSERT_TRUE(carried);
  const std::string text = printSchedule(*carried);
  EXPECT_THAT(text, testing::HasSubstr("tile i0:7,i1:32"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("i0:Tp"))) << "the tile is the whole loop";
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("r2:Tp"))) << "so is the block";
}

TEST(Transfer, OtherNestsOrNothingNewGiveNothing) {
  EXPECT_FALSE(transferSchedule(parsed(kStart), parsed(kStart), {}));
  const v1::Schedule across =
      parsed("vectors 512\n[i0:Tp/4 i1:Tp/16] elementwise nest 0 vectors i1 x16 tile i0:4,i1:16\n");
  EXPECT_FALSE(transferSchedule(parsed(kStart), across, {})) << "it sums nothing";
  const v1::Schedule two = parsed(std::string(kKnown) + "[i0:Tp/1] scalar nest 1\n");
  EXPECT_FALSE(transferSchedule(parsed(kStart), two, {}));
}

TEST(Transfer, WhatIsKnownComesFirstInItsOrder) {
  const v1::Schedule own = parsed(
      "vectors 512\n[i1:Sp(core)/256 i0:Tp/4 i1:Tp/16] outer-product nest 0 vectors i1 x16 tile i0:4,i1:16 points i0 "
      "sums r2\n");
  SearchOptions options;
  options.extents = {{{0, "i0"}, 61}, {{0, "i1"}, 700}, {{0, "r2"}, 500}};
  options.known = {{own, 1.5, true, true}, {parsed(kKnown), 2, false, true}, {own, 1.4, true, false}};
  for (const char* const name : kSearchMethods) {
    const std::string method(name);
    auto search = makeSearch(method, parsed(kStart), options);
    ASSERT_TRUE(search.ok()) << search.status();
    const auto first = (*search)->propose(), second = (*search)->propose(), third = (*search)->propose();
    ASSERT_TRUE(first && second && third);
    EXPECT_EQ(printSchedule(first->schedule), printSchedule(own)) << method;
    EXPECT_EQ(printSchedule(second->schedule), printSchedule(parsed(kKnown))) << method;
    EXPECT_FALSE(third->direction.kind.empty() && method != "model") << method;
  }
}

}  // namespace
}  // namespace tessera::compiler::search
