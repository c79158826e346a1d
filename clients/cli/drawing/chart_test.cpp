#include "clients/cli/drawing/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::client {
namespace {

using testing::HasSubstr;
using testing::Not;

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(Chart, TicksAreRoundNumbers) {
  EXPECT_DOUBLE_EQ(tickStep(10, 10), 1);
  EXPECT_DOUBLE_EQ(tickStep(11, 10), 2);
  EXPECT_DOUBLE_EQ(tickStep(0.4, 10), 0.05);
  EXPECT_DOUBLE_EQ(tickStep(8300, 10), 1000);
  EXPECT_DOUBLE_EQ(tickStep(0, 10), 1);
}

TEST(Chart, ACurveKeepsItsValueUntilTheNextPoint) {
  const std::string svg = curveSvg("a < b", "trials", "ms", {{"q & co", {{1, 5}, {4, 3}, {10, 1}}}, {"none", {}}});
  EXPECT_THAT(svg, HasSubstr("a &lt; b"));
  EXPECT_EQ(count(svg, "<title>q &amp; co</title>"), 1);
  const size_t path = svg.find("stroke-width=\"2\"");
  const std::string drawn = svg.substr(svg.rfind("<path d=\"M", path), path - svg.rfind("<path d=\"M", path));
  EXPECT_EQ(count(drawn, "H"), 2);
  EXPECT_EQ(count(drawn, "V"), 2);
  EXPECT_THAT(svg, HasSubstr(">none</text>")) << "it is in the legend";
}

TEST(Chart, LinesOverCategoriesLeaveOutMissingPoints) {
  const std::string svg =
      categorySvg({"t", "L1.capacity", "cycles", {"1M", "2M", "4M"}, {{"a & b", {{0, 8}, {2, 2}}}, {"c", {{1, 4}}}}});
  EXPECT_EQ(count(svg, "<circle"), 3);
  EXPECT_THAT(svg, HasSubstr("<title>a &amp; b: 2</title>"));
  EXPECT_EQ(count(svg, "stroke-width=\"2\""), 1) << "one point is no line";
  for (const char* label : {">1M<", ">2M<", ">4M<", ">L1.capacity<", ">c<"}) EXPECT_THAT(svg, HasSubstr(label));
  EXPECT_THAT(categorySvg({}), Not(HasSubstr("nan")));
}

TEST(Chart, NothingAtAllIsAnEmptyChart) {
  for (const std::string& svg : {curveSvg("t", "x", "y", {}), ganttSvg({"t", {}, {}})}) {
    EXPECT_THAT(svg, HasSubstr("</svg>"));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
  }
}

TEST(Chart, BarsStandInTheirLanes) {
  Gantt gantt{"job", {"w1", "w2"}, {}};
  gantt.bars.push_back({0, 0, 1, "build", "first", false});
  gantt.bars.push_back({1, 0.5, 2, "search", "second", true});
  const std::string svg = ganttSvg(gantt);
  EXPECT_EQ(count(svg, "<title>"), 2);
  EXPECT_EQ(count(svg, "#d00000"), 1) << "what failed is outlined";
  EXPECT_THAT(svg, HasSubstr(">w2</text>"));
  EXPECT_LT(svg.find("first"), svg.find("second"));
}

}  // namespace
}  // namespace tessera::client
