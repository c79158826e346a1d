// Sums with few results are split into parts that cores share; the results are the same either way.
#include "compiler/graph/rewrites/split_sums.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "compiler/graph/graph.h"
#include "compiler/graph/testing/model_builder.h"
#include "compiler/graph/testing/plan_check.h"
#include "gtest/gtest.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using testing::HasSubstr;

class SplitSumsTest : public PlanTest {
 protected:
  SplitSumsTest() {
    cores(4);
    target_.mutable_units(0)->set_ops_per_cycle(1);  // sums of thousands are worth splitting
  }

  void cores(int count) {
    if (target_.units().empty()) target_.add_units();
    target_.mutable_units(0)->set_count(count);
  }

  static std::vector<v1::Decision> splits(const PlannedGraph& planned) {
    std::vector<v1::Decision> found;
    for (const v1::Decision& decision : planned.plan.report().decisions())
      if (decision.kind() == "split") found.push_back(decision);
    return found;
  }
  static int taken(const PlannedGraph& planned) {
    const auto all = splits(planned);
    return static_cast<int>(std::ranges::count(all, true, &v1::Decision::taken));
  }
  static std::string summaries(const PlannedGraph& planned) {
    std::string all;
    for (const v1::Workload& workload : planned.plan.workloads()) absl::StrAppend(&all, workload.summary(), "\n");
    return all;
  }
  /// A matrix combined along its first dimension or its second one.
  static std::string reduction(const std::string& type, const std::string& combiner, const std::string& start,
                               int64_t rows, int64_t columns, bool along_rows) {
    return absl::Substitute(R"(
      #in = affine_map<(i, j) -> (i, j)>
      #out = affine_map<(i, j) -> ($6)>
      func.func @main(%x: tensor<$3x$4x$0>) -> tensor<$5x$0> {
        %start = arith.constant $2 : $0
        %empty = tensor.empty() : tensor<$5x$0>
        %init = linalg.fill ins(%start : $0) outs(%empty : tensor<$5x$0>) -> tensor<$5x$0>
        %r = linalg.generic {indexing_maps = [#in, #out], iterator_types = [$7]}
            ins(%x : tensor<$3x$4x$0>) outs(%init : tensor<$5x$0>) {
        ^bb0(%a: $0, %o: $0):
          %next = arith.$1 %o, %a : $0
          linalg.yield %next : $0
        } -> tensor<$5x$0>
        return %r : tensor<$5x$0>
      })",
                            type, combiner, start, rows, columns, along_rows ? columns : rows, along_rows ? "j" : "i",
                            along_rows ? "\"reduction\", \"parallel\"" : "\"parallel\", \"reduction\"");
  }
};

TEST_F(SplitSumsTest, EveryCoreGetsAPart) {
  PlannedGraph planned = checkText(reduction("f32", "addf", "0.0", 1, 40000, false));
  const auto all = splits(planned);
  ASSERT_EQ(all.size(), 1);
  EXPECT_TRUE(all[0].taken());
  EXPECT_EQ(all[0].unit(), "us");
  EXPECT_LT(all[0].cost(), all[0].alternative_cost());
  EXPECT_THAT(all[0].reason(), HasSubstr("1 results of sums of 40000 steps are 1 pieces for 4 cores"));
  EXPECT_THAT(summaries(planned), HasSubstr("reduce(add) 1x4x10000"));
}

TEST_F(SplitSumsTest, NoLaneAddsTooManyOneAfterAnother) {
  cores(1);  // for precision, not for parallelism
  const PlannedGraph many = checkText(reduction("f32", "addf", "0.0", 40000, 16, true));
  EXPECT_THAT(summaries(many), HasSubstr("reduce(add) 40x1000x16 "));
  EXPECT_TRUE(splits(many).empty());
  // Few enough additions; lanes that share them; an operation without rounding.
  for (const std::string& text :
       {reduction("f32", "addf", "0.0", 16384, 16, true), reduction("f32", "addf", "0.0", 16, 40000, false),
        reduction("f32", "maximumf", "0xFF800000", 40000, 16, true), reduction("i32", "addi", "0", 40000, 16, true),
        reduction("f64", "addf", "0.0", 40000, 16, true)})
    EXPECT_THAT(summaries(checkText(text)), ::testing::Not(HasSubstr("40x1000"))) << text;
}

TEST_F(SplitSumsTest, EverySumThatHasANeutralElement) {
  struct Combined {
    std::string type, combiner, start;
  };
  const std::vector<Combined> kinds = {{"f32", "addf", "0.5"},   {"f32", "maximumf", "-1.0"}, {"f32", "minnumf", "0.1"},
                                       {"f64", "addf", "0.0"},   {"f64", "minimumf", "1.0"},  {"i32", "addi", "3"},
                                       {"i64", "maxsi", "-5"},   {"i8", "minsi", "7"},        {"i32", "muli", "1"},
                                       {"i32", "andi", "65535"}, {"i32", "xori", "9"}};
  // A prime length leaves a remainder for any number of parts.
  for (const Combined& each : kinds) {
    for (auto [rows, columns] : {std::pair<int64_t, int64_t>{2, 40009}, {1, 65536}}) {
      SCOPED_TRACE(absl::StrCat(each.type, " ", each.combiner, " of ", columns));
      EXPECT_EQ(taken(checkText(reduction(each.type, each.combiner, each.start, rows, columns, false))), 1);
      EXPECT_EQ(taken(checkText(reduction(each.type, each.combiner, each.start, columns, rows, true))), 1);
    }
  }
}

// An integer product is the same in any order; a float one may overflow in between.
TEST_F(SplitSumsTest, ProductsOfFloatsStayWhole) {
  EXPECT_TRUE(splits(checkText(reduction("f32", "mulf", "1.0", 1, 40000, false))).empty());
}

TEST_F(SplitSumsTest, ProductsOfLongRowsAndFewColumns) {
  for (const int64_t steps : {4096, 5003}) {
    for (const bool constant : {false, true}) {
      SCOPED_TRACE(absl::StrCat(steps, constant ? " constant" : ""));
      ModelBuilder b(context_);
      Value x = b.input({3, steps});
      Value y = constant ? b.weight({steps, 5}) : b.input({steps, 5});
      PlannedGraph planned = check(b.finish({b.relu(b.matmul(x, y))}));
      EXPECT_EQ(taken(planned), 1);
    }
  }
}

// A normalization with few sums: each of them is split, following operations are not.
TEST_F(SplitSumsTest, NormalizationsOfOneRow) {
  for (const int64_t extent : {20000, 20011}) {
    ModelBuilder b(context_);
    Value x = b.input({1, extent});
    EXPECT_GE(taken(check(b.finish({b.layerNorm(x)}))), 2);
    ModelBuilder c(context_);
    EXPECT_EQ(taken(check(c.finish({c.softmax(c.input({1, extent}))}))), 2);
  }
}

TEST_F(SplitSumsTest, WhatAllCoresShareStaysWhole) {
  // Enough rows for each core; short sums; one core.
  EXPECT_EQ(taken(checkText(reduction("f32", "addf", "0.0", 64, 4000, false))), 0);
  EXPECT_EQ(taken(checkText(reduction("f32", "addf", "0.0", 1, 100, false))), 0);
  cores(1);
  EXPECT_TRUE(splits(checkText(reduction("f32", "addf", "0.0", 1, 40000, false))).empty());
}

// Windows would overlap if one of their loops were cut.
TEST_F(SplitSumsTest, WindowsStayWhole) {
  ModelBuilder b(context_);
  Value x = b.input({1, 1, 80, 80});
  EXPECT_EQ(taken(check(b.finish({b.conv(x, 1, {.kernel = 65})}))), 0);
}

TEST_F(SplitSumsTest, APinDecides) {
  const std::string text = reduction("f32", "addf", "0.0", 1, 40000, false);
  PlannedGraph free = checkText(text);
  auto choice = std::ranges::find(free.plan.report().choices(), "split", &v1::Choice::kind);
  ASSERT_NE(choice, free.plan.report().choices().end());
  EXPECT_EQ(choice->choice(), "4");
  options_.pins = {*choice};
  options_.pins[0].set_choice("whole");
  PlannedGraph whole = checkText(text);
  ASSERT_EQ(splits(whole).size(), 1);
  EXPECT_FALSE(splits(whole)[0].taken());
  EXPECT_THAT(splits(whole)[0].reason(), HasSubstr("; pinned"));
  options_.pins[0].set_choice("7");
  EXPECT_THAT(summaries(checkText(text)), HasSubstr("reduce(add) 1x7x5714"));
  options_.pins[0].set_choice("many");
  absl::StatusOr<PlannedGraph> refused = planGraph(parse(text), target_, options_);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("no such number of parts"));
}

}  // namespace
}  // namespace tessera::compiler
