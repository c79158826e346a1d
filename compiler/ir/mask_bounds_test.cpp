#include "compiler/ir/mask_bounds.h"

#include <cmath>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler {
namespace {

/// A body over rows and columns that computes `%r` from the score `%s` and the mask `%m`.
class Body {
 public:
  explicit Body(const std::string& text) {
    context_.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                         mlir::math::MathDialect, mlir::tensor::TensorDialect>();
    module_ = mlir::parseSourceString<mlir::ModuleOp>(R"(
      #id = affine_map<(d0, d1) -> (d0, d1)>
      func.func @main(%scores: tensor<64x64xf32>, %mask: tensor<64x64xf32>) -> tensor<64x64xf32> {
        %empty = tensor.empty() : tensor<64x64xf32>
        %low = arith.constant 0xFF800000 : f32
        %finite = arith.constant -3.0e38 : f32
        %result = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
            ins(%scores, %mask : tensor<64x64xf32>, tensor<64x64xf32>) outs(%empty : tensor<64x64xf32>) {
        ^bb0(%s: f32, %m: f32, %o: f32):
          %row = linalg.index 0 : index
          %column = linalg.index 1 : index
          )" + text + R"(
          linalg.yield %r : f32
        } -> tensor<64x64xf32>
        return %result : tensor<64x64xf32>
      })",
                                                      &context_);
    EXPECT_TRUE(module_);
    module_->walk([&](mlir::linalg::YieldOp yield) { value_ = yield.getOperand(0); });
  }

  Masked over(Keys rows, Keys columns) const {
    return maskedBy(boundsOf(
        value_, [](unsigned number) { return number == 0 ? kSummed : kRead; },
        [&](int64_t dim) {
          const Keys& range = dim == 0 ? rows : columns;
          return Bounds{static_cast<double>(range.lo), static_cast<double>(range.hi - 1)};
        }));
  }
  Keys kept(Keys rows, int64_t keys, int64_t piece) const {
    return unmaskedKeys(keys, piece, [&](Keys columns) { return over(rows, columns); });
  }

 private:
  mlir::MLIRContext context_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  mlir::Value value_;
};

constexpr char kCausal[] = R"(%seen = arith.cmpi ule, %column, %row : index
          %r = arith.select %seen, %s, %low : f32)";

TEST(MaskBounds, KeysBehindTheRowsAreRemovedAndNoOthers) {
  const Body body(kCausal);
  for (int64_t first : {0, 3, 8, 30, 60}) {
    for (int64_t rows : {1, 4}) {
      for (int64_t piece : {1, 5, 8}) {
        const Keys kept = body.kept({first, first + rows}, 64, piece);
        EXPECT_EQ(kept.lo, 0);
        EXPECT_EQ(kept.hi, std::min<int64_t>(64, (first + rows + piece - 1) / piece * piece)) << first << " " << piece;
      }
    }
  }
}

TEST(MaskBounds, ABitWithASignIsMinusOne) {
  const Body body(R"(%behind = arith.cmpi ugt, %column, %row : index
          %sign = arith.sitofp %behind : i1 to f32
          %much = arith.constant 1.0e38 : f32
          %added = arith.mulf %sign, %much : f32
          %r = arith.addf %s, %added : f32)");
  EXPECT_EQ(body.kept({8, 10}, 64, 1).lo, 0);
  EXPECT_EQ(body.kept({8, 10}, 64, 1).hi, 10);
}

TEST(MaskBounds, PositionsInOtherTypesAndWithOffsets) {
  const Body body(R"(%i = arith.index_cast %row : index to i64
          %j = arith.index_cast %column : index to i64
          %two = arith.constant 2 : i64
          %nothing = arith.constant 0 : i64
          %at = arith.addi %i, %two : i64
          %distance = arith.subi %j, %at : i64
          %seen = arith.cmpi sle, %distance, %nothing : i64
          %r = arith.select %seen, %s, %low : f32)");
  EXPECT_EQ(body.kept({8, 10}, 64, 4).hi, 12);
  EXPECT_EQ(body.kept({0, 1}, 64, 1).hi, 3);
}

// Trilu of ones, cast to a condition.
TEST(MaskBounds, TrianglesOfNumbersAreConditions) {
  const Body body(R"(%seen = arith.cmpi sle, %column, %row : index
          %zero = arith.constant 0.0 : f32
          %one = arith.constant 1.0 : f32
          %triangle = arith.select %seen, %one, %zero : f32
          %condition = arith.cmpf une, %triangle, %zero : f32
          %r = arith.select %condition, %s, %low : f32)");
  EXPECT_EQ(body.kept({0, 8}, 64, 8).hi, 8);
}

TEST(MaskBounds, WindowsBeginLater) {
  const Body body(R"(%nine = arith.constant 9 : index
          %reach = arith.addi %column, %nine : index
          %behind = arith.cmpi ule, %column, %row : index
          %near = arith.cmpi uge, %reach, %row : index
          %seen = arith.andi %behind, %near : i1
          %r = arith.select %seen, %s, %low : f32)");
  const Keys kept = body.kept({32, 36}, 64, 4);
  EXPECT_EQ(kept.lo, 20);  // row 32 sees 23 to 32
  EXPECT_EQ(kept.hi, 36);
}

TEST(MaskBounds, AddedInfinityRemovesWhateverTheScoreIs) {
  const Body body(R"(%seen = arith.cmpi ule, %column, %row : index
          %zero = arith.constant 0.0 : f32
          %chosen = arith.select %seen, %zero, %low : f32
          %padded = arith.addf %s, %m : f32
          %r = arith.addf %padded, %chosen : f32)");
  EXPECT_EQ(body.kept({0, 8}, 64, 8).hi, 8);
}

// A finite mask value gives a row without kept keys the mean of all values: some key must certainly be kept.
TEST(MaskBounds, NumbersRemoveOnlyBesideAKeyThatIsKept) {
  const Body plain(R"(%seen = arith.cmpi ule, %column, %row : index
          %r = arith.select %seen, %s, %finite : f32)");
  EXPECT_EQ(plain.kept({0, 8}, 64, 8).hi, 8);
  const Body padded(R"(%seen = arith.cmpi ule, %column, %row : index
          %both = arith.addf %s, %m : f32
          %r = arith.select %seen, %both, %finite : f32)");
  EXPECT_EQ(padded.kept({0, 8}, 64, 8).hi, 64);  // the mask that is read may remove the other keys
  const Body none(R"(%limit = arith.constant 20 : index
          %seen = arith.cmpi ule, %limit, %row : index
          %r = arith.select %seen, %s, %finite : f32)");
  EXPECT_EQ(none.kept({0, 8}, 64, 8).size(), 64);
}

TEST(MaskBounds, SmallNumbersRemoveNothing) {
  const Body body(R"(%much = arith.constant -1.0e9 : f32
          %seen = arith.cmpi ule, %column, %row : index
          %r = arith.select %seen, %s, %much : f32)");
  EXPECT_EQ(body.kept({0, 8}, 64, 8).hi, 64);
}

TEST(MaskBounds, WhatIsNotKnownIsKept) {
  EXPECT_EQ(Body("%r = arith.addf %s, %m : f32").kept({0, 8}, 64, 8).size(), 64);
  EXPECT_EQ(Body("%r = math.log %s : f32").kept({0, 8}, 64, 8).size(), 64);
  EXPECT_EQ(Body(R"(%seen = arith.cmpf olt, %s, %m : f32
          %r = arith.select %seen, %s, %low : f32)")
                .kept({0, 8}, 64, 8)
                .size(),
            64);
}

// Every result for a box holds at each of its positions: random bodies, evaluated point by point.
TEST(MaskBounds, BoxesHoldTheirPoints) {
  std::mt19937 random(5);
  auto pick = [&](std::initializer_list<const char*> values) { return values.begin()[random() % values.size()]; };
  for (int round = 0; round < 200; ++round) {
    const std::string text =
        std::string("%c = arith.constant ") + std::to_string(random() % 40) +
        " : index\n%a = arith.addi %row, %c : index\n%b = arith.subi %column, %c : index\n" + "%p = arith.cmpi " +
        pick({"slt", "sle", "sgt", "sge", "eq", "ne"}) + ", " + pick({"%row", "%a", "%b", "%c"}) + ", " +
        pick({"%column", "%b", "%a"}) + " : index\n" + "%q = arith.cmpi " + pick({"slt", "sge", "ne"}) + ", %b, " +
        pick({"%row", "%c"}) + " : index\n%t = arith." + pick({"andi", "ori", "xori"}) + " %p, %q : i1\n" +
        "%r = arith.select " + pick({"%p", "%t"}) + ", " + pick({"%s, %low", "%low, %s"}) + " : f32";
    const Body body(text);
    const auto row = static_cast<int64_t>(random() % 50), column = static_cast<int64_t>(random() % 50);
    const Keys rows{row, row + 1 + static_cast<int64_t>(random() % 6)};
    const Keys columns{column, column + 1 + static_cast<int64_t>(random() % 6)};
    const Masked box = body.over(rows, columns);
    for (int64_t i = rows.lo; i < rows.hi; ++i)
      for (int64_t j = columns.lo; j < columns.hi; ++j) {
        const Masked point = body.over({i, i + 1}, {j, j + 1});
        EXPECT_NE(point.removed, point.kept) << text;  // at a single position everything is known
        if (box.removed) EXPECT_TRUE(point.removed) << text;
        if (box.kept) EXPECT_TRUE(point.kept) << text;
      }
  }
}

TEST(MaskBounds, PiecesAreWholeTiles) {
  EXPECT_EQ(keysPerGroup(2048, 8), 256);
  EXPECT_EQ(keysPerGroup(197, 8), 64);
  EXPECT_EQ(keysPerGroup(1024, 3), 384);
}

}  // namespace
}  // namespace tessera::compiler
