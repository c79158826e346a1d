#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/interpreter/interpreter.h"
#include "gmock/gmock.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler::interpreter {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Element kF32{Element::Kind::kF32, 32};
constexpr Element kI8{Element::Kind::kInteger, 8}, kI64{Element::Kind::kInteger, 64};

Array integers(Element element, llvm::ArrayRef<int64_t> shape, std::vector<int64_t> values) {
  Array array = makeArray(element, shape);
  array.storage->integer = std::move(values);
  return array;
}
Array count(int64_t value) { return integers(kI64, {}, {value}); }
Array flag(bool value) { return integers(kI8, {}, {value ? 1 : 0}); }

/// Attributes of a loop.
std::string form(bool trip_count, bool condition, int carried, int64_t most, const std::string& scanned = "",
                 const std::string& stacked = "", const std::string& body = "step") {
  return absl::StrCat("{body = @", body, ", trip_count = ", trip_count ? "true" : "false",
                      ", condition = ", condition ? "true" : "false", ", carried = ", carried, " : i64, most = ", most,
                      " : i64, scanned = array<i1", scanned.empty() ? "" : ": ", scanned, ">, stacked = array<i1",
                      stacked.empty() ? "" : ": ", stacked, ">}");
}

/// An elementwise operation on tensor<3xi64>: %z = op(%x, %y). A %y without dimensions is broadcast.
std::string elementwise(const std::string& z, const std::string& x, const std::string& y, const std::string& op,
                        bool scalar = false) {
  return absl::StrReplaceAll(
      R"(
    EMPTY = tensor.empty() : tensor<3xi64>
    Z = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (MAP)>, affine_map<(d) -> (d)>],
                        iterator_types = ["parallel"]}
        ins(X, Y : tensor<3xi64>, TYPE) outs(EMPTY : tensor<3xi64>) {
    ^bb0(%left: i64, %right: i64, %old: i64):
      %both = arith.OP %left, %right : i64
      linalg.yield %both : i64
    } -> tensor<3xi64>)",
      {{"EMPTY", absl::StrCat(z, "_empty")},
       {"Z", z},
       {"X", x},
       {"Y", y},
       {"OP", op},
       {"MAP", scalar ? "" : "d"},
       {"TYPE", scalar ? "tensor<i64>" : "tensor<3xi64>"}});
}

/// x = 2 x + iteration; with a condition: until its first element reaches 100.
std::string doubling(bool condition) {
  return absl::StrCat("func.func private @step(%i: tensor<i64>, %x: tensor<3xi64>) -> (",
                      condition ? "tensor<i8>, " : "", "tensor<3xi64>) {", elementwise("%d", "%x", "%x", "addi"),
                      elementwise("%y", "%d", "%i", "addi", true),
                      condition ? R"(
    %zero = arith.constant 0 : index
    %first = tensor.extract %y[%zero] : tensor<3xi64>
    %hundred = arith.constant 100 : i64
    %less = arith.cmpi slt, %first, %hundred : i64
    %byte = arith.extui %less : i1 to i8
    %again = tensor.from_elements %byte : tensor<i8>
    return %again, %y : tensor<i8>, tensor<3xi64>
  })"
                                : "\n    return %y : tensor<3xi64>\n  }");
}

class ModelLoopTest : public ::testing::Test {
 protected:
  ModelLoopTest() : context_(mlir::MLIRContext::Threading::DISABLED) {
    context_.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                         mlir::tensor::TensorDialect>();
    context_.allowUnregisteredDialects();  // the loop operation is registered in another folder
  }

  absl::StatusOr<std::vector<Array>> run(const std::string& text, const std::vector<Array>& arguments,
                                         const Options& options = {}) {
    parsed_.push_back(mlir::parseSourceString<mlir::ModuleOp>(text, &context_));
    EXPECT_TRUE(parsed_.back()) << text;
    if (!parsed_.back()) return absl::InternalError("");
    return interpret(main(), arguments, options);
  }
  mlir::func::FuncOp main() { return parsed_.back()->lookupSymbol<mlir::func::FuncOp>("main"); }

  mlir::MLIRContext context_;
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> parsed_;  // caches identify attributes by address
};

std::string counted(int64_t most) {
  return absl::StrCat(doubling(false), R"(
  func.func @main(%n: tensor<i64>, %x: tensor<3xi64>) -> (tensor<3xi64>, tensor<i64>) {
    %r:2 = "tessera.loop"(%n, %x) )",
                      form(true, false, 1, most), R"( : (tensor<i64>, tensor<3xi64>) -> (tensor<3xi64>, tensor<i64>)
    return %r#0, %r#1 : tensor<3xi64>, tensor<i64>
  })");
}

TEST_F(ModelLoopTest, RunsAsOftenAsItsTripCountAndItsBoundAllow) {
  const Array x = integers(kI64, {3}, {1, 2, 3});
  const std::map<int64_t, std::vector<int64_t>> expected = {{-3, {1, 2, 3, 0}},    {0, {1, 2, 3, 0}},
                                                            {1, {2, 4, 6, 1}},     {2, {5, 9, 13, 2}},
                                                            {5, {58, 90, 122, 5}}, {900, {58, 90, 122, 5}}};
  for (const auto& [trips, values] : expected) {
    const auto results = run(counted(5), {count(trips), x});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_THAT((*results)[0].storage->integer, ElementsAre(values[0], values[1], values[2])) << trips;
    EXPECT_THAT((*results)[1].storage->integer, ElementsAre(values[3])) << trips;
  }
  const auto unbounded = run(counted(-1), {count(5), x});
  ASSERT_TRUE(unbounded.ok()) << unbounded.status();
  EXPECT_THAT((*unbounded)[0].storage->integer, ElementsAre(58, 90, 122));
  EXPECT_THAT(x.storage->integer, ElementsAre(1, 2, 3)) << "an argument is written to";
}

TEST_F(ModelLoopTest, RunsWhileItsConditionHolds) {
  const std::string text = absl::StrCat(doubling(true), R"(
  func.func @main(%n: tensor<i64>, %c: tensor<i8>, %x: tensor<3xi64>) -> (tensor<3xi64>, tensor<i64>) {
    %r:2 = "tessera.loop"(%n, %c, %x) )",
                                        form(true, true, 1, -1),
                                        R"( : (tensor<i64>, tensor<i8>, tensor<3xi64>) -> (tensor<3xi64>, tensor<i64>)
    return %r#0, %r#1 : tensor<3xi64>, tensor<i64>
  })");
  const Array x = integers(kI64, {3}, {1, 0, -1});
  struct Case {
    int64_t trips;
    bool condition;
    std::vector<int64_t> expected;
  };
  // 1, 2, 5, 12, 27, 58, 121
  for (const Case& each :
       {Case{900, true, {121, 57, -7, 6}}, Case{4, true, {27, 11, -5, 4}}, Case{900, false, {1, 0, -1, 0}}}) {
    const auto results = run(text, {count(each.trips), flag(each.condition), x});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_THAT((*results)[0].storage->integer, ElementsAre(each.expected[0], each.expected[1], each.expected[2]));
    EXPECT_THAT((*results)[1].storage->integer, ElementsAre(each.expected[3]));
  }
}

TEST_F(ModelLoopTest, WhereRoundingDecidesHowOftenItRunsNothingIsSaid) {
  const std::string text = absl::StrCat(doubling(true), R"(
  func.func @main(%n: tensor<i64>, %c: tensor<i8>, %x: tensor<3xi64>) -> tensor<3xi64> {
    %r:2 = "tessera.loop"(%n, %c, %x) )",
                                        form(true, true, 1, 7),
                                        R"( : (tensor<i64>, tensor<i8>, tensor<3xi64>) -> (tensor<3xi64>, tensor<i64>)
    return %r#0 : tensor<3xi64>
  })");
  Array unsure = count(2), doubtful = flag(true), x = integers(kI64, {3}, {1, 0, -1});
  unsure.storage->error = {1};
  doubtful.storage->error = {1};
  const auto code = [&](const Array& n, const Array& c) { return run(text, {n, c, x}).status().code(); };
  EXPECT_EQ(code(unsure, flag(true)), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(count(2), doubtful), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(count(0), doubtful), absl::StatusCode::kOk) << "nobody reads the condition";
  x.storage->error[0] = 30;
  EXPECT_EQ(code(count(2), flag(true)), absl::StatusCode::kFailedPrecondition) << "of the body";
  EXPECT_EQ(code(count(1), flag(true)), absl::StatusCode::kOk) << "of the last iteration that may run";
}

TEST_F(ModelLoopTest, ScansAndStacksPartsFromEitherEnd) {
  // sum += part of a (from its end) - part of b; stacks the sum, and, from the end, the part of a.
  const std::string text = absl::StrCat(
      R"(func.func private @step(%i: tensor<i64>, %s: tensor<3xi64>, %a: tensor<3xi64>, %b: tensor<3xi64>)
      -> (tensor<3xi64>, tensor<3xi64>, tensor<3xi64>) {)",
      elementwise("%p", "%s", "%a", "addi"), elementwise("%q", "%p", "%b", "subi"), R"(
    return %q, %q, %a : tensor<3xi64>, tensor<3xi64>, tensor<3xi64>
  }
  func.func @main(%n: tensor<i64>, %s: tensor<3xi64>, %a: tensor<4x3xi64>, %b: tensor<4x3xi64>)
      -> (tensor<3xi64>, tensor<4x3xi64>, tensor<4x3xi64>, tensor<i64>) {
    %r:4 = "tessera.loop"(%n, %s, %a, %b) )",
      form(true, false, 1, 4, "true, false", "false, true"), R"(
        : (tensor<i64>, tensor<3xi64>, tensor<4x3xi64>, tensor<4x3xi64>)
        -> (tensor<3xi64>, tensor<4x3xi64>, tensor<4x3xi64>, tensor<i64>)
    return %r#0, %r#1, %r#2, %r#3 : tensor<3xi64>, tensor<4x3xi64>, tensor<4x3xi64>, tensor<i64>
  })");
  const Array a = integers(kI64, {4, 3}, {1, 2, 3, 10, 20, 30, 100, 200, 300, 1000, 2000, 3000});
  const Array b = integers(kI64, {4, 3}, {1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4});
  const auto results = run(text, {count(3), integers(kI64, {3}, {0, 0, 0}), a, b});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT((*results)[0].storage->integer, ElementsAre(1104, 2214, 3324));
  const auto part = [](const Array& whole, int64_t index) {
    std::vector<int64_t> values;
    for (int64_t i = 3 * index; i < 3 * index + 3; ++i)
      values.push_back(whole.storage->error[i] == 0 ? whole.storage->integer[i] : -1);
    return values;
  };
  const Array &sums = (*results)[1], &parts = (*results)[2];
  EXPECT_THAT(part(sums, 0), ElementsAre(999, 1999, 2999));
  EXPECT_THAT(part(sums, 1), ElementsAre(1097, 2197, 3297));
  EXPECT_THAT(part(sums, 2), ElementsAre(1104, 2214, 3324));
  EXPECT_THAT(part(sums, 3), Each(-1)) << "no iteration wrote it";
  EXPECT_THAT(part(parts, 0), Each(-1));
  EXPECT_THAT(part(parts, 1), ElementsAre(10, 20, 30));
  EXPECT_THAT(part(parts, 3), ElementsAre(1000, 2000, 3000));
  EXPECT_EQ((*results)[3].storage->integer[0], 3);
}

/// Nested loops: the outer one passes its iteration to the inner one as trip count, and `%k` through both.
std::string nested(const std::string& op = "addi") {
  return absl::StrCat(
      "func.func private @step(%j: tensor<i64>, %x: tensor<3xi64>, %k: tensor<3xi64>) -> tensor<3xi64> {",
      elementwise("%y", "%x", "%k", op), R"(
    return %y : tensor<3xi64>
  }
  func.func private @outer(%i: tensor<i64>, %x: tensor<3xi64>, %k: tensor<3xi64>,
                           %w: tensor<3xi64> {tessera.weight = 1 : i64}) -> tensor<3xi64> {
    %r:2 = "tessera.loop"(%i, %x, %k) )",
      form(true, false, 1, 9), R"( : (tensor<i64>, tensor<3xi64>, tensor<3xi64>) -> (tensor<3xi64>, tensor<i64>))",
      elementwise("%y", "%r#0", "%w", "addi"), R"(
    return %y : tensor<3xi64>
  }
  func.func @main(%x: tensor<3xi64>, %k: tensor<3xi64>) -> tensor<3xi64> {
    %n = arith.constant dense<4> : tensor<i64>
    %r:2 = "tessera.loop"(%n, %x, %k) )",
      form(true, false, 1, 11, "", "", "outer"),
      R"( : (tensor<i64>, tensor<3xi64>, tensor<3xi64>) -> (tensor<3xi64>, tensor<i64>)
    return %r#0 : tensor<3xi64>
  })");
}

Options withWeight(const std::vector<int64_t>& values) {
  Options options;
  options.weight = [values](int64_t index, mlir::RankedTensorType) -> absl::StatusOr<Array> {
    if (index != 1) return absl::InternalError("another weight");
    return integers(kI64, {3}, values);
  };
  return options;
}

TEST_F(ModelLoopTest, LoopsNestAndReadCapturedValuesAndWeights) {
  const Array x = integers(kI64, {3}, {1, 0, -1}), k = integers(kI64, {3}, {100, 200, 300});
  const auto results = run(nested(), {x, k}, withWeight({1, 2, 3}));
  ASSERT_TRUE(results.ok()) << results.status();
  // 0 + 1 + 2 + 3 times k, 4 times w.
  EXPECT_THAT((*results)[0].storage->integer, ElementsAre(605, 1208, 1811));
  EXPECT_THAT(k.storage->integer, ElementsAre(100, 200, 300));
  EXPECT_EQ(run(nested(), {x, k}).status().code(), absl::StatusCode::kUnimplemented) << "there are no weights";
}

TEST_F(ModelLoopTest, EqualLoopsAreRunOnce) {
  ResultCache cache;
  int64_t budget = 1'000'000, before = 0;
  const Array x = integers(kI64, {3}, {1, 0, -1}), k = integers(kI64, {3}, {100, 200, 300});
  const auto isComputed = [&](const std::string& text, const Array& captured, const std::vector<int64_t>& weight) {
    Options options = withWeight(weight);
    options.cache = &cache;
    options.budget = &budget;
    before = budget;
    EXPECT_TRUE(run(text, {x, captured}, options).ok());
    return budget < before;
  };
  EXPECT_TRUE(isComputed(nested(), k, {1, 2, 3}));
  EXPECT_FALSE(isComputed(nested(), k, {1, 2, 3}));
  EXPECT_TRUE(isComputed(nested(), k, {1, 2, 4})) << "another weight";
  EXPECT_TRUE(isComputed(nested(), x, {1, 2, 3})) << "another operand";
  EXPECT_TRUE(isComputed(nested("subi"), k, {1, 2, 3})) << "another body of the inner loop";
}

TEST_F(ModelLoopTest, ObserversSeeTheLoopAndNotItsBody) {
  Options options = withWeight({1, 2, 3});
  std::vector<std::string> seen;
  options.observe = [&](mlir::Operation* op, unsigned result, const Array&) {
    seen.push_back(absl::StrCat(op->getName().getStringRef().str(), " ", result));
  };
  const Array x = integers(kI64, {3}, {1, 0, -1});
  ASSERT_TRUE(run(nested(), {x, x}, options).ok());
  EXPECT_THAT(seen, ElementsAre("arith.constant 0", "tessera.loop 0", "tessera.loop 1"));
}

TEST_F(ModelLoopTest, WorkCountsInEachIteration) {
  const Array x = integers(kI64, {3}, {1, 2, 3});
  const auto spent = [&](int64_t trips) {
    int64_t budget = 1'000'000;
    Options options;
    options.budget = &budget;
    EXPECT_TRUE(run(counted(-1), {count(trips), x}, options).ok());
    return 1'000'000 - budget;
  };
  EXPECT_GT(spent(1), 0);
  EXPECT_EQ(spent(7), 7 * spent(1));
  int64_t budget = 1000;
  Options options;
  options.budget = &budget;
  // A body that only passes its values on takes from the budget as well.
  const std::string idle = absl::StrCat(R"(
  func.func private @step(%i: tensor<i64>, %x: tensor<3xi64>) -> tensor<3xi64> { return %x : tensor<3xi64> }
  func.func @main(%x: tensor<3xi64>) -> tensor<3xi64> {
    %r:2 = "tessera.loop"(%x) )",
                                        form(false, false, 1, -1), R"( : (tensor<3xi64>) -> (tensor<3xi64>, tensor<i64>)
    return %r#0 : tensor<3xi64>
  })");
  EXPECT_EQ(run(idle, {x}, options).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(operationsOf(main()), 4'000'000'000) << "nothing ends it";
}

TEST_F(ModelLoopTest, EstimatesMultiplyByWhatConstantsSay) {
  ASSERT_TRUE(run(counted(5), {count(0), integers(kI64, {3}, {1, 2, 3})}).ok());
  const int64_t once = operationsOf(main());
  EXPECT_GT(once, 0);
  const auto constant = [&](int64_t trips, int64_t most) {
    const std::string text = absl::StrReplaceAll(
        counted(most), {{"%r:2 =", absl::StrCat("%k = arith.constant dense<", trips, "> : tensor<i64>\n%r:2 =")},
                        {"(%n, %x) {", "(%k, %x) {"}});
    parsed_.push_back(mlir::parseSourceString<mlir::ModuleOp>(text, &context_));
    return operationsOf(main());
  };
  EXPECT_EQ(constant(3, 5), 3 * once);
  EXPECT_EQ(constant(9, 5), 5 * once);
  EXPECT_EQ(constant(-1, 5), 0);
  EXPECT_GT(constant(int64_t{1} << 62, int64_t{1} << 62), 4'000'000'000) << "without an overflow";
}

TEST_F(ModelLoopTest, ErrorEstimatesPassFromIterationToIteration) {
  const std::string text = absl::StrCat(R"(
  func.func private @step(%i: tensor<i64>, %x: tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>) {
    %c = arith.constant dense<1.1> : tensor<1xf32>
    %e = tensor.empty() : tensor<1xf32>
    %y = linalg.mul ins(%x, %c : tensor<1xf32>, tensor<1xf32>) outs(%e : tensor<1xf32>) -> tensor<1xf32>
    return %y, %y : tensor<1xf32>, tensor<1xf32>
  }
  func.func @main(%x: tensor<1xf32>) -> (tensor<1xf32>, tensor<37x1xf32>) {
    %r:3 = "tessera.loop"(%x) )",
                                        form(false, false, 1, 37, "", "false"),
                                        R"( : (tensor<1xf32>) -> (tensor<1xf32>, tensor<37x1xf32>, tensor<i64>)
    return %r#0, %r#1 : tensor<1xf32>, tensor<37x1xf32>
  })");
  Array x = makeArray(kF32, {1});
  x.storage->real = {1};
  const auto results = run(text, {x});
  ASSERT_TRUE(results.ok()) << results.status();
  float native = 1;
  for (int i = 0; i < 37; ++i) native *= 1.1f;
  const Array &last = (*results)[0], &all = (*results)[1];
  EXPECT_EQ(last.storage->real[0], native);
  EXPECT_GT(all.storage->error[1], 0);
  EXPECT_GT(last.storage->error[0], 10 * all.storage->error[1]);
  EXPECT_EQ(last.storage->error[0], all.storage->error[36]);
}

TEST_F(ModelLoopTest, SaysWhereALoopAndItsBodyDoNotFit) {
  const Array x = integers(kI64, {3}, {1, 2, 3});
  const auto fault = [&](const std::vector<std::pair<std::string, std::string>>& changes) {
    const auto results = run(absl::StrReplaceAll(counted(5), changes), {count(1), x});
    EXPECT_EQ(results.status().code(), absl::StatusCode::kInternal);
    return std::string(results.status().message());
  };
  EXPECT_THAT(fault({{"body = @step", "body = @none"}}), HasSubstr("no such body"));
  EXPECT_THAT(fault({{"body = @step", "body = @main"}}), HasSubstr("calls itself"));
  EXPECT_THAT(fault({{"carried = 1", "carried = 3"}}), HasSubstr("operands are missing"));
  EXPECT_THAT(fault({{"carried = 1", "carried = 0"}}), HasSubstr("results"));
  EXPECT_THAT(fault({{"condition = false", "condition = true"}}), HasSubstr("operands are missing"));
  EXPECT_THAT(fault({{"most = 5", "most = -2"}}), HasSubstr("negative"));
  EXPECT_THAT(fault({{"%i: tensor<i64>, %x: tensor<3xi64>) ->", "%i: tensor<i64>, %z: tensor<4xi64>) ->"},
                     {"ins(%x, %x", "ins(%w, %w"},
                     {"%d_empty =", "%w = tensor.empty() : tensor<3xi64>\n%d_empty ="}}),
              HasSubstr("the type of carried value 0"));
}

TEST_F(ModelLoopTest, CallsThatAreNoLoopsStayUnknown) {
  const auto results = run(R"(
  func.func private @step(%x: tensor<3xi64>) -> tensor<3xi64> { return %x : tensor<3xi64> }
  func.func @main(%x: tensor<3xi64>) -> tensor<3xi64> {
    %r = func.call @step(%x) : (tensor<3xi64>) -> tensor<3xi64>
    return %r : tensor<3xi64>
  })",
                           {integers(kI64, {3}, {1, 2, 3})});
  EXPECT_EQ(results.status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tessera::compiler::interpreter
