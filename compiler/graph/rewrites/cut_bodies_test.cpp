// Long bodies are cut if they would spill; the results are the same either way.
#include "compiler/graph/rewrites/cut_bodies.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "compiler/graph/graph.h"
#include "compiler/graph/testing/plan_check.h"
#include "gtest/gtest.h"

namespace tessera::compiler {
namespace {

using testing::HasSubstr;

class CutBodiesTest : public PlanTest {
 protected:
  CutBodiesTest() { registers(16); }

  void registers(int count) {
    target_.mutable_registers()->set_vector_bits(512);
    target_.mutable_registers()->set_vector_count(count);
  }

  /// A part multiplies operands `first` to `first + width - 1` by the previous part's result, adds the products, and
  /// sums each product relative to that sum. It leaves `values` values for the next part.
  struct Part {
    int first = 0, width = 0, values = 1;
  };
  /// All parts on the same operands: between two of them one value and the operands are live.
  static std::string waists(int width, int parts, const std::string& shape) {
    return waists(std::vector<Part>(parts, Part{.width = width}), width, shape);
  }
  static std::string waists(const std::vector<Part>& parts, int width, const std::string& shape) {
    const std::string type = absl::StrCat("tensor<", shape, "xf32>");
    std::string arguments, inputs, types, scalars, maps;
    for (int i = 0; i < width; ++i) {
      const std::string comma = i == 0 ? "" : ", ";
      absl::StrAppend(&arguments, comma, "%x", i, ": ", type);
      absl::StrAppend(&inputs, comma, "%x", i);
      absl::StrAppend(&types, comma, type);
      absl::StrAppend(&scalars, "%a", i, ": f32, ");
      absl::StrAppend(&maps, "#id, ");
    }
    std::string text = absl::StrCat("#id = affine_map<(i, j) -> (i, j)>\nfunc.func @main(", arguments, ") -> ", type,
                                    " {\n  %e = tensor.empty() : ", type, "\n  %r = linalg.generic {indexing_maps = [",
                                    maps, "#id], iterator_types = [\"parallel\", \"parallel\"]} ins(", inputs, " : ",
                                    types, ") outs(%e : ", type, ") {\n  ^bb0(", scalars,
                                    "%o: f32):\n    %last = arith.constant 1.5 : f32\n");
    std::vector<std::string> left = {"%last"};
    for (const Part& part : parts) {
      const std::string p = absl::StrCat("p", &part - parts.data(), "_");
      for (int i = 0; i < part.width; ++i) {
        absl::StrAppend(&text, "    %", p, "v", i, " = arith.mulf %a", part.first + i, ", ", left[0], " : f32\n");
      }
      std::string sum = absl::StrCat("%", p, "v0");
      for (int i = 1; i < part.width; ++i) {
        absl::StrAppend(&text, "    %", p, "s", i, " = arith.addf ", sum, ", %", p, "v", i, " : f32\n");
        sum = absl::StrCat("%", p, "s", i);
      }
      // Further values of the previous part join the sum.
      for (size_t k = 1; k < left.size(); ++k) {
        absl::StrAppend(&text, "    %", p, "j", k, " = arith.addf ", sum, ", ", left[k], " : f32\n");
        sum = absl::StrCat("%", p, "j", k);
      }
      left.assign(part.values, sum);
      const std::vector<std::string> ways = {"addf", "maximumf", "minimumf"};
      for (int i = 0; i < part.width; ++i) {
        absl::StrAppend(&text, "    %", p, "q", i, " = arith.maximumf %", p, "v", i, ", ", sum, " : f32\n");
        for (size_t k = 0; k < left.size(); ++k) {
          const std::string next = absl::StrCat("%", p, "t", k, "_", i);
          absl::StrAppend(&text, "    ", next, " = arith.", ways[k], " ", left[k], ", %", p, "q", i, " : f32\n");
          left[k] = next;
        }
      }
    }
    const std::string from = left[0];
    return absl::StrCat(text, "    linalg.yield ", from, " : f32\n  } -> ", type, "\n  return %r : ", type, "\n}\n");
  }

  static std::vector<v1::Decision> cuts(const PlannedGraph& planned) {
    std::vector<v1::Decision> found;
    for (const v1::Decision& decision : planned.plan.report().decisions())
      if (decision.kind() == "cut") found.push_back(decision);
    return found;
  }
  static int generics(const PlannedGraph& planned) {
    int count = 0;
    for (const v1::Workload& workload : planned.plan.workloads())
      for (size_t at = workload.ir().find("linalg.generic"); at != std::string::npos;
           at = workload.ir().find("linalg.generic", at + 1))
        ++count;
    return count;
  }
};

TEST_F(CutBodiesTest, WhatFitsStaysWhole) {
  PlannedGraph planned = checkText(waists(6, 2, "7x5"));  // six operands, six products, sums
  EXPECT_TRUE(cuts(planned).empty());
  EXPECT_EQ(generics(planned), 1);
}

// Each part alone fits: both share one value, and the operands, which are read again.
TEST_F(CutBodiesTest, TheCutIsWhereFewestLive) {
  for (const std::string shape : {"1x1", "7x13", "64x33"}) {
    PlannedGraph planned = checkText(waists(12, 2, shape));
    const auto all = cuts(planned);
    ASSERT_EQ(all.size(), 1);
    EXPECT_TRUE(all[0].taken()) << all[0].reason();
    EXPECT_THAT(all[0].reason(), HasSubstr("1 crosses"));
    EXPECT_EQ(all[0].cost(), 2 + 12);
    EXPECT_EQ(all[0].unit(), "values");
    EXPECT_LT(all[0].cost(), all[0].alternative_cost());
    EXPECT_THAT(all[0].reason(), HasSubstr("values are alive at once for 16 registers"));
    EXPECT_EQ(generics(planned), 2);
    EXPECT_EQ(planned.plan.steps_size(), 1);  // still one group
  }
}

// The first part of a cut returns two values and is cut again.
TEST_F(CutBodiesTest, APartOfSeveralResultsIsCutAgain) {
  registers(46);
  for (const std::string shape : {"1x1", "7x13"}) {
    PlannedGraph planned = checkText(waists({{0, 32, 3}, {0, 32, 1}, {32, 40, 2}, {32, 40, 1}}, 72, shape));
    const auto all = cuts(planned);
    ASSERT_GE(all.size(), 2) << all[0].reason();
    EXPECT_THAT(all[0].reason(), HasSubstr("2 cross"));
    EXPECT_THAT(all[1].reason(), HasSubstr("3 cross"));
    EXPECT_TRUE(all[0].taken() && all[1].taken()) << all[0].reason() << "\n" << all[1].reason();
    EXPECT_GE(generics(planned), 3);
  }
}

// The same chip with twice the registers does not cut.
TEST_F(CutBodiesTest, RegistersAreTheChips) {
  registers(32);
  PlannedGraph planned = checkText(waists(12, 2, "7x13"));
  EXPECT_TRUE(cuts(planned).empty());
}

// Spilling a few values is cheaper than reading all operands again.
TEST_F(CutBodiesTest, WhatWouldMoveMoreIsNotCut) {
  PlannedGraph planned = checkText(waists(8, 2, "7x13"));
  const auto all = cuts(planned);
  ASSERT_EQ(all.size(), 1);
  EXPECT_FALSE(all[0].taken()) << all[0].reason();
  EXPECT_EQ(generics(planned), 1);
}

TEST_F(CutBodiesTest, APinDecides) {
  const std::string text = waists(12, 2, "7x13");
  PlannedGraph free = checkText(text);
  ASSERT_GE(free.plan.report().choices_size(), 1);
  v1::Choice pin = free.plan.report().choices(0);
  EXPECT_EQ(pin.kind(), "cut");
  EXPECT_EQ(pin.choice(), "apart");
  pin.set_choice("fused");
  options_.pins = {pin};
  PlannedGraph pinned = checkText(text);
  ASSERT_EQ(cuts(pinned).size(), 1);
  EXPECT_THAT(cuts(pinned)[0].reason(), HasSubstr("; pinned"));
  EXPECT_EQ(generics(pinned), 1);
}

}  // namespace
}  // namespace tessera::compiler
