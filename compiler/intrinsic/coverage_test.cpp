#include "compiler/intrinsic/coverage.h"

#include <gtest/gtest.h>

#include "compiler/target/target.h"

namespace tessera::compiler::intrinsic {
namespace {

using Arithmetic = v1::Intrinsic::Arithmetic;

void addLoop(v1::OperatorNest& nest, const char* name, int64_t extent, bool reduction) {
  auto* loop = nest.add_loops();
  loop->set_name(name);
  loop->set_extent(extent);
  loop->set_reduction(reduction);
}

void addAccess(v1::OperatorNest& nest, const char* name, const std::vector<std::string>& subscripts) {
  auto* access = nest.add_accesses();
  access->set_name(name);
  access->set_dtype(v1::DATA_TYPE_F32);
  access->mutable_subscripts()->Assign(subscripts.begin(), subscripts.end());
}

v1::OperatorNest& addNest(v1::Explanation& explanation, int node) {
  v1::OperatorNest& nest = *explanation.add_operators();
  nest.set_node(node);
  nest.set_form(Arithmetic::MULTIPLY_ADD);
  return nest;
}

TEST(Coverage, NodesMapWhereOneOfTheirNestsDoes) {
  v1::Explanation explanation;
  for (const char* name : {"vector", "relu", "both", "gather"})
    explanation.mutable_before()->add_nodes()->set_name(name);
  v1::OperatorNest& vector = addNest(explanation, 0);  // x^T W: the rows are those of the second source
  addLoop(vector, "n", 64, false);
  addLoop(vector, "k", 32, true);
  addAccess(vector, "O", {"n"});
  addAccess(vector, "x", {"k"});
  addAccess(vector, "W", {"k", "n"});
  v1::OperatorNest relu = vector;
  relu.set_node(1);
  relu.set_obstacle("max is no sum");
  *explanation.add_operators() = relu;
  relu.set_node(2);
  *explanation.add_operators() = relu;
  vector.set_node(0);
  v1::OperatorNest again = vector;
  again.set_node(2);
  *explanation.add_operators() = again;

  const Coverage coverage = coverageOf(explanation, *findBuiltinTarget("sm_80"));
  EXPECT_EQ(coverage.nodes, 4u);
  ASSERT_EQ(coverage.operators.size(), 3u);
  EXPECT_EQ(coverage.mapped(), 2u);
  EXPECT_EQ(coverage.nests, 4u);
  EXPECT_EQ(coverage.mapped_nests, 2u);
  EXPECT_GE(coverage.operators[0].mappings, 1u);
  EXPECT_EQ(coverage.operators[0].nest, "O[n] += x[k] * W[k, n]");
  EXPECT_EQ(coverage.operators[1].obstacle, "max is no sum");
  EXPECT_EQ(coverage.operators[2].name, "both");
  EXPECT_TRUE(coverage.operators[2].obstacle.empty());
}

TEST(Coverage, TheThesisNamesFiveNetworks) {
  EXPECT_EQ(thesisCoverage("shufflenet_v1")->amos, 50);
  EXPECT_EQ(thesisCoverage("bert_base")->operators, 204);
  EXPECT_FALSE(thesisCoverage("vgg19").has_value());
}

}  // namespace
}  // namespace tessera::compiler::intrinsic
