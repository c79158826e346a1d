#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "clients/cli/drawing/layered_layout.h"
#include "clients/cli/drawing/picture.h"
#include "clients/cli/drawing/tree_picture.h"
#include "compiler/schedule/text.h"

namespace tessera::client {
namespace {

using testing::HasSubstr;
using testing::Not;

BoxGraph boxes(int count, std::vector<std::pair<int, int>> arrows) {
  BoxGraph graph;
  for (int i = 0; i < count; ++i) graph.boxes.push_back({100.0 + 10 * (i % 3), 40});
  graph.arrows = std::move(arrows);
  return graph;
}

TEST(LayeredLayout, ArrowsPointDownAndBoxesStayApart) {
  // A ladder whose rungs skip layers.
  std::vector<std::pair<int, int>> arrows;
  for (int i = 0; i + 2 < 40; ++i) {
    arrows.emplace_back(i, i + 2);
    if (i % 5 == 0 && i + 9 < 40) arrows.emplace_back(i, i + 9);
  }
  const BoxGraph graph = boxes(40, arrows);
  const Placement placed = placeLayers(graph);
  ASSERT_EQ(placed.centers.size(), 40U);
  for (size_t a = 0; a < arrows.size(); ++a) {
    EXPECT_LT(placed.centers[arrows[a].first].y, placed.centers[arrows[a].second].y);
    for (size_t i = 1; i < placed.routes[a].size(); ++i) EXPECT_LT(placed.routes[a][i - 1].y, placed.routes[a][i].y);
  }
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_GE(placed.centers[i].x - graph.boxes[i].width / 2, -1e-6);
    EXPECT_LE(placed.centers[i].x + graph.boxes[i].width / 2, placed.width + 1e-6);
    for (size_t j = i + 1; j < 40; ++j) {
      if (placed.centers[i].y != placed.centers[j].y) continue;
      const double least = (graph.boxes[i].width + graph.boxes[j].width) / 2;
      EXPECT_GE(std::abs(placed.centers[i].x - placed.centers[j].x), least) << i << " and " << j;
    }
  }
}

TEST(LayeredLayout, AChainIsALine) {
  const Placement placed = placeLayers(boxes(4, {{0, 1}, {1, 2}, {2, 3}}));
  for (const Point& center : placed.centers) EXPECT_NEAR(center.x, placed.centers[0].x, 1e-6);
}

TEST(LayeredLayout, SourcesStandAboveTheirReaders) {
  const Placement placed = placeLayers(boxes(5, {{0, 1}, {1, 2}, {2, 4}, {3, 4}}));
  EXPECT_EQ(placed.centers[3].y, placed.centers[2].y);
}

TEST(LayeredLayout, OddGraphsAreDrawn) {
  EXPECT_TRUE(placeLayers({}).centers.empty());
  const Placement placed = placeLayers(boxes(2, {{1, 0}, {1, 1}, {0, 1}}));
  EXPECT_TRUE(placed.routes[0].empty());
  EXPECT_TRUE(placed.routes[1].empty());
  EXPECT_EQ(placed.routes[2].size(), 2U);
}

v1::Explanation hostileNames() {
  v1::Explanation explanation;
  v1::GraphView& view = *explanation.mutable_after();
  for (int i = 0; i < 2; ++i) {
    v1::GraphView::Node* node = view.add_nodes();
    node->set_id(i);
    node->set_op("conv2d \"<&>\"");
    node->set_name(std::string("back\\slash\x01 ") + std::string(100, 'n'));
  }
  const auto connect = [&](int from, int to) {
    v1::GraphView::Edge* edge = view.add_edges();
    edge->set_from(from);
    edge->set_to(to);
    edge->mutable_tensor()->set_name("x<y");
  };
  connect(-1, 0);
  connect(0, 1);
  connect(1, -1);
  return explanation;
}

TEST(Picture, NamesCannotBreakTheMarkup) {
  const std::string svg = svgText(hostileNames());
  EXPECT_THAT(svg, HasSubstr("conv2d &quot;&lt;&amp;&gt;&quot;"));
  EXPECT_THAT(svg, Not(HasSubstr("<&")));
  EXPECT_THAT(svg, Not(HasSubstr("\x01")));
  EXPECT_THAT(svg, HasSubstr("x&lt;y"));
  const std::string dot = dotText(hostileNames());
  EXPECT_THAT(dot, HasSubstr("conv2d \\\"<&>\\\""));
  EXPECT_THAT(dot, HasSubstr("back\\\\slash?"));
}

TEST(Picture, InputsAndOutputsAreBoxesOfTheirOwn) {
  const std::vector<Panel> panels = panelsOf(hostileNames());
  ASSERT_EQ(panels.size(), 1U);  // the explanation has no graph of the model
  ASSERT_EQ(panels[0].boxes.size(), 4U);
  EXPECT_TRUE(panels[0].boxes.front().border);
  EXPECT_TRUE(panels[0].boxes.back().border);
  EXPECT_EQ(panels[0].arrows.size(), 3U);
  for (const Panel::Arrow& arrow : panels[0].arrows) EXPECT_LT(arrow.from, arrow.to);
}

TEST(TreePicture, TilesStandInTheBandOfTheirLevel) {
  const TreePicture picture{.title = "a < b",
                            .tree = compiler::parseSchedule("DRAM [m:Tp/16] Shar\n"
                                                            "  L1 [k:Tp/8]\n"
                                                            "    L0 [] compute nest 0\n"
                                                            "  L1 [n:Sp(core)/4]\n"
                                                            "    L0 [] compute nest 1\n")
                                        .value(),
                            .operators = {"product", "exp"}};
  const std::string svg =
      treeSvg({picture}, {{"DRAM", "4 B/cycle"}, {"L1", "2 x, 1 KiB"}, {"L0", "64 B"}, {"", "2 x core"}});
  EXPECT_THAT(svg, HasSubstr("a &lt; b"));
  const auto heightOf = [&](const std::string& text) {
    const size_t end = svg.find(">" + text + "</text>");
    EXPECT_NE(end, std::string::npos) << text << svg;
    const size_t y = svg.rfind("y=\"", end);
    return std::stod(svg.substr(y + 3));
  };
  const double dram = heightOf("[m:Tp/16] Shar"), l1 = heightOf("[k:Tp/8]"), other = heightOf("[n:Sp(core)/4]"),
               l0 = heightOf("all iterations"), unit = heightOf("product");
  EXPECT_LT(dram, l1);
  EXPECT_EQ(l1, other);
  EXPECT_LT(l1, l0);
  EXPECT_LT(l0, unit);
  EXPECT_EQ(unit, heightOf("exp"));
  EXPECT_LT(heightOf("DRAM: 4 B/cycle"), heightOf("L1: 2 x, 1 KiB"));
}

}  // namespace
}  // namespace tessera::client
