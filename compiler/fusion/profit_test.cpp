// Equation 4.10 and the four classes of figure 4.5, counted on forward and backward graphs of two operators.
#include "compiler/fusion/profit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::compiler::fusion {
namespace {

using testing::HasSubstr;

/// Tensors by name with given sizes in bytes; every point takes a FLOP.
class Graph {
 public:
  int tensor(int64_t bytes) {
    graph.tensors.push_back({.name = "t", .shape = {bytes}, .element_bytes = 1});
    return static_cast<int>(graph.tensors.size()) - 1;
  }
  int node(const std::vector<int>& inputs, int output) {
    GraphNode made;
    for (const int input : inputs) made.inputs.push_back({input, {{}}});
    made.output = output;
    graph.nodes.push_back(std::move(made));
    return static_cast<int>(graph.nodes.size()) - 1;
  }
  RegionGraph graph;
};

/// Bytes, FLOP and launches as seconds of different sizes, so that none hides another.
constexpr PeakMachine kMachine{.bytes_per_second = 1, .flops_per_second = 1000, .launch_seconds = 1e6};

TEST(ProfitTest, OneAndOneSaveFourTransfersAndRepeatNothing) {
  Graph g;  // A -> B -> C and gC -> gB -> gA
  const int a = g.tensor(5), b = g.tensor(7), c = g.tensor(11), gc = g.tensor(11), gb = g.tensor(7), ga = g.tensor(5);
  const int first = g.node({a}, b), second = g.node({b}, c), back2 = g.node({gc}, gb), back1 = g.node({gb}, ga);
  g.graph.outputs = {c, ga};
  const Profit profit = profitOf(g.graph, {first, second, back2, back1}, {{first, second}, {back2, back1}}, kMachine);
  EXPECT_EQ(profit.saved_bytes, 4 * 7);
  EXPECT_EQ(profit.repeated_flops, 0);
  EXPECT_EQ(profit.saved_launches, 2);
  EXPECT_DOUBLE_EQ(profit.seconds, 4 * 7 + 2e6);
  EXPECT_EQ(operatorPairText(g.graph, b, second), "One+One");
}

TEST(ProfitTest, OneAndManySaveFiveTransfersForOneOperator) {
  Graph g;  // A -> B, (B, C) -> D; gB of gD and C, gC of gD and B, gA of gB
  const int a = g.tensor(5), b = g.tensor(7), c = g.tensor(11), d = g.tensor(13);
  const int gd = g.tensor(13), gb = g.tensor(7), gc = g.tensor(11), ga = g.tensor(5);
  const int op1 = g.node({a}, b), op2 = g.node({b, c}, d);
  const int back_b = g.node({gd, c}, gb), back_c = g.node({gd, b}, gc), back_a = g.node({gb}, ga);
  g.graph.outputs = {d, gc, ga};
  const Profit profit =
      profitOf(g.graph, {op1, op2, back_b, back_c, back_a}, {{op1, op2}, {back_b, back_a}, {op1, back_c}}, kMachine);
  EXPECT_EQ(profit.saved_bytes, 5 * 7 - 5);  // A is read again for gC
  EXPECT_EQ(profit.repeated_flops, 7);       // B once more
  EXPECT_EQ(profit.saved_launches, 2);
  EXPECT_EQ(operatorPairText(g.graph, b, op2), "One+Many");
}

TEST(ProfitTest, ManyAndOneSaveFiveTransfersForOneOperator) {
  Graph g;  // (A, B) -> C -> D; gC of gD, gA of gC and B, gB of gC and A
  const int a = g.tensor(5), b = g.tensor(7), c = g.tensor(11), d = g.tensor(13);
  const int gd = g.tensor(13), gc = g.tensor(11), ga = g.tensor(5), gb = g.tensor(7);
  const int op1 = g.node({a, b}, c), op2 = g.node({c}, d);
  const int back_c = g.node({gd}, gc), back_a = g.node({gc, b}, ga), back_b = g.node({gc, a}, gb);
  g.graph.outputs = {d, ga, gb};
  const Profit profit =
      profitOf(g.graph, {op1, op2, back_c, back_a, back_b}, {{op1, op2}, {back_c, back_a}, {back_c, back_b}}, kMachine);
  EXPECT_EQ(profit.saved_bytes, 5 * 11 - 13);  // gD is read again
  EXPECT_EQ(profit.repeated_flops, 11);        // gC once more
  EXPECT_EQ(profit.saved_launches, 2);
  EXPECT_EQ(operatorPairText(g.graph, c, op2), "Many+One");
}

/// Two additional operators; whether fusing saves anything depends on the sizes: six times the intermediate against the
/// operands.
TEST(ProfitTest, ManyAndManyDependOnTheSizes) {
  const auto profit = [](int64_t between, int64_t outer) {
    Graph g;  // (A, B) -> C, (C, D) -> E
    const int a = g.tensor(outer), b = g.tensor(outer), c = g.tensor(between), d = g.tensor(outer), e = g.tensor(outer);
    const int ge = g.tensor(outer), gc = g.tensor(between), gd = g.tensor(outer), ga = g.tensor(outer),
              gb = g.tensor(outer);
    const int op1 = g.node({a, b}, c), op2 = g.node({c, d}, e);
    const int back_c = g.node({ge, d}, gc), back_d = g.node({ge, c}, gd);
    const int back_a = g.node({gc, b}, ga), back_b = g.node({gc, a}, gb);
    g.graph.outputs = {e, gd, ga, gb};
    EXPECT_EQ(operatorPairText(g.graph, c, op2), "Many+Many");
    return profitOf(g.graph, {op1, op2, back_c, back_d, back_a, back_b},
                    {{op1, op2}, {op1, back_d}, {back_c, back_a}, {back_c, back_b}}, kMachine);
  };
  EXPECT_EQ(profit(100, 90).saved_bytes, 6 * 100 - 4 * 90);
  EXPECT_LT(profit(100, 160).saved_bytes, 0);
  EXPECT_EQ(profit(100, 90).repeated_flops, 100 + 100);  // one forwards, one backwards
  EXPECT_EQ(profit(100, 90).saved_launches, 2);
}

TEST(ProfitTest, WhatOthersReadStaysInMemory) {
  Graph g;
  const int a = g.tensor(5), b = g.tensor(7), c = g.tensor(11), d = g.tensor(13);
  const int op1 = g.node({a}, b), op2 = g.node({b}, c);
  g.node({b}, d);
  g.graph.outputs = {c, d};
  // The reader inside the kernel does not load it, but it is written for the other reader.
  EXPECT_EQ(profitOf(g.graph, {op1, op2}, {{op1, op2}}, kMachine).saved_bytes, 7);
}

TEST(ProfitTest, ComputedAtEveryReadPointItLoses) {
  Graph g;  // a row that each of 1000 rows reads
  const int a = g.tensor(100), row = g.tensor(100), x = g.tensor(100'000), y = g.tensor(100'000);
  const int makes = g.node({a}, row), reads = g.node({x, row}, y);
  g.graph.outputs = {y};
  constexpr PeakMachine machine{.bytes_per_second = 1e9, .flops_per_second = 1e9, .launch_seconds = 1e-6};
  const Profit once = profitOf(g.graph, {makes, reads}, {{makes, reads}}, machine);
  EXPECT_GT(once.seconds, 0);
  const Profit each = profitOf(g.graph, {makes, reads}, {{makes, reads}}, machine, {1000, 1});
  EXPECT_EQ(each.repeated_flops, 999 * 100);
  EXPECT_LT(each.seconds, 0);
  EXPECT_THAT(describe("One+Many", each), HasSubstr("One+Many would lose at least"));
}

}  // namespace
}  // namespace tessera::compiler::fusion
