// Fourier transforms compared with their defining sum, and the number of operations they take.
#include <cmath>
#include <complex>
#include <numeric>

#include "compiler/import/import.h"
#include "compiler/import/ops/fourier_plan.h"
#include "compiler/import/testing/model_builder.h"
#include "compiler/import/testing/reference_run.h"
#include "gtest/gtest.h"

namespace tessera::compiler {
namespace {

using Complex = std::complex<double>;
using Method = FourierPlan::Method;

FourierPlan complexPlan(int64_t length) { return planTransform({.length = length, .given = length, .bins = length}); }

/// Multiply-adds of complex numbers per point.
double productsPerPoint(const Transform& t) {
  const FourierPlan plan = planTransform(t);
  if (plan.method == Method::kDense) return static_cast<double>(t.given);
  const auto radices = static_cast<double>(std::reduce(plan.radices.begin(), plan.radices.end()));
  if (plan.method == Method::kStages) return radices;
  return 2 * radices * static_cast<double>(plan.convolved) / static_cast<double>(t.length);
}

TEST(FourierPlan, RadicesMultiplyToTheLength) {
  for (int64_t length = 1; length < 3000; ++length) {
    const FourierPlan plan = complexPlan(length);
    const int64_t product = std::accumulate(plan.radices.begin(), plan.radices.end(), int64_t{1}, std::multiplies<>());
    if (plan.method == Method::kStages) EXPECT_EQ(product, length);
    if (plan.method == Method::kChirp) {
      EXPECT_EQ(product, plan.convolved);
      EXPECT_GE(plan.convolved, 2 * length - 1);
    }
  }
}

TEST(FourierPlan, TheMethodFollowsFromTheFactors) {
  EXPECT_EQ(complexPlan(1).method, Method::kDense);
  EXPECT_EQ(complexPlan(13).method, Method::kDense);
  EXPECT_EQ(complexPlan(97).method, Method::kDense);
  EXPECT_EQ(complexPlan(4096).method, Method::kStages);
  EXPECT_EQ(complexPlan(6000).method, Method::kStages);
  EXPECT_EQ(complexPlan(4099).method, Method::kChirp);
  EXPECT_EQ(complexPlan(2 * 4099).method, Method::kChirp);
}

// O(n log n) for every length: products per point are bounded by a multiple of the logarithm.
TEST(FourierPlan, ProductsGrowWithTheLogarithm) {
  for (int64_t length = 256; length <= 1 << 22; length += 1 + length / 97) {
    for (const int64_t points : {length, int64_t{1} << static_cast<int>(std::log2(length))}) {
      const Transform t = {.length = points, .given = points, .bins = points};
      EXPECT_LE(productsPerPoint(t), 32 * std::log2(points)) << points;
    }
  }
  EXPECT_LE(productsPerPoint({.length = 4096, .given = 4096, .bins = 4096}), 4 * 12);
}

TEST(FourierPlan, TheExactTransformIsTheSum) {
  std::vector<Complex> x(30);
  for (int i = 0; i < 30; ++i) x[i] = {std::sin(3 * i), std::cos(5 * i)};
  const std::vector<Complex> y = exactTransform(x, {2, 5, 3});
  for (int64_t k = 0; k < 30; ++k) {
    Complex sum = 0;
    for (int64_t i = 0; i < 30; ++i) sum += x[i] * std::conj(rootOfUnity(i * k, 30));
    EXPECT_LT(std::abs(sum - y[k]), 1e-12);
  }
}

/// The DFT of x (2 rows of `given` numbers) in double precision, imported and interpreted.
std::vector<double> transformed(const std::vector<double>& x, int64_t given, int64_t parts, int64_t length,
                                bool inverse, bool onesided) {
  ModelBuilder b(20);
  b.input("x", {2, given, parts}, onnx::TensorProto::DOUBLE).output("y");
  b.initializer("n", {length}).clear_dims();
  auto& node = b.node("DFT", {"x", "n"}, {"y"});
  setAttribute(node, "inverse", int64_t{inverse});
  setAttribute(node, "onesided", int64_t{onesided});
  mlir::MLIRContext context;
  auto imported = importBytes(context, b.model.SerializeAsString());
  EXPECT_TRUE(imported.ok()) << imported.status();
  if (!imported.ok()) return {};
  auto results = referenceRun(*std::move(imported), {bytesOf<double>(x)});
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? valuesOf<double>((*results)[0]) : std::vector<double>{};
}

struct Signal {
  std::vector<double> x;
  std::vector<std::vector<Complex>> rows;
};

Signal signalOf(int64_t given, int64_t parts) {
  Signal signal;
  for (int64_t row = 0; row < 2; ++row) {
    signal.rows.emplace_back();
    for (int64_t i = 0; i < given; ++i) {
      const double at = static_cast<double>(1 + row + 2 * i);
      const Complex value(std::sin(at), parts == 2 ? std::cos(3 * at) : 0);
      signal.rows.back().push_back(value);
      signal.x.push_back(value.real());
      if (parts == 2) signal.x.push_back(value.imag());
    }
  }
  return signal;
}

Complex sumOf(const std::vector<Complex>& x, int64_t bin, int64_t length, bool inverse) {
  Complex sum = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    const Complex root = rootOfUnity(i * bin, length);
    sum += x[i] * (inverse ? root / static_cast<double>(length) : std::conj(root));
  }
  return sum;
}

class Dft : public testing::TestWithParam<int64_t> {};

TEST_P(Dft, IsTheSumForwardAndBack) {
  const int64_t length = GetParam();
  for (const int64_t parts : {1, 2}) {
    for (const bool inverse : {false, true}) {
      for (const bool onesided : {false, true}) {
        if (onesided && (inverse || parts == 2)) continue;
        // Samples beyond those given are zeros.
        const int64_t given = parts == 1 ? length : std::max<int64_t>(1, length - length / 3);
        const Signal signal = signalOf(given, parts);
        const int64_t bins = onesided ? length / 2 + 1 : length;
        const std::vector<double> y = transformed(signal.x, given, parts, length, inverse, onesided);
        ASSERT_EQ(y.size(), 2 * bins * 2);
        for (int64_t i = 0; i < 2 * bins; ++i) {
          const Complex wanted = sumOf(signal.rows[i / bins], i % bins, length, inverse);
          ASSERT_LT(std::abs(wanted - Complex(y[2 * i], y[2 * i + 1])), 1e-11) << "bin " << i % bins;
        }
      }
    }
  }
}

TEST_P(Dft, OfOneSideIsTheRealSignal) {
  const int64_t length = GetParam(), bins = length / 2 + 1;
  const Signal signal = signalOf(bins, 2);
  const std::vector<double> y = transformed(signal.x, bins, 2, length, true, true);
  ASSERT_EQ(y.size(), 2 * length);
  for (int64_t row = 0; row < 2; ++row) {
    std::vector<Complex> whole(length);
    for (int64_t k = 0; k < length; ++k) {
      const std::vector<Complex>& given = signal.rows[row];
      whole[k] = k < bins ? given[k] : std::conj(given[length - k]);
    }
    whole[0] = whole[0].real();
    if (length % 2 == 0) whole[length / 2] = whole[length / 2].real();
    for (int64_t i = 0; i < length; ++i) {
      ASSERT_NEAR(y[row * length + i], sumOf(whole, i, length, true).real(), 1e-11) << "sample " << i;
    }
  }
}

// Small primes and products of them, stages with and without a separate twiddle pass, and a chirp.
INSTANTIATE_TEST_SUITE_P(Lengths, Dft, testing::Values(1, 2, 7, 48, 100, 191, 250, 256, 382));

// Constants read in each run also appear in `tessera explain`; they must stay small.
TEST(DftOfALongSignal, HasSmallTables) {
  ModelBuilder b(20);
  b.input("x", {1, 1 << 20, 2}).output("y");
  b.node("DFT", {"x"}, {"y"});
  mlir::MLIRContext context;
  auto imported = importBytes(context, b.model.SerializeAsString());
  ASSERT_TRUE(imported.ok()) << imported.status();
  size_t bytes = 0;
  for (const auto& weight : imported->weights) bytes += weight.bytes.size();
  EXPECT_LT(bytes, size_t{1} << 20);
}

}  // namespace
}  // namespace tessera::compiler
