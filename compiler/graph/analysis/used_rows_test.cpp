#include "compiler/graph/analysis/used_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler {
namespace {

/// Finds values by the name of their location, as in loc("y").
class RowsTest : public testing::Test {
 protected:
  RowsTest() {
    context_.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                         mlir::tensor::TensorDialect>();
  }

  /// Analyses a function whose first argument has 8 rows along its first dimension, like its first result along
  /// dimension `of_result`. Its last argument and last result are the extent.
  void find(const std::string& text, int of_result = 0) {
    model_.module = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    ASSERT_TRUE(model_.module);
    v1::DimensionBinding& dimension = model_.dimensions.emplace_back();
    dimension.set_name("N");
    dimension.set_size(-8);
    auto main = mlir::cast<mlir::func::FuncOp>(mlir::SymbolTable::lookupSymbolIn(*model_.module, "main"));
    for (size_t i = 0; i < main.getNumArguments(); ++i) model_.inputs.emplace_back();
    model_.inputs[0].add_bounded_dims(0);
    model_.inputs[0].add_bounded_by(0);
    argument_ = main.getArgument(0);
    model_.inputs.back().set_name("N");
    for (size_t i = 0; i + 1 < main.getNumResults(); ++i) model_.outputs.emplace_back();
    model_.extents.push_back({0, of_result});
    facts_.emplace(model_, main);
  }
  /// Analyses a function with two ranges, H of 8 and W of 6: the last arguments are their sizes, the last result the
  /// extent along dimension 0 of the only other result.
  void findOfTwo(const std::string& text) {
    model_.module = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    ASSERT_TRUE(model_.module);
    auto main = mlir::cast<mlir::func::FuncOp>(mlir::SymbolTable::lookupSymbolIn(*model_.module, "main"));
    for (size_t i = 0; i < main.getNumArguments(); ++i) model_.inputs.emplace_back();
    for (int d = 0; d < 2; ++d) {
      v1::DimensionBinding& dimension = model_.dimensions.emplace_back();
      dimension.set_name(d == 0 ? "H" : "W");
      dimension.set_size(d == 0 ? -8 : -6);
      model_.inputs[0].add_bounded_dims(d);
      model_.inputs[0].add_bounded_by(d);
      model_.inputs[model_.inputs.size() - 2 + static_cast<size_t>(d)].set_name(dimension.name());
    }
    argument_ = main.getArgument(0);
    model_.outputs.emplace_back();
    model_.extents.push_back({0, 0});
    facts_.emplace(model_, main);
  }
  static int64_t strideOf(llvm::ArrayRef<UsedRows> rows) { return rows.empty() ? 0 : rows[0].stride; }
  mlir::Operation* named(const std::string& name) {
    mlir::Operation* result = nullptr;
    model_.module->walk([&](mlir::Operation* op) {
      auto location = mlir::dyn_cast<mlir::NameLoc>(op->getLoc());
      if (location && location.getName() == name && op->getNumResults() > 0) result = op;
    });
    return result;
  }
  /// 0: no rows.
  int64_t strideOf(const std::string& name) { return strideOf(facts_->of(named(name)->getResult(0))); }
  int64_t strideOfArgument() const { return strideOf(facts_->of(argument_)); }

  static UsedRowCounts upTo(int64_t count, int64_t most) {
    auto needed = std::make_shared<std::vector<int64_t>>();
    for (int64_t n = 0; n <= most; ++n) needed->push_back(std::clamp<int64_t>(n, 1, count));
    return needed;
  }
  /// For a run with h of 8 and w of 6.
  static int64_t neededOf(const UsedRows& rows, int64_t h, int64_t w) {
    if (rows.isOfOne()) return (*rows.needed)[static_cast<size_t>(rows.ranges == 1 ? h : w)];
    return (h * w * rows.count + 47) / 48 + rows.slack;
  }

  mlir::MLIRContext context_;
  ImportedModel model_;
  std::optional<UsedRowAnalysis> facts_;
  mlir::Value argument_;
};

TEST_F(RowsTest, FollowViewsProductsAndTransposes) {
  find(
      R"(func.func @main(%x: tensor<8x3x5xf32>, %w: tensor<5x7xf32>, %n: tensor<i64>) -> (tensor<7x8x3xf32>, tensor<i64>) {
    %flat = tensor.collapse_shape %x [[0, 1], [2]] : tensor<8x3x5xf32> into tensor<24x5xf32> loc("flat")
    %e = tensor.empty() : tensor<24x7xf32>
    %y = linalg.matmul ins(%flat, %w : tensor<24x5xf32>, tensor<5x7xf32>) outs(%e : tensor<24x7xf32>) -> tensor<24x7xf32> loc("y")
    %f = tensor.empty() : tensor<7x24xf32>
    %t = linalg.transpose ins(%y : tensor<24x7xf32>) outs(%f : tensor<7x24xf32>) permutation = [1, 0] loc("t")
    %r = tensor.expand_shape %t [[0], [1, 2]] output_shape [7, 8, 3] : tensor<7x24xf32> into tensor<7x8x3xf32> loc("r")
    return %r, %n : tensor<7x8x3xf32>, tensor<i64>
  })",
      1);
  EXPECT_EQ(strideOfArgument(), 15);
  EXPECT_EQ(strideOf("flat"), 15);
  EXPECT_EQ(strideOf("y"), 21);
  EXPECT_EQ(strideOf("t"), 3);
  const mlir::Value t = named("r")->getResult(0);
  EXPECT_EQ(facts_->minIndices(t, 0), 7);
  EXPECT_EQ(facts_->minIndices(t, 1), 1);
  EXPECT_EQ(facts_->minIndices(t, 2), 3);
  model_.least["N"] = 5;  // smaller runs use another variant
  EXPECT_EQ(facts_->minIndices(t, 1), 5);
}

TEST_F(RowsTest, SlicesAndPadsOfOtherDimensionsKeepThem) {
  find(R"(func.func @main(%x: tensor<8x6xf32>, %n: tensor<i64>) -> (tensor<8x6xf32>, tensor<i64>) {
    %c = arith.constant 0.0 : f32
    %s = tensor.extract_slice %x[0, 2] [8, 4] [1, 1] : tensor<8x6xf32> to tensor<8x4xf32> loc("s")
    %p = tensor.pad %s low[0, 1] high[0, 1] {
    ^bb0(%i: index, %j: index):
      tensor.yield %c : f32
    } : tensor<8x4xf32> to tensor<8x6xf32> loc("p")
    return %p, %n : tensor<8x6xf32>, tensor<i64>
  })");
  EXPECT_EQ(strideOf("s"), 4);
  EXPECT_EQ(strideOf("p"), 6);
}

TEST_F(RowsTest, ASumOverRowsNeedsWhateverItIsMadeOf) {
  find(R"(func.func @main(%x: tensor<8x6xf32>, %n: tensor<i64>) -> (tensor<8x6xf32>, tensor<6xf32>, tensor<i64>) {
    %e = tensor.empty() : tensor<8x6xf32>
    %a = linalg.add ins(%x, %x : tensor<8x6xf32>, tensor<8x6xf32>) outs(%e : tensor<8x6xf32>) -> tensor<8x6xf32> loc("a")
    %b = linalg.add ins(%a, %a : tensor<8x6xf32>, tensor<8x6xf32>) outs(%e : tensor<8x6xf32>) -> tensor<8x6xf32> loc("b")
    %f = tensor.empty() : tensor<6xf32>
    %s = linalg.reduce ins(%a : tensor<8x6xf32>) outs(%f : tensor<6xf32>) dimensions = [0]
      (%in: f32, %out: f32) {
        %sum = arith.addf %in, %out : f32
        linalg.yield %sum : f32
      } loc("s")
    return %b, %s, %n : tensor<8x6xf32>, tensor<6xf32>, tensor<i64>
  })");
  EXPECT_EQ(strideOf("s"), 0);
  EXPECT_EQ(strideOf("a"), 0);
  EXPECT_EQ(strideOfArgument(), 0);
  EXPECT_EQ(strideOf("b"), 6);
}

TEST_F(RowsTest, WhatAddressesComeOfIsThereAsAWhole) {
  const std::string text =
      R"(func.func @main(%x: tensor<8xi64>, %table: tensor<9x4xf32>, %n: tensor<i64>) -> (tensor<8x4xf32>, tensor<i64>) {
    %e = tensor.empty() : tensor<8xi64>
    %i = linalg.add ins(%x, %x : tensor<8xi64>, tensor<8xi64>) outs(%e : tensor<8xi64>) -> tensor<8xi64> loc("i")
    %f = tensor.empty() : tensor<8x4xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a, b)>],
                         iterator_types = ["parallel", "parallel"]}
        ins(%i : tensor<8xi64>) outs(%f : tensor<8x4xf32>) {
    ^bb0(%number: i64, %out: f32):
      %at = arith.index_cast %number : i64 to index
      %column = linalg.index 1 : index
      %v = tensor.extract %table[%at, %column] : tensor<9x4xf32>
      linalg.yield %v : f32
    } -> tensor<8x4xf32> loc("y")
    return %y, %n : tensor<8x4xf32>, tensor<i64>
  })";
  find(text);
  EXPECT_EQ(strideOf("i"), 0);
  EXPECT_EQ(strideOf("y"), 4);  // still rows, which may be left out
}

TEST_F(RowsTest, AnAddressThatIsTheSameForAllRowsNeedsNoneOfThem) {
  find(R"(func.func @main(%x: tensor<8x4xf32>, %last: tensor<i64>, %n: tensor<i64>) -> (tensor<8xf32>, tensor<i64>) {
    %f = tensor.empty() : tensor<8xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
        outs(%f : tensor<8xf32>) {
    ^bb0(%out: f32):
      %row = linalg.index 0 : index
      %number = tensor.extract %last[] : tensor<i64>
      %at = arith.index_cast %number : i64 to index
      %v = tensor.extract %x[%row, %at] : tensor<8x4xf32>
      linalg.yield %v : f32
    } -> tensor<8xf32> loc("y")
    return %y, %n : tensor<8xf32>, tensor<i64>
  })");
  EXPECT_EQ(strideOfArgument(), 4);
  EXPECT_EQ(strideOf("y"), 1);
}

TEST_F(RowsTest, ABodyThatReadsAtPositionsReadsItsRow) {
  find(R"(func.func @main(%x: tensor<8x4xf32>, %n: tensor<i64>) -> (tensor<8x8xf32>, tensor<i64>) {
    %f = tensor.empty() : tensor<8x8xf32>
    %two = arith.constant 2 : index
    %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
        outs(%f : tensor<8x8xf32>) {
    ^bb0(%out: f32):
      %row = linalg.index 0 : index
      %column = linalg.index 1 : index
      %half = arith.divui %column, %two : index
      %v = tensor.extract %x[%row, %half] : tensor<8x4xf32>
      linalg.yield %v : f32
    } -> tensor<8x8xf32> loc("y")
    return %y, %n : tensor<8x8xf32>, tensor<i64>
  })");
  EXPECT_EQ(strideOfArgument(), 4);
  EXPECT_EQ(strideOf("y"), 8);
}

/// Pixels of an image of H x W in one dimension, with EXTENT used ones, looked up one by one.
constexpr char kPixels[] = R"(
  func.func @main(%x: tensor<8x6x4xf32>, %h: tensor<i64>, %w: tensor<i64>) -> (tensor<48x4xf32>, tensor<i64>) {
    %one = arith.constant 1 : i64
    %two = arith.constant dense<2> : tensor<i64>
    %three = arith.constant dense<3> : tensor<i64>
    %f = tensor.empty() : tensor<48x4xf32>
    %flat = linalg.generic {indexing_maps = [affine_map<(p, c) -> (p, c)>], iterator_types = ["parallel", "parallel"]}
        outs(%f : tensor<48x4xf32>) {
    ^bb0(%out: f32):
      %p = linalg.index 0 : index
      %c = linalg.index 1 : index
      %at = arith.index_cast %p : index to i64
      %height = tensor.extract %h[] : tensor<i64>
      %width = tensor.extract %w[] : tensor<i64>
      %some = arith.maxsi %width, %one : i64
      %column = arith.remsi %at, %some : i64
      %row = arith.divsi %at, %some : i64
      %last = arith.subi %height, %one : i64
      %held = arith.minsi %row, %last : i64
      %i = arith.index_cast %held : i64 to index
      %j = arith.index_cast %column : i64 to index
      %v = tensor.extract %x[%i, %j, %c] : tensor<8x6x4xf32>
      linalg.yield %v : f32
    } -> tensor<48x4xf32> loc("flat")
    %y = linalg.add ins(%flat, %flat : tensor<48x4xf32>, tensor<48x4xf32>) outs(%f : tensor<48x4xf32>) -> tensor<48x4xf32> loc("y")
    EXTENT
    return %y, %n : tensor<48x4xf32>, tensor<i64>
  })";

std::string pixels(const std::string& extent) {
  std::string text = kPixels;
  return text.replace(text.find("EXTENT"), 6, extent);
}

TEST_F(RowsTest, PixelsInOneDimensionFollowBothRanges) {
  findOfTwo(pixels("%n = arith.muli %h, %w : tensor<i64>"));
  const UsedRows both{.ranges = 3, .stride = 4, .count = 48};
  EXPECT_THAT(facts_->of(named("y")->getResult(0)), testing::ElementsAre(both));
  EXPECT_THAT(facts_->of(named("flat")->getResult(0)), testing::ElementsAre(both));
  // The used rows and columns of the image.
  EXPECT_THAT(facts_->of(argument_),
              testing::UnorderedElementsAre(UsedRows{.ranges = 1, .stride = 24, .count = 8, .needed = upTo(8, 8)},
                                            UsedRows{.ranges = 2, .stride = 4, .count = 6, .needed = upTo(6, 6)}));
}

TEST_F(RowsTest, ASumOfProductsNeedsNoMoreThanItsSlackBesideItsPart) {
  // A token before the pixels, and half of the columns, rounded down: 1 + h * (w / 2) of at most 25.
  findOfTwo(
      pixels("%half = arith.divsi %w, %two : tensor<i64>\n %m = arith.muli %h, %half : tensor<i64>\n"
             "%o = arith.constant dense<1> : tensor<i64>\n %n = arith.addi %m, %o : tensor<i64>"));
  const llvm::ArrayRef<UsedRows> rows = facts_->of(named("y")->getResult(0));
  ASSERT_EQ(rows.size(), 1U);
  int64_t slack = 0;
  for (int64_t h = 0; h <= 8; ++h)
    for (int64_t w = 0; w <= 6; ++w) slack = std::max(slack, 1 + h * (w / 2) - h * w);
  EXPECT_EQ(rows[0], (UsedRows{.ranges = 3, .stride = 4, .count = 48, .slack = slack}));
}

TEST_F(RowsTest, WhatIsDividedByARangeFollowsTheOtherOne) {
  findOfTwo(
      pixels("%m = arith.muli %h, %w : tensor<i64>\n %k = arith.muli %m, %three : tensor<i64>\n"
             "%n = arith.divsi %k, %w : tensor<i64>"));
  // 3 * h of 48, for w = 0 as well.
  const llvm::ArrayRef<UsedRows> rows = facts_->of(named("y")->getResult(0));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].ranges & 1, 1U);
  for (int64_t h = 1; h <= 8; ++h) EXPECT_GE(neededOf(rows[0], h, 1), 3 * h);
}

TEST_F(RowsTest, TheFirstRowsAreThereInAnyRun) {
  std::string text = pixels(
      "%n = arith.muli %h, %w : tensor<i64>\n"
      "%s = tensor.extract_slice %flat[0, 0] [5, 4] [1, 1] : tensor<48x4xf32> to tensor<5x4xf32>");
  text.replace(text.find("-> (tensor<48x4xf32>, "), 22, "-> (tensor<48x4xf32>, tensor<5x4xf32>, ");
  text.replace(text.find("return %y, %n : tensor<48x4xf32>, "), 34,
               "return %y, %s, %n : tensor<48x4xf32>, tensor<5x4xf32>, ");
  model_.outputs.emplace_back();
  findOfTwo(text);
  EXPECT_THAT(facts_->of(named("flat")->getResult(0)),
              testing::ElementsAre(UsedRows{.ranges = 3, .stride = 4, .count = 48, .slack = 5}));
  EXPECT_THAT(facts_->of(named("y")->getResult(0)),
              testing::ElementsAre(UsedRows{.ranges = 3, .stride = 4, .count = 48}));
}

/// Scores of rows with rows, a mask, the maximum of each row, and scores minus the maximum.
constexpr char kAttention[] = R"(
  #row = affine_map<(q, k) -> (q, k)>
  #one = affine_map<(q, k) -> (q)>
  func.func @main(%x: tensor<8x4xf32>, %n: tensor<i64>) -> (tensor<8x8xf32>, tensor<i64>) {
    %low = arith.constant -1.0e30 : f32
    %e = tensor.empty() : tensor<8x8xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(q, k, d) -> (q, d)>, affine_map<(q, k, d) -> (k, d)>,
                                          affine_map<(q, k, d) -> (q, k)>],
                         iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%x, %x : tensor<8x4xf32>, tensor<8x4xf32>) outs(%e : tensor<8x8xf32>) {
    ^bb0(%a: f32, %b: f32, %out: f32):
      %p = arith.mulf %a, %b : f32
      %t = arith.addf %p, %out : f32
      linalg.yield %t : f32
    } -> tensor<8x8xf32> loc("scores")
    %m = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
        ins(%s : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
    ^bb0(%a: f32, %out: f32):
      %k = linalg.index MASKED : index
      %at = arith.index_cast %k : index to i64
      %count = tensor.extract %n[] : tensor<i64>
      %in = arith.cmpi slt, %at, %count : i64
      %v = arith.select %in, %a, %low : f32
      linalg.yield %v : f32
    } -> tensor<8x8xf32> loc("masked")
    %f = tensor.empty() : tensor<8xf32>
    %g = linalg.generic {indexing_maps = [#row, #one], iterator_types = ["parallel", "reduction"]}
        ins(%m : tensor<8x8xf32>) outs(%f : tensor<8xf32>) {
    ^bb0(%a: f32, %out: f32):
      %v = arith.maximumf %a, %out : f32
      linalg.yield %v : f32
    } -> tensor<8xf32> loc("greatest")
    %y = linalg.generic {indexing_maps = [#row, #one, #row], iterator_types = ["parallel", "parallel"]}
        ins(%m, %g : tensor<8x8xf32>, tensor<8xf32>) outs(%e : tensor<8x8xf32>) {
    ^bb0(%a: f32, %b: f32, %out: f32):
      %v = arith.subf %a, %b : f32
      linalg.yield %v : f32
    } -> tensor<8x8xf32> loc("y")
    return %y, %n : tensor<8x8xf32>, tensor<i64>
  })";

std::string attention(const std::string& masked) {
  std::string text = kAttention;
  return text.replace(text.find("MASKED"), 6, masked);
}

TEST_F(RowsTest, OfWhatAMaskClearsTheRowsInFrontOfItAreNeeded) {
  find(attention("1"));
  using testing::UnorderedElementsAre;
  const auto of = [&](const std::string& name) { return facts_->of(named(name)->getResult(0)).vec(); };
  EXPECT_THAT(of("y"), UnorderedElementsAre(UsedRows{1, 8, 8}));
  EXPECT_THAT(of("greatest"), UnorderedElementsAre(UsedRows{1, 1, 8}));
  // Keys beyond the extent are read after the mask.
  EXPECT_THAT(of("masked"), UnorderedElementsAre(UsedRows{1, 8, 8}));
  EXPECT_THAT(of("scores"), UnorderedElementsAre(UsedRows{1, 8, 8}, UsedRows{1, 1, 8}));
  EXPECT_EQ(strideOfArgument(), 4);

  // Fused, the rows of x are those of y as queries, but every y needs all of them as keys.
  const std::vector<mlir::Operation*> ops = {named("scores"), named("masked"), named("greatest"), named("y")};
  EXPECT_TRUE(facts_->usedByAll(ops, {ops.back()->getResult(0)}).lookup(argument_).empty());
  const UsedRowsOfValues behind = facts_->usedByAll(llvm::ArrayRef(ops).drop_front(), {ops.back()->getResult(0)});
  EXPECT_THAT(behind.lookup(ops[0]->getResult(0)), testing::ElementsAre(UsedRows{1, 8, 8}));
}

TEST_F(RowsTest, AMaskOfOtherRowsLeavesTheSumInNeedOfAll) {
  find(attention("0"));
  EXPECT_EQ(strideOf("y"), 8);
  EXPECT_EQ(strideOf("masked"), 8);
  EXPECT_EQ(strideOfArgument(), 0);
}

TEST_F(RowsTest, AComparisonWithAnotherNumberIsNoMask) {
  std::string text = attention("1");
  const std::string count = "tensor.extract %n[] : tensor<i64>";
  text.replace(text.find(count), count.size(), "arith.constant 7 : i64");
  find(text);
  EXPECT_EQ(strideOfArgument(), 0);
}

TEST_F(RowsTest, AWindowNeedsRowsUpToItsEnd) {
  // Windows of 3 rows of x with stride 2, and a row of padding before the first.
  find(R"(func.func @main(%x: tensor<8x4xf32>, %n: tensor<i64>) -> (tensor<4x4xf32>, tensor<i64>) {
    %zero = arith.constant 0.0 : f32
    %relu = tensor.empty() : tensor<8x4xf32>
    %r = linalg.exp ins(%x : tensor<8x4xf32>) outs(%relu : tensor<8x4xf32>) -> tensor<8x4xf32> loc("r")
    %p = tensor.pad %r low[1, 0] high[0, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %zero : f32
    } : tensor<8x4xf32> to tensor<9x4xf32> loc("p")
    %k = tensor.empty() : tensor<3xf32>
    %e = tensor.empty() : tensor<4x4xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(o, c, k) -> (o * 2 + k, c)>, affine_map<(o, c, k) -> (k)>,
                                          affine_map<(o, c, k) -> (o, c)>],
                         iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%p, %k : tensor<9x4xf32>, tensor<3xf32>) outs(%e : tensor<4x4xf32>) {
    ^bb0(%a: f32, %b: f32, %out: f32):
      %t = arith.addf %a, %out : f32
      linalg.yield %t : f32
    } -> tensor<4x4xf32> loc("y")
    %m = tensor.empty() : tensor<i64>
    %count = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}
        ins(%n : tensor<i64>) outs(%m : tensor<i64>) {
    ^bb0(%size: i64, %out: i64):
      %two = arith.constant 2 : i64
      %half = arith.divsi %size, %two : i64
      linalg.yield %half : i64
    } -> tensor<i64>
    return %y, %count : tensor<4x4xf32>, tensor<i64>
  })");
  const auto needed = [&](mlir::Value value) {
    const auto rows = facts_->of(value);
    return rows.size() == 1 && rows[0].needed ? *rows[0].needed : std::vector<int64_t>();
  };
  const auto result = [&](const std::string& name) { return named(name)->getResult(0); };
  EXPECT_THAT(needed(result("y")), testing::ElementsAre(0, 0, 1, 1, 2, 2, 3, 3, 4));
  EXPECT_THAT(needed(result("p")), testing::ElementsAre(0, 0, 3, 3, 5, 5, 7, 7, 9));
  EXPECT_THAT(needed(result("r")), testing::ElementsAre(0, 0, 2, 2, 4, 4, 6, 6, 8));
  EXPECT_EQ(facts_->of(argument_)[0].stride, 4);
  EXPECT_THAT(needed(argument_), testing::ElementsAre(0, 0, 2, 2, 4, 4, 6, 6, 8));
}

TEST_F(RowsTest, PositionsThatAreHeldInFrontOfAnExtentReadRowsInFrontOfIt) {
  // A table of row positions of x, as in a resize; positions must not depend on unused rows.
  find(R"(func.func @main(%x: tensor<8x4xf32>, %n: tensor<i64>) -> (tensor<16x4xf32>, tensor<i64>) {
    %relu = tensor.empty() : tensor<8x4xf32>
    %r = linalg.exp ins(%x : tensor<8x4xf32>) outs(%relu : tensor<8x4xf32>) -> tensor<8x4xf32> loc("r")
    %t = tensor.empty() : tensor<16xi64>
    %table = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
        outs(%t : tensor<16xi64>) {
    ^bb0(%out: i64):
      %i = linalg.index 0 : index
      %at = arith.index_cast %i : index to i64
      %scaled = arith.muli %at, %at : i64
      %size = tensor.extract %n[] : tensor<i64>
      %one = arith.constant 1 : i64
      %last = arith.subi %size, %one : i64
      %held = arith.minsi %scaled, %last : i64
      linalg.yield %held : i64
    } -> tensor<16xi64> loc("table")
    %e = tensor.empty() : tensor<16x4xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(i, c) -> (i)>, affine_map<(i, c) -> (i, c)>],
                         iterator_types = ["parallel", "parallel"]}
        ins(%table : tensor<16xi64>) outs(%e : tensor<16x4xf32>) {
    ^bb0(%p: i64, %out: f32):
      %zero = arith.constant 0 : i64
      %seven = arith.constant 7 : i64
      %above = arith.maxsi %p, %zero : i64
      %inside = arith.minsi %above, %seven : i64
      %row = arith.index_cast %inside : i64 to index
      %column = linalg.index 1 : index
      %v = tensor.extract %r[%row, %column] : tensor<8x4xf32>
      linalg.yield %v : f32
    } -> tensor<16x4xf32> loc("y")
    return %y, %n : tensor<16x4xf32>, tensor<i64>
  })");
  const auto rows = facts_->of(named("r")->getResult(0));
  ASSERT_EQ(rows.size(), 1U);
  ASSERT_TRUE(rows[0].needed);
  EXPECT_THAT(*rows[0].needed, testing::ElementsAre(1, 1, 2, 3, 4, 5, 6, 7, 8));
}

}  // namespace
}  // namespace tessera::compiler
