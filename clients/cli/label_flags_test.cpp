#include "clients/cli/label_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::client {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(LabelFlags, WordsAreKeysAndValues) {
  const LabelFlags flags{{"team=vision", "empty=", "url=a=b"}};
  EXPECT_THAT(*flags.parse(), UnorderedElementsAre(Pair("team", "vision"), Pair("empty", ""), Pair("url", "a=b")));
  for (const char* wrong : {"team", "=vision", ""}) {
    EXPECT_THAT(std::string(LabelFlags{{wrong}}.parse().status().message()), HasSubstr("KEY=VALUE")) << wrong;
  }
  EXPECT_THAT(std::string(LabelFlags{{"a=1", "a=2"}}.parse().status().message()), HasSubstr("once"));
}

TEST(LabelFlags, AListIsNarrowedByAllOfThem) {
  EXPECT_EQ(*LabelFlags{}.narrowed("state = FAILED OR kind = tune"), "state = FAILED OR kind = tune");
  EXPECT_EQ(*LabelFlags{{"team=vision"}}.narrowed(""), "labels.team = \"vision\"");
  EXPECT_EQ((*LabelFlags{{"a-b=say \"x\\y\"", "c=1"}}.narrowed("state = FAILED OR state = CANCELLED")),
            "(state = FAILED OR state = CANCELLED) AND labels.a-b = \"say \\\"x\\\\y\\\"\" AND labels.c = \"1\"");
  EXPECT_FALSE(LabelFlags{{"a = 1 OR b=2"}}.narrowed("").ok());
}

}  // namespace
}  // namespace tessera::client
