// Runs each text through MLIR's own lowering and compares it with loops written here.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "compiler/import/expression/bounds.h"
#include "compiler/import/expression/syntax.h"
#include "compiler/import/import.h"
#include "compiler/import/testing/model_builder.h"
#include "compiler/import/testing/reference_run.h"
#include "mlir/IR/MLIRContext.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using Values = std::vector<float>;

Values ramp(int count, float scale = 0.25f) {
  Values values;
  for (int i = 0; i < count; ++i) values.push_back(scale * static_cast<float>((i * 7 + 3) % 11 - 5));
  return values;
}

absl::StatusOr<ImportedModel> import(mlir::MLIRContext& context, const std::string& text,
                                     const ImportOptions& options = {}) {
  return importExpression(context, writeFile(text, "model.te"), options);
}

// Runs a text and returns its outputs in order.
std::vector<Values> run(const std::string& text, const std::vector<Values>& inputs, const ImportOptions& options = {}) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto model = import(context, text, options);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return {};
  std::vector<std::string> bytes;
  for (const Values& input : inputs) bytes.push_back(bytesOf(input));
  auto outputs = referenceRun(*std::move(model), bytes);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  std::vector<Values> values;
  if (outputs.ok()) {
    for (const std::string& output : *outputs) values.push_back(valuesOf<float>(output));
  }
  return values;
}

v1::Failure failureFor(const std::string& text, const ImportOptions& options = {}) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto model = import(context, text, options);
  EXPECT_FALSE(model.ok()) << text;
  return model.ok() ? v1::Failure() : failureOf(model.status());
}

void expectNear(const Values& got, const Values& want, float tolerance = 1e-5f) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance) << "element " << i;
}

TEST(ExpressionTest, MatrixProductWithBoundsInferred) {
  const int m = 3, n = 5, k = 7;
  const Values a = ramp(m * k), b = ramp(k * n);
  Values want(m * n, 0);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j)
      for (int r = 0; r < k; ++r) want[i * n + j] += a[i * k + r] * b[r * n + j];
  const ImportOptions shapes{.input_shapes = {{"A", {m, k}}, {"B", {k, n}}}, .external_data = {}};
  for (const char* statement :
       {"C[i,j] += A[i,k] * B[k,j];", "C[i,j] = sum(A[i,k] * B[k,j]);", "C[i,j] = sum(A[i,k] * B[k,j], axis = k);"}) {
    const auto got = run(std::string("input A[M, K], B[K, N]: f32; ") + statement, {a, b}, shapes);
    ASSERT_EQ(got.size(), 1u);
    expectNear(got[0], want);
  }
}

// Thesis 2.5.1, example 1: padding, convolution, normalization, activation.
TEST(ExpressionTest, ConvolutionLayer) {
  const int c = 2, h = 5, w = 4, k = 3;
  const Values img = ramp(c * h * w), weight = ramp(k * c * 9, 0.125f), mean = {0.5f, -0.25f, 0.f},
               deviation = {1.f, 2.f, 0.5f};
  const auto got = run(R"(
      param R = 3, S = 3;
      input Img[1, 2, 5, 4], Weight[3, 2, R, S], Mean[3], Std[3]: f32;
      Padded[n, c, p, q] = (p - R/2 >= 0) & (p - R/2 < 5) & (q - S/2 >= 0) & (q - S/2 < 4)
                           ? Img[n, c, p - R/2, q - S/2] : 0  where p < 5 + R/2*2, q < 4 + S/2*2;
      Conv[n, k, p, q] = sum(Padded[n, c, p + r, q + s] * Weight[k, c, r, s], axis = (c, r, s));
      BN[n, k, p, q] = (Conv[n, k, p, q] - Mean[k]) / Std[k];
      ReLU[n, k, p, q] = BN[n, k, p, q] >= 0 ? BN[n, k, p, q] : 0;)",
                       {img, weight, mean, deviation});
  Values want;
  for (int o = 0; o < k; ++o)
    for (int p = 0; p < h; ++p)
      for (int q = 0; q < w; ++q) {
        float sum = 0;
        for (int ci = 0; ci < c; ++ci)
          for (int r = 0; r < 3; ++r)
            for (int s = 0; s < 3; ++s) {
              const int y = p + r - 1, x = q + s - 1;
              if (y >= 0 && y < h && x >= 0 && x < w)
                sum += img[(ci * h + y) * w + x] * weight[((o * c + ci) * 3 + r) * 3 + s];
            }
        want.push_back(std::max(0.f, (sum - mean[o]) / deviation[o]));
      }
  ASSERT_EQ(got.size(), 1u);
  expectNear(got[0], want);
}

// Conditions that are a box around a read become a pad operation; others are evaluated for each element.
TEST(ExpressionTest, PaddedReadsEqualConditions) {
  const Values x = ramp(6 * 5);
  struct Case {
    const char* statement;
    std::function<float(int, int)> at;
    int rows, columns;
    bool pads = true;
  };
  const auto element = [&](int i, int j) { return x[static_cast<size_t>(i * 5 + j)]; };
  const Case cases[] = {
      {"P[i, j] = i >= 1 && i < 7 && j >= 2 ? X[i - 1, j - 2] : 0 where i < 9, j < 7;",
       [&](int i, int j) { return i >= 1 && i < 7 && j >= 2 ? element(i - 1, j - 2) : 0; }, 9, 7},
      {"P[i, j] = 3 - i > 0 & j == 2 ? X[i + 2, j] : 1.5 where i < 4, j < 5;",
       [&](int i, int j) { return i < 3 && j == 2 ? element(i + 2, j) : 1.5f; }, 4, 5},
      {"P[i, j] = i + j < 4 ? X[i, j] : 0 where i < 6, j < 5;",
       [&](int i, int j) { return i + j < 4 ? element(i, j) : 0; }, 6, 5, false},
      {"P[j, i] = i >= 1 ? X[i - 1, j] : 0 where i < 7;", [&](int j, int i) { return i >= 1 ? element(i - 1, j) : 0; },
       5, 7, false},
  };
  for (const Case& each : cases) {
    const std::string text = std::string("input X[6, 5]: f32; ") + each.statement;
    Values want;
    for (int i = 0; i < each.rows; ++i)
      for (int j = 0; j < each.columns; ++j) want.push_back(each.at(i, j));
    const auto got = run(text, {x});
    ASSERT_EQ(got.size(), 1u) << text;
    expectNear(got[0], want);
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    auto model = import(context, text);
    ASSERT_TRUE(model.ok()) << model.status();
    std::string module;
    llvm::raw_string_ostream(module) << *model->module;
    EXPECT_EQ(module.find("tensor.pad") != std::string::npos, each.pads) << text << module;
  }
}

// Thesis 2.5.1, example 2: two batched products around a softmax.
TEST(ExpressionTest, SelfAttention) {
  const int h = 2, l = 5, d = 3;
  const Values q = ramp(h * l * d), k = ramp(h * l * d, 0.5f), v = ramp(h * l * d, 1.f);
  const auto got = run(R"(
      input Q[1, 2, 5, 3], K[1, 2, 5, 3], V[1, 2, 5, 3];
      S[b, h, i, l] = sum(Q[b, h, i, k] * K[b, h, l, k]);
      Max[b, h, i] = max(S[b, h, i, l], axis = l);
      Exp[b, h, i, l] = exp(S[b, h, i, l] - Max[b, h, i]);
      Sum[b, h, i] += Exp[b, h, i, l];
      A[b, h, i, j] += Exp[b, h, i, l] / Sum[b, h, i] * V[b, h, l, j];
      output A, Sum;)",
                       {q, k, v});
  Values want;
  for (int head = 0; head < h; ++head)
    for (int i = 0; i < l; ++i) {
      std::vector<double> weight(l);
      double total = 0;
      for (int j = 0; j < l; ++j) {
        double score = 0;
        for (int r = 0; r < d; ++r) score += q[(head * l + i) * d + r] * k[(head * l + j) * d + r];
        total += weight[j] = std::exp(score);
      }
      for (int r = 0; r < d; ++r) {
        double sum = 0;
        for (int j = 0; j < l; ++j) sum += weight[j] / total * v[(head * l + j) * d + r];
        want.push_back(static_cast<float>(sum));
      }
    }
  ASSERT_EQ(got.size(), 2u);
  expectNear(got[0], want);
}

TEST(ExpressionTest, DepthToSpaceUsesDivisionAndRemainder) {
  const int c = 2, h = 3, w = 2, b = 2;
  const Values x = ramp(c * b * b * h * w);
  const auto got = run(R"(
      input X[8, 3, 2];
      Y[c, p, q] = X[c + (p % 2 * 2 + q % 2) * 2, p / 2, q / 2] where c < 2, p < 6, q < 4;)",
                       {x});
  Values want;
  for (int ci = 0; ci < c; ++ci)
    for (int p = 0; p < h * b; ++p)
      for (int q = 0; q < w * b; ++q) want.push_back(x[((ci + (p % b * b + q % b) * c) * h + p / b) * w + q / b]);
  ASSERT_EQ(got.size(), 1u);
  expectNear(got[0], want, 0);
}

TEST(ExpressionTest, DilatedTransposedAndPoolingSubscripts) {
  const Values x = ramp(11), w = ramp(3);
  const auto got = run(R"(
      param L = 3;
      input X[11], W[L];
      Dilated[i] += X[i + 2 * r] * W[r];
      Flipped[i] += X[i + r] * W[L - r - 1];
      Pooled[i] max= X[2 * i + r] where r < 3;)",
                       {x, w});
  ASSERT_EQ(got.size(), 3u);
  Values dilated, flipped, pooled;
  for (int i = 0; i < 7; ++i) dilated.push_back(x[i] * w[0] + x[i + 2] * w[1] + x[i + 4] * w[2]);
  for (int i = 0; i < 9; ++i) flipped.push_back(x[i] * w[2] + x[i + 1] * w[1] + x[i + 2] * w[0]);
  for (int i = 0; i < 5; ++i) pooled.push_back(std::max({x[2 * i], x[2 * i + 1], x[2 * i + 2]}));
  expectNear(got[0], dilated);
  expectNear(got[1], flipped);
  expectNear(got[2], pooled, 0);
}

TEST(ExpressionTest, BilinearHasThreeFactors) {
  const Values a = ramp(2 * 3), b = ramp(4 * 3 * 2), c = ramp(2 * 2);
  const auto got = run("input A[2,3], B[4,3,2], C[2,2]; O[i,j] += A[i,k] * B[j,k,l] * C[i,l];", {a, b, c});
  Values want(8, 0);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int k = 0; k < 3; ++k)
        for (int l = 0; l < 2; ++l) want[i * 4 + j] += a[i * 3 + k] * b[(j * 3 + k) * 2 + l] * c[i * 2 + l];
  ASSERT_EQ(got.size(), 1u);
  expectNear(got[0], want);
}

TEST(ExpressionTest, ResultMayHaveNoDimensions) {
  const auto got = run("input A[3]; S[] += A[i];", {{1, 2, 4}});
  ASSERT_EQ(got.size(), 1u);
  expectNear(got[0], {7});
}

TEST(ExpressionTest, ALoopMayStopBeforeTheRowItReads) {
  for (const char* subscript : {"i", "i + 0"}) {
    const auto got = run(absl::StrCat("input A[3]; B[i] = A[", subscript, "] where i < 2;"), {{1, 2, 4}});
    ASSERT_EQ(got.size(), 1u);
    expectNear(got[0], {1, 2});
  }
}

TEST(ExpressionTest, ErrorsNameThePlace) {
  struct Case {
    const char* text;
    const char* words;
  };
  for (const Case& wrong : {
           Case{"input A[2]; B[i] = A[i] +;", "line 1, column 26"},
           Case{"input A[2];\nB[i] = C[i];", "line 2, column 8: there is no tensor of this name yet"},
           Case{"input A[2], B[3]; C[i] = A[i] + B[i];", "'i' runs to 3 in 'B', but to 2 in 'A'"},
           Case{"input A[2]; B[] = A[i];", "must be reduced"},
           Case{"input A[2]; B[i] = A[i - 1];", "runs from -1"},
           Case{"input A[2]; B[i] = A[i + 1] where i < 2;", "its extent is 2"},
           Case{"input A[2]; B[i] = 1;", "the extent of 'i' does not follow"},
           Case{"input A[2]; A[i] = A[i];", "defined already"},
           Case{"input A[2]; B[i] = A[i, i];", "has 1 dimensions"},
           Case{"input A[2]; B[i] = A[i / 0];", "positive constant"},
           Case{"input A[2], W[3]; B[i] += A[i + r * 1000000000000000 * 9000] * W[r];", "overflow"},
           Case{"input A[2]: i32; B[i] = A[i] + 0.5;", "no i32"},
           Case{"input A[2]; B[i] = A[i] > 0;", "a condition is no value"},
           Case{"input A[2]; B[i] = frob(A[i]);", "no such function"},
           Case{"input A[2]; B[i] = A[i] $ 1;", "no meaning"},
           Case{"input A[2]; B[i] = sum(sum(A[i]));", "no such function"},
           Case{"input A[2]; output Z;", "'Z' is not defined"},
           Case{"", "no statement"},
       }) {
    const v1::Failure failure = failureFor(wrong.text);
    EXPECT_EQ(failure.reason(), v1::Failure::INVALID_MODEL) << wrong.text;
    EXPECT_NE(failure.message().find(wrong.words), std::string::npos) << wrong.text << "\n" << failure.message();
  }
}

TEST(ExpressionTest, UnboundDimensionsAreNamed) {
  const v1::Failure failure = failureFor("input A[M]; B[i] = A[i];");
  EXPECT_EQ(failure.reason(), v1::Failure::UNBOUND_DIMENSION);
  EXPECT_EQ(failure.found(), "M");
  EXPECT_EQ(failure.fix(), "bind it: --dim M=4, or --shape A=4");
}

TEST(ExpressionTest, NestingAndChainsAreBounded) {
  const std::string open(10'000, '('), chain = [] {
    std::string text = "1";
    for (int i = 0; i < 10'000; ++i) text += "+1";
    return text;
  }();
  for (const std::string& value : {open, chain, std::string(10'000, '-')}) {
    EXPECT_EQ(failureFor("input A[2]; B[i] = " + value + ";").reason(), v1::Failure::LIMIT_EXCEEDED);
  }
}

TEST(MlirTextTest, RunsLinalgAndTosa) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto model = importMlir(context,
                          writeFile(R"(
      func.func @f(%x: tensor<2x3xf32>, %y: tensor<2x3xf32> {tessera.input = "bias"}) -> tensor<2x3xf32> {
        %0 = tosa.add %x, %y : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
        %1 = tosa.tanh %0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
        return %1 : tensor<2x3xf32>
      })",
                                    "model.mlir"),
                          {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->inputs[0].name(), "arg0");
  EXPECT_EQ(model->inputs[1].name(), "bias");
  EXPECT_EQ(model->outputs[0].name(), "result0");
  const Values x = ramp(6), y = ramp(6, 0.5f);
  auto outputs = referenceRun(*std::move(model), {bytesOf(x), bytesOf(y)});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  Values want;
  for (int i = 0; i < 6; ++i) want.push_back(std::tanh(x[i] + y[i]));
  expectNear(valuesOf<float>((*outputs)[0]), want);
}

TEST(MlirTextTest, RefusesWhatItCannotCompile) {
  struct Case {
    const char* text;
    v1::Failure::Reason reason;
  };
  for (const Case& wrong : {
           Case{"func.func @f(", v1::Failure::INVALID_MODEL},
           Case{"module {}", v1::Failure::INVALID_MODEL},
           Case{"func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }",
                v1::Failure::INVALID_MODEL},
           Case{"func.func @f(%x: f32) -> f32 { return %x : f32 }", v1::Failure::INVALID_MODEL},
           Case{"func.func private @f(tensor<2xf32>) -> tensor<2xf32>", v1::Failure::INVALID_MODEL},
           Case{
               "func.func @f(%x: tensor<4294967296x4294967296xf32>) -> tensor<4294967296x4294967296xf32> { return %x : "
               "tensor<4294967296x4294967296xf32> }",
               v1::Failure::LIMIT_EXCEEDED},
       }) {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    auto model = importMlir(context, writeFile(wrong.text, "model.mlir"), {});
    ASSERT_FALSE(model.ok()) << wrong.text;
    EXPECT_EQ(failureOf(model.status()).reason(), wrong.reason) << wrong.text << "\n" << model.status();
  }
}

}  // namespace
}  // namespace tessera::compiler
