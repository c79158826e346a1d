#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "compiler/search/space_size.h"
#include "compiler/space/expression_analysis.h"
#include "compiler/space/operators.h"

namespace tessera::compiler::space {
namespace {

TEST(Operators, AreWhatTheTableSays) {
  // Rows in which the thesis's table does not follow its own rule, see operators.h.
  const std::map<std::string, std::pair<int, int>> ours = {{"GRP", {10, 3}}, {"DEP", {8, 2}}, {"DIL", {8, 3}}};
  for (const Operator& each : operators()) {
    const auto nodes = nodesOfExpression(each.text);
    ASSERT_TRUE(nodes.ok()) << each.name << ": " << nodes.status();
    if (each.nodes == 0) continue;
    EXPECT_EQ(static_cast<int>(nodes->size()), each.nodes) << each.name;
    int spatial = 0, reductions = 0;
    for (const auto& node : *nodes) {
      spatial += static_cast<int>(node.spatial.size());
      reductions += static_cast<int>(node.reductions.size());
    }
    const auto other = ours.find(each.name);
    EXPECT_EQ(spatial, other == ours.end() ? each.spatial : other->second.first) << each.name;
    EXPECT_EQ(reductions, other == ours.end() ? each.reductions : other->second.second) << each.name;
  }
}

TEST(Nodes, SayWhoReadsWhom) {
  const auto nodes = nodesOfExpression(
      "input A[4, 6], B[6, 5]: f32; C[i, j] += A[i, k] * B[k, j]; D[i] += C[i, j]; E[i, j] = C[i, j] * D[i];");
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  ASSERT_EQ(nodes->size(), 3U);
  EXPECT_EQ((*nodes)[0].spatial, (std::vector<int64_t>{4, 5}));
  EXPECT_EQ((*nodes)[0].reductions, (std::vector<int64_t>{6}));
  EXPECT_EQ((*nodes)[0].order, "i j k");
  EXPECT_EQ((*nodes)[0].consumers, 2);
  EXPECT_EQ((*nodes)[2].inputs, 2);
  EXPECT_EQ((*nodes)[2].consumers, 0);
}

TEST(Sizes, CountSplitsThatDivide) {
  EXPECT_EQ(search::factorizations(1, 4), 1);
  EXPECT_EQ(search::factorizations(7, 4), 4);
  EXPECT_EQ(search::factorizations(12, 2), 6);
  EXPECT_NEAR(search::thesisSize({8, 7}, {9}), std::log10(20.0 * 4 * 3), 1e-9);
}

}  // namespace
}  // namespace tessera::compiler::space
