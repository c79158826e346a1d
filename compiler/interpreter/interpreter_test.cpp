#include "compiler/interpreter/interpreter.h"

#include <algorithm>
#include <random>

#include "compiler/interpreter/compare.h"
#include "compiler/interpreter/random_array.h"
#include "gmock/gmock.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler::interpreter {
namespace {

using Kind = Element::Kind;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Lt;

constexpr Element kF16{Kind::kF16, 16}, kBF16{Kind::kBF16, 16}, kF32{Kind::kF32, 32};
constexpr Element kI8{Kind::kInteger, 8}, kI32{Kind::kInteger, 32};

class InterpreterTest : public ::testing::Test {
 protected:
  InterpreterTest() : context_(mlir::MLIRContext::Threading::DISABLED) {
    context_.loadDialect<mlir::affine::AffineDialect, mlir::arith::ArithDialect, mlir::func::FuncDialect,
                         mlir::linalg::LinalgDialect, mlir::math::MathDialect, mlir::memref::MemRefDialect,
                         mlir::scf::SCFDialect, mlir::tensor::TensorDialect>();
  }
  absl::StatusOr<std::vector<Array>> run(const std::string& text, const std::vector<Array>& arguments,
                                         const Options& options = {}) {
    module_ = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    EXPECT_TRUE(module_) << text;
    return interpret(*module_->getOps<mlir::func::FuncOp>().begin(), arguments, options);
  }
  Array one(const std::string& text, const std::vector<Array>& arguments) {
    auto results = run(text, arguments);
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? results->front() : makeArray(kF32, {});
  }

  mlir::MLIRContext context_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
};

Array reals(Element element, llvm::ArrayRef<int64_t> shape, std::vector<double> values) {
  Array array = makeArray(element, shape);
  array.storage->real = std::move(values);
  return array;
}
Array integers(Element element, llvm::ArrayRef<int64_t> shape, std::vector<int64_t> values) {
  Array array = makeArray(element, shape);
  array.storage->integer = std::move(values);
  return array;
}

TEST(ElementTest, RoundsOnceToNearestEven) {
  EXPECT_EQ(roundTo(kF16, 1 + 0x1p-11), 1);                      // a tie, to even
  EXPECT_EQ(roundTo(kF16, 1 + 3 * 0x1p-11), 1 + 0x1p-9);         // the other way
  EXPECT_EQ(roundTo(kF16, 1 + 0x1p-11 + 0x1p-40), 1 + 0x1p-10);  // above the tie by less than single precision resolves
  EXPECT_EQ(roundTo(kF16, 65519), 65504);
  EXPECT_EQ(roundTo(kF16, 65520), INFINITY);
  EXPECT_EQ(roundTo(kF16, 0x1p-25), 0);  // half of the smallest denormal number
  EXPECT_EQ(roundTo(kF16, 3 * 0x1p-26), 0x1p-24);
  EXPECT_EQ(roundTo(kBF16, 1 + 0x1p-8), 1);
  EXPECT_EQ(roundTo(kBF16, -1 - 3 * 0x1p-8), -1 - 0x1p-6);
  EXPECT_EQ(roundTo(kF32, 16777217), 16777216);
  EXPECT_EQ(wrapTo(8, 200), -56);
  EXPECT_EQ(wrapTo(1, 3), 1);
  for (const double value : {0.0, -2.5, 65504.0, 0x1p-24, 1.0009765625})
    EXPECT_EQ(realOf(kF16, bitsOf(kF16, value)), value);
}

TEST_F(InterpreterTest, MultipliesMatrices) {
  const Array c =
      one(R"(func.func @f(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>, %c: tensor<2x2xf32>) -> tensor<2x2xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<2x3xf32>, tensor<3x2xf32>) outs(%c : tensor<2x2xf32>) -> tensor<2x2xf32>
    return %0 : tensor<2x2xf32> })",
          {reals(kF32, {2, 3}, {1, 2, 3, 4, 5, 6}), reals(kF32, {3, 2}, {1, 0, 0, 1, 2, 2}),
           reals(kF32, {2, 2}, {10, 0, 0, 0.5})});
  EXPECT_THAT(c.storage->real, ElementsAre(17, 8, 16, 17.5));
  EXPECT_THAT(c.storage->error, ElementsAre(0, 0, 0, 0)) << "sums of small whole numbers are exact";
}

TEST_F(InterpreterTest, WalksWindowsBackwardsAndByDivision) {
  const Array y = one(R"(
    #half = affine_map<(i) -> (i floordiv 2)>
    #same = affine_map<(i) -> (i)>
    #back = affine_map<(i) -> (5 - i)>
    func.func @f(%x: tensor<3xi32>, %y: tensor<6xi32>) -> tensor<6xi32> {
      %e = tensor.empty() : tensor<6xi32>
      %0 = linalg.generic {indexing_maps = [#half, #back, #same], iterator_types = ["parallel"]}
          ins(%x, %y : tensor<3xi32>, tensor<6xi32>) outs(%e : tensor<6xi32>) {
      ^bb0(%a: i32, %b: i32, %o: i32):
        %i = linalg.index 0 : index
        %n = arith.index_cast %i : index to i32
        %s = arith.addi %a, %b : i32
        %t = arith.muli %s, %n : i32
        linalg.yield %t : i32
      } -> tensor<6xi32>
      return %0 : tensor<6xi32> })",
                      {integers(kI32, {3}, {10, 20, 30}), integers(kI32, {6}, {1, 2, 3, 4, 5, 6})});
  EXPECT_THAT(y.storage->integer, ElementsAre(0, 15, 48, 69, 128, 155));
}

TEST_F(InterpreterTest, WrapsIntegersAndKeepsWhatDivisionsMean) {
  const Array y = one(R"(func.func @f(%x: tensor<4xi8>) -> tensor<4xi8> {
      %e = tensor.empty() : tensor<4xi8>
      %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
          ins(%x : tensor<4xi8>) outs(%e : tensor<4xi8>) {
      ^bb0(%a: i8, %o: i8):
        %c = arith.constant 100 : i8
        %s = arith.addi %a, %c : i8
        %d = arith.constant 3 : i8
        %u = arith.divui %s, %d : i8
        linalg.yield %u : i8
      } -> tensor<4xi8>
      return %0 : tensor<4xi8> })",
                      {integers(kI8, {4}, {0, 27, 28, -100})});
  EXPECT_THAT(y.storage->integer, ElementsAre(33, 42, 42, 0));
}

TEST_F(InterpreterTest, MovesElements) {
  const Array y = one(R"(func.func @f(%x: tensor<2x3xi32>, %p: tensor<1x2xi32>) -> tensor<2x4x2xi32> {
      %c = arith.constant 9 : i32
      %0 = tensor.pad %x low[0, 1] high[0, -1] { ^bb0(%i: index, %j: index): tensor.yield %c : i32 } : tensor<2x3xi32> to tensor<2x3xi32>
      %1 = tensor.concat dim(0) %0, %0 : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<4x3xi32>
      %2 = tensor.extract_slice %1[0, 0] [4, 2] [1, 2] : tensor<4x3xi32> to tensor<4x2xi32>
      %3 = tensor.insert_slice %p into %2[3, 0] [1, 2] [1, 1] : tensor<1x2xi32> into tensor<4x2xi32>
      %4 = tensor.expand_shape %3 [[0, 1], [2]] output_shape [1, 4, 2] : tensor<4x2xi32> into tensor<1x4x2xi32>
      %5 = tensor.concat dim(0) %4, %4 : (tensor<1x4x2xi32>, tensor<1x4x2xi32>) -> tensor<2x4x2xi32>
      return %5 : tensor<2x4x2xi32> })",
                      {integers(kI32, {2, 3}, {1, 2, 3, 4, 5, 6}), integers(kI32, {1, 2}, {7, 8})});
  EXPECT_THAT(y.storage->integer, ElementsAre(9, 2, 9, 5, 9, 2, 7, 8, 9, 2, 9, 5, 9, 2, 7, 8));
}

TEST_F(InterpreterTest, PacksAndUnpacksWithPadding) {
  const std::string text = R"(func.func @f(%x: tensor<5x3xi32>) -> (tensor<2x2x2x3xi32>, tensor<5x3xi32>) {
      %z = arith.constant -1 : i32
      %e = tensor.empty() : tensor<2x2x2x3xi32>
      %0 = linalg.pack %x padding_value(%z : i32) outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [2, 3] into %e : tensor<5x3xi32> -> tensor<2x2x2x3xi32>
      %r = tensor.empty() : tensor<5x3xi32>
      %1 = linalg.unpack %0 outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [2, 3] into %r : tensor<2x2x2x3xi32> -> tensor<5x3xi32>
      return %0, %1 : tensor<2x2x2x3xi32>, tensor<5x3xi32> })";
  const Array x = integers(kI32, {5, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  auto results = run(text, {x});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT((*results)[0].storage->integer,
              ElementsAre(1, 4, 7, 2, 5, 8, 10, 13, -1, 11, 14, -1, 3, 6, 9, -1, -1, -1, 12, 15, -1, -1, -1, -1));
  EXPECT_EQ((*results)[1].storage->integer, x.storage->integer);
}

TEST_F(InterpreterTest, RunsLoopsInOrderAndInPlace) {
  // Fibonacci numbers into a tensor: each iteration reads what the two before it wrote.
  const Array y = one(R"(func.func @f(%x: tensor<10xi32>) -> tensor<10xi32> {
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c10 = arith.constant 10 : index
      %r = scf.for %i = %c2 to %c10 step %c1 iter_args(%t = %x) -> tensor<10xi32> {
        %a = arith.subi %i, %c1 : index
        %b = arith.subi %i, %c2 : index
        %p = tensor.extract %t[%a] : tensor<10xi32>
        %q = tensor.extract %t[%b] : tensor<10xi32>
        %s = arith.addi %p, %q : i32
        %n = tensor.insert %s into %t[%i] : tensor<10xi32>
        scf.yield %n : tensor<10xi32>
      }
      return %r : tensor<10xi32> })",
                      {integers(kI32, {10}, {1, 1, 0, 0, 0, 0, 0, 0, 0, 0})});
  EXPECT_THAT(y.storage->integer, ElementsAre(1, 1, 2, 3, 5, 8, 13, 21, 34, 55));
}

TEST_F(InterpreterTest, ALoopReadsWhatItBeganWith) {
  // Reverses: the initial value is read inside the loop that writes its successor.
  const Array y = one(R"(func.func @f(%x: tensor<5xi32>) -> tensor<5xi32> {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %c5 = arith.constant 5 : index
      %e = tensor.empty() : tensor<5xi32>
      %s = linalg.copy ins(%x : tensor<5xi32>) outs(%e : tensor<5xi32>) -> tensor<5xi32>
      %r = scf.for %i = %c0 to %c5 step %c1 iter_args(%t = %s) -> tensor<5xi32> {
        %j = arith.subi %c4, %i : index
        %v = tensor.extract %s[%j] : tensor<5xi32>
        %n = tensor.insert %v into %t[%i] : tensor<5xi32>
        scf.yield %n : tensor<5xi32>
      }
      return %r : tensor<5xi32> })",
                      {integers(kI32, {5}, {1, 2, 3, 4, 5})});
  EXPECT_THAT(y.storage->integer, ElementsAre(5, 4, 3, 2, 1));
}

TEST_F(InterpreterTest, WritesBuffers) {
  const std::string text = R"(func.func @f(%x: memref<2x3xf32>, %y: memref<4x3xf32>) {
      %t = memref.alloc() : memref<2x3xf32>
      linalg.add ins(%x, %x : memref<2x3xf32>, memref<2x3xf32>) outs(%t : memref<2x3xf32>)
      %v = memref.subview %y[1, 0] [2, 3] [2, 1] : memref<4x3xf32> to memref<2x3xf32, strided<[6, 1], offset: 3>>
      memref.copy %t, %v : memref<2x3xf32> to memref<2x3xf32, strided<[6, 1], offset: 3>>
      return })";
  const Array y = reals(kF32, {4, 3}, std::vector<double>(12, 7));
  auto results = run(text, {reals(kF32, {2, 3}, {1, 2, 3, 4, 5, 6}), y});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT(y.storage->real, ElementsAre(7, 7, 7, 2, 4, 6, 7, 7, 7, 8, 10, 12));
}

TEST_F(InterpreterTest, SaysWhatItCannotDo) {
  const std::string gather = R"(func.func @f(%x: tensor<4xf32>, %i: tensor<1xi32>) -> tensor<1xf32> {
      %e = tensor.empty() : tensor<1xf32>
      %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
          ins(%i : tensor<1xi32>) outs(%e : tensor<1xf32>) {
      ^bb0(%a: i32, %o: f32):
        %n = arith.index_cast %a : i32 to index
        %v = tensor.extract %x[%n] : tensor<4xf32>
        linalg.yield %v : f32
      } -> tensor<1xf32> loc("table")
      return %0 : tensor<1xf32> })";
  const Array x = reals(kF32, {4}, {1, 2, 3, 4});
  EXPECT_EQ(one(gather, {x, integers(kI32, {1}, {3})}).storage->real[0], 4);
  const auto outside = run(gather, {x, integers(kI32, {1}, {4})});
  EXPECT_EQ(outside.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(outside.status().message()), HasSubstr("in linalg.generic of table"));
  int64_t budget = 2;
  Options options;
  options.budget = &budget;
  EXPECT_EQ(run(gather, {x, integers(kI32, {1}, {0})}, options).status().code(), absl::StatusCode::kResourceExhausted);
}

constexpr char kSum[] = R"(func.func @f(%x: tensor<3001xf32>) -> tensor<f32> {
    %z = arith.constant dense<0.0> : tensor<f32>
    %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
        ins(%x : tensor<3001xf32>) outs(%z : tensor<f32>) {
    ^bb0(%a: f32, %s: f32):
      %t = arith.addf %s, %a : f32
      linalg.yield %t : f32
    } -> tensor<f32>
    return %0 : tensor<f32> })";

TEST_F(InterpreterTest, BoundsOfSumsHoldInAnyOrderAndSaySomething) {
  for (const double low : {-1.0, 0.5}) {
    const Array x = randomArray(kF32, {3001}, {7, low, 1});
    const Array sum = one(kSum, {x});
    std::mt19937 random(3);
    std::vector<double> values = x.storage->real;
    double worst = 0;
    for (int order = 0; order < 50; ++order) {
      std::shuffle(values.begin(), values.end(), random);
      float native = 0;
      for (double value : values) native += static_cast<float>(value);
      worst = std::max(worst, std::fabs(native - sum.storage->real[0]));
    }
    const double bound = kDeviations * sum.storage->error[0];
    EXPECT_LE(worst, bound);
    EXPECT_GT(worst, bound / 100) << "a bound that says nothing";
    // A missing term must exceed the bound.
    EXPECT_LT(bound, 0.05);
  }
}

std::string unary(const std::string& body, const std::string& type = "f32", const std::string& result = "f32") {
  return "func.func @f(%x: tensor<4x" + type + ">) -> tensor<4x" + result +
         "> {\n"
         "%e = tensor.empty() : tensor<4x" +
         result +
         ">\n"
         "%0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], "
         "iterator_types = [\"parallel\"]} ins(%x : tensor<4x" +
         type + ">) outs(%e : tensor<4x" + result + ">) {\n^bb0(%a: " + type + ", %o: " + result + "):\n" + body +
         "linalg.yield %r : " + result + "\n} -> tensor<4x" + result + ">\nreturn %0 : tensor<4x" + result + "> }";
}

TEST_F(InterpreterTest, ASumThatIsExactInOneOrderIsNotSure) {
  const std::string text = R"(func.func @f(%x: tensor<3xf32>, %z: tensor<f32>) -> tensor<f32> {
    %0 = linalg.reduce ins(%x : tensor<3xf32>) outs(%z : tensor<f32>) dimensions = [0]
      (%in: f32, %sum: f32) {
        %s = arith.addf %in, %sum : f32
        linalg.yield %s : f32
      }
    return %0 : tensor<f32> })";
  constexpr double kLong = 1 - 0x1p-24, kSmall = 0x1p-26;
  const Array sum = one(text, {reals(kF32, {3}, {kLong, -kLong, kSmall}), reals(kF32, {}, {0})});
  EXPECT_EQ(sum.storage->real[0], kSmall);
  // In the opposite order the small term is lost.
  EXPECT_GE(kDeviations * sum.storage->error[0], kSmall);
  const Array whole = one(text, {reals(kF32, {3}, {700, -700.25, 3}), reals(kF32, {}, {0})});
  EXPECT_EQ(whole.storage->error[0], 0);
}

TEST_F(InterpreterTest, KnowsWhereRoundingDecides) {
  // 0.1 * 10 is 1 or slightly off; its floor may be 0, unlike that of the others.
  const std::string body = R"(
      %c = arith.constant 10.0 : f32
      %m = arith.mulf %a, %c : f32
      %f = math.floor %m : f32
      %r = arith.fptosi %f : f32 to i32
  )";
  const Array y = one(unary(body, "f32", "i32"), {reals(kF32, {4}, {0.1f, 0.15f, 0.5f, 2.0f})});
  EXPECT_THAT(y.storage->integer, ElementsAre(1, 1, 5, 20));
  EXPECT_GT(y.storage->error[0], 0);
  EXPECT_EQ(y.storage->error[1], 0);
  EXPECT_EQ(y.storage->error[2], 0) << "an exact product is not in doubt";
  Array other = integers(kI32, {4}, {0, 1, 5, 20});
  EXPECT_TRUE(compare(y, other).isWithin());
  other.storage->integer = {1, 2, 5, 20};
  EXPECT_FALSE(compare(y, other).isWithin());
}

// An index that may be 0 or -1 is below 5 or, read as unsigned, far above it.
TEST_F(InterpreterTest, UnsignedOrderIsInDoubtBesideZero) {
  const std::string body = R"(
      %c = arith.constant 10.0 : f32
      %one = arith.constant 1.0 : f32
      %m = arith.mulf %a, %c : f32
      %s = arith.subf %m, %one : f32
      %f = math.floor %s : f32
      %i = arith.fptosi %f : f32 to i32
      %n = arith.constant 5 : i32
      %b = arith.cmpi ult, %i, %n : i32
      %r = arith.extui %b : i1 to i32
  )";
  const Array y = one(unary(body, "f32", "i32"), {reals(kF32, {4}, {0.1f, 0.25f, 2.0f, -1.0f})});
  EXPECT_THAT(y.storage->integer, ElementsAre(1, 1, 0, 0));
  EXPECT_GT(y.storage->error[0], 0);
  EXPECT_EQ(y.storage->error[1], 0);
  EXPECT_EQ(y.storage->error[2], 0);
}

TEST_F(InterpreterTest, PeriodsAndPolesWithinReachAreInTheEstimate) {
  // Adding and subtracting 2^k gives an error of many periods. Every correct result must be within the bound.
  const std::pair<std::string, double (*)(double)> functions[] = {
      {"%r = math.sin %d : f32\n", std::sin},
      {"%r = math.cos %d : f32\n", std::cos},
      {"%r = math.tan %d : f32\n", std::tan},
      {"%three = arith.constant 3.0 : f32\n%r = arith.remf %d, %three : f32\n",
       [](double at) { return std::fmod(at, 3); }},
      {"%r = arith.addf %d, %z : f32\n", [](double at) { return at; }}};
  for (int k = 64; k < 112; ++k) {
    const std::string large = std::to_string(std::exp2(k / 4));
    const Array x = reals(kF32, {4}, {0.37f * k, 5.1f - 0.11f * k, -0.07f * k, 0.9f});
    const std::string body = "%z = arith.constant 0.0 : f32\n%c = arith.constant " + large +
                             " : f32\n%s = arith.addf %a, %c : f32\n%d = arith.subf %s, %c : f32\n";
    const Array before = one(unary(body + functions[4].first), {x});
    for (const auto& [operation, function] : functions) {
      const Array y = one(unary(body + operation), {x});
      for (int i = 0; i < 4; ++i) {
        const double at = before.storage->real[i], reach = 0.99 * kDeviations * before.storage->error[i];
        const double bound = kDeviations * y.storage->error[i] + 1e-6;
        for (int part = -100; part <= 100; ++part)
          ASSERT_LE(std::fabs(function(at + reach * part / 100) - y.storage->real[i]), bound)
              << operation << " of " << at << " +- " << reach;
      }
    }
  }
}

TEST_F(InterpreterTest, NansAndInfinitiesAreWhereTheStandardPutsThem) {
  const Array x = reals(kF32, {4}, {NAN, INFINITY, -1, 0});
  const Array roots = one(unary("%r = math.sqrt %a : f32\n"), {x});
  EXPECT_TRUE(std::isnan(roots.storage->real[0]) && std::isnan(roots.storage->real[2]));
  EXPECT_EQ(roots.storage->real[1], INFINITY);
  EXPECT_THAT(roots.storage->error, Each(Lt(1e-30)));
  EXPECT_TRUE(compare(roots, roots).isWithin());
  EXPECT_FALSE(compare(roots, reals(kF32, {4}, {NAN, INFINITY, 0, 0})).isWithin());
  EXPECT_FALSE(compare(roots, reals(kF32, {4}, {NAN, NAN, NAN, 0})).isWithin());
  const Array largest = one(unary("%c = arith.constant 0.0 : f32\n%r = arith.maximumf %a, %c : f32\n"), {x});
  EXPECT_TRUE(std::isnan(largest.storage->real[0]));
  const Array number = one(unary("%c = arith.constant 0.0 : f32\n%r = arith.maxnumf %a, %c : f32\n"), {x});
  EXPECT_EQ(number.storage->real[0], 0);
}

TEST_F(InterpreterTest, HalfPrecisionIsJudgedByItsOwnRounding) {
  const Array x = randomArray(kF16, {4}, {5, 0.5, 1});
  const Array y = one(unary("%m = arith.mulf %a, %a : f16\n%r = arith.addf %m, %a : f16\n", "f16", "f16"), {x});
  for (int i = 0; i < 4; ++i) {
    const double bound = kDeviations * y.storage->error[i];
    EXPECT_GE(bound, 0x1p-11);
    EXPECT_LE(bound, 20 * 0x1p-11 * 2) << "more than a few units in the last place";
  }
  // A single rounding of an exact value is exact.
  const Array cast =
      one(unary("%r = arith.truncf %a : f32 to bf16\n", "f32", "bf16"), {reals(kF32, {4}, {0.1f, 1, 3, -7.3f})});
  EXPECT_THAT(cast.storage->error, ElementsAre(0, 0, 0, 0));
}

TEST_F(InterpreterTest, ComputesEqualOperationsOnce) {
  ResultCache cache;
  int64_t budget = 1'000'000;
  Options options;
  options.cache = &cache;
  options.budget = &budget;
  const Array x = randomArray(kF32, {3001}, {1});
  ASSERT_TRUE(run(kSum, {x}, options).ok());
  const int64_t left = budget;
  EXPECT_LT(left, 1'000'000);
  const mlir::OwningOpRef<mlir::ModuleOp> first = std::move(module_);
  ASSERT_TRUE(run(kSum, {x}, options).ok());
  EXPECT_EQ(budget, left) << "computed again";
  ASSERT_TRUE(run(kSum, {randomArray(kF32, {3001}, {2})}, options).ok());
  EXPECT_LT(budget, left) << "another operand, another result";
}

}  // namespace
}  // namespace tessera::compiler::interpreter
