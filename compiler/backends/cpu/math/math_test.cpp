// Mathematical functions against libm: accuracy over ranges, and the extremes (infinities, NaN, denormals).
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/workload_text.h"

namespace tessera::compiler::codegen::testing {
namespace {

struct Function {
  const char* name;
  double (*reference)(double);
  float low, high;  ///< range of random arguments
  double relative;  ///< allowed error relative to the result
  double absolute;  ///< allowed error near zeros of the function
};

double rsqrt(double x) { return 1 / std::sqrt(x); }

const Function kFunctions[] = {{"sqrt", std::sqrt, 0, 1e6F, 2e-7, 0},
                               {"rsqrt", rsqrt, 1e-6F, 1e6F, 2e-6, 0},
                               {"sin", std::sin, -20, 20, 2e-7, 0},
                               {"cos", std::cos, -20, 20, 2e-7, 0},
                               {"floor", std::floor, -100, 100, 0, 0},
                               {"ceil", std::ceil, -100, 100, 0, 0},
                               {"round", std::round, -100, 100, 0, 0},
                               {"roundeven", std::nearbyint, -100, 100, 0, 0},
                               {"absf", std::fabs, -100, 100, 0, 0},
                               {"exp2", std::exp2, -20, 20, 4e-6, 0},
                               {"atan", std::atan, -20, 20, 6e-6, 1e-7},
                               {"asin", std::asin, -1, 1, 5e-6, 1e-6},
                               {"acos", std::acos, -1, 1, 5e-6, 1e-6},
                               {"sinh", std::sinh, -10, 10, 5e-6, 1e-6},
                               {"cosh", std::cosh, -10, 10, 5e-6, 1e-6},
                               {"tan", std::tan, -1.5F, 1.5F, 5e-6, 1e-6},
                               {"asinh", std::asinh, -10, 10, 1e-5, 1e-6},
                               {"acosh", std::acosh, 1.01F, 10, 1e-5, 1e-6},
                               {"atanh", std::atanh, -0.9F, 0.9F, 1e-5, 1e-6},
                               {"log2", std::log2, 1e-6F, 1e6F, 2e-6, 1e-7},
                               {"log10", std::log10, 1e-6F, 1e6F, 4e-6, 1e-7},
                               {"cbrt", std::cbrt, -100, 100, 4e-6, 1e-6},
                               {"erfc", std::erfc, -3, 5, 1e-5, 0},
                               {"trunc", std::trunc, -100, 100, 0, 0}};

std::vector<float> evaluated(const std::string& name, const std::vector<float>& x) {
  WorkloadText text;
  const auto n = static_cast<int64_t>(x.size());
  const Tensor y =
      text.generic({text.argument({n})}, {"d0", "d0"}, text.empty({n}), 1, "", "%r = math." + name + " %i0 : f32");
  auto built = buildByDefault(hostUnit(text.finish({y})));
  EXPECT_TRUE(built.ok()) << name << ": " << built.status().message();
  if (!built.ok()) return x;
  auto loaded = LoadedUnit::load(*built);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  std::vector<float> in = x, out(x.size());
  (*loaded)->run({in.data(), out.data()}, 2);
  return out;
}

/// Reciprocals distinguish zeros of the two signs.
template <typename T, typename Reference>
void expectSignsOfZeros(const char* name, Reference reference, T low, T high,
                        const std::function<std::vector<T>(const std::vector<T>&)>& function) {
  std::vector<T> x;
  for (int i = 0; i < 37; ++i)  // vectors and a remainder
    if (const T zero = i % 2 == 0 ? T{0} : -T{0}; low <= 0 && high >= 0) x.push_back(zero);
  if (x.empty()) return;
  const std::vector<T> y = function(x);
  for (size_t i = 0; i < x.size(); ++i)
    if (const auto expected = static_cast<T>(reference(x[i])); expected == 0) {
      EXPECT_EQ(y[i], 0) << name;
      EXPECT_EQ(std::signbit(y[i]), std::signbit(expected)) << name << "(" << x[i] << ")";
    }
}

class MathFunction : public ::testing::TestWithParam<Function> {};

TEST_P(MathFunction, IsAccurate) {
  const Function& f = GetParam();
  std::mt19937 random(7);
  std::uniform_real_distribution<float> real(f.low, f.high);
  std::vector<float> x;
  for (int i = 0; i < 20011; ++i) x.push_back(real(random));
  const std::vector<float> y = evaluated(f.name, x);
  double worst = 0;
  float at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = f.reference(x[i]);
    const double excess = std::fabs(y[i] - expected) - f.absolute - f.relative * std::fabs(expected);
    if (excess > worst || std::isnan(y[i])) {
      worst = std::isnan(y[i]) ? 1e30 : excess;
      at = x[i];
    }
  }
  EXPECT_EQ(worst, 0) << f.name << "(" << at << ")";
  expectSignsOfZeros<float>(f.name, f.reference, f.low, f.high,
                            [&](const std::vector<float>& zeros) { return evaluated(f.name, zeros); });
}

INSTANTIATE_TEST_SUITE_P(All, MathFunction, ::testing::ValuesIn(kFunctions),
                         [](const auto& info) { return std::string(info.param.name); });

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct SingleFunction {
  const char* name;
  const char* body;
  double (*reference)(double);
  float low, high;
  double ulps;  ///< stated in math_single.h
};

const SingleFunction kSingleFunctions[] = {
    {"exp", "%r = math.exp %i0 : f32", std::exp, -87.3365F, 88.7228F, 1.5},
    {"exp_at_most_one", "%r = math.exp %i0 {tessera.at_most_zero} : f32", std::exp, -87.3365F, 0, 1.5},
    {"expm1", "%r = math.expm1 %i0 : f32", std::expm1, -200, 88.7F, 2},
    {"log", "%r = math.log %i0 : f32", std::log, 1e-45F, 3.4e38F, 1.5},
    {"log1p", "%r = math.log1p %i0 : f32", std::log1p, -0.9999999F, 3.4e38F, 1.5},
    {"tanh", "%r = math.tanh %i0 : f32", std::tanh, -3.4e38F, 3.4e38F, 1.5},
    {"erf", "%r = math.erf %i0 : f32", std::erf, -3.4e38F, 3.4e38F, 1.5},
    {"sin", "%r = math.sin %i0 : f32", std::sin, -3.4e38F, 3.4e38F, 1.5},
    {"cos", "%r = math.cos %i0 : f32", std::cos, -3.4e38F, 3.4e38F, 1.5},
    {"tan", "%r = math.tan %i0 : f32", std::tan, -3.4e38F, 3.4e38F, 3.5},
    {"sinh", "%r = math.sinh %i0 : f32", std::sinh, -89.4F, 89.4F, 5},
    {"cosh", "%r = math.cosh %i0 : f32", std::cosh, -89.4F, 89.4F, 4},
    {"asinh", "%r = math.asinh %i0 : f32", std::asinh, -3.4e38F, 3.4e38F, 4},
    {"acosh", "%r = math.acosh %i0 : f32", std::acosh, 1, 3.4e38F, 4},
    {"acosh_of_less", "%r = math.acosh %i0 : f32", std::acosh, -3.4e38F, 0.99999994F, 4},
    {"atanh", "%r = math.atanh %i0 : f32", std::atanh, -0.99999994F, 0.99999994F, 4},
    {"sigmoid",
     "%one = arith.constant 1.0 : f32\n %n = arith.negf %i0 : f32\n %e = math.exp %n : f32\n"
     "%s = arith.addf %one, %e : f32\n %r = arith.divf %one, %s : f32",
     sigmoid, -87, 3.4e38F, 2.5}};

/// With this machine's instructions, and with those of a machine without fused multiply-add.
class SingleMath : public ::testing::TestWithParam<std::tuple<SingleFunction, bool>> {};

/// Floats of every magnitude and both signs, denormal ones included: each 1511th bit pattern.
TEST_P(SingleMath, HoldsItsUlps) {
  const auto& [f, plain] = GetParam();
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 1511) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (value >= f.low && value <= f.high) x.push_back(value);
  }
  // And next to multiples of pi / 2, where sine or cosine vanishes.
  for (int n = -2000; n <= 2000; ++n)
    if (const auto value = static_cast<float>(n * 1.57079632679489661923); value >= f.low && value <= f.high)
      x.push_back(value);
  WorkloadText text;
  const auto n = static_cast<int64_t>(x.size());
  const Tensor result = text.generic({text.argument({n})}, {"d0", "d0"}, text.empty({n}), 1, "", f.body);
  v1::BuildUnit unit = hostUnit(text.finish({result}));
  if (plain) {
    if (!unit.code().triple().starts_with("x86_64")) GTEST_SKIP() << "x86-64-v2 is a machine of another family";
    unit.mutable_code()->set_cpu("x86-64-v2");
    unit.clear_intrinsics();  // this host's
    unit.mutable_registers()->set_vector_bits(128);
    unit.mutable_registers()->set_vector_count(16);
  }
  auto built = buildByDefault(unit);
  ASSERT_TRUE(built.ok()) << built.status().message();
  auto loaded = LoadedUnit::load(*built);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  std::vector<float> y(x.size());
  (*loaded)->run({x.data(), y.data()}, 1);
  double worst = 0;
  float at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = f.reference(x[i]);
    // An ulp of a denormal number is that of the smallest normal one: such results are either flushed or exact.
    const float near = std::max(std::fabs(static_cast<float>(expected)), std::numeric_limits<float>::min());
    const double ulp = near < std::numeric_limits<float>::max()
                           ? std::nextafter(near, std::numeric_limits<float>::infinity()) - near
                           : 0x1p104;
    const bool right = std::isnan(expected) && std::isnan(y[i]);
    const double error = right ? 0 : std::isfinite(y[i]) ? std::fabs(y[i] - expected) / ulp : 1e30;
    if (!(error <= worst)) {
      worst = error;
      at = x[i];
    }
  }
  EXPECT_LE(worst, f.ulps) << f.name << "(" << at << ")";
  RecordProperty("ulps", std::to_string(worst));
  expectSignsOfZeros<float>(f.name, f.reference, f.low, f.high, [&](std::vector<float> zeros) {
    zeros.resize(x.size());
    std::vector<float> found(x.size());
    (*loaded)->run({zeros.data(), found.data()}, 1);
    found.resize(37);
    return found;
  });
}

INSTANTIATE_TEST_SUITE_P(All, SingleMath, ::testing::Combine(::testing::ValuesIn(kSingleFunctions), ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) +
                                  (std::get<1>(info.param) ? "_x86_64_v2" : "_host");
                         });

std::vector<double> evaluatedDouble(const std::string& name, const std::vector<double>& x) {
  WorkloadText text;
  const auto n = static_cast<int64_t>(x.size());
  const Tensor y = text.generic({text.argument({n}, "f64")}, {"d0", "d0"}, text.empty({n}, "f64"), 1, "",
                                "%r = math." + name + " %i0 : f64");
  auto built = buildByDefault(hostUnit(text.finish({y})));
  EXPECT_TRUE(built.ok()) << name << ": " << built.status().message();
  if (!built.ok()) return x;
  auto loaded = LoadedUnit::load(*built);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  std::vector<double> in = x, out(x.size());
  (*loaded)->run({in.data(), out.data()}, 2);
  return out;
}

struct DoubleFunction {
  const char* name;
  long double (*reference)(long double);
  double low, high;
  double ulps;  ///< stated in math_double.h
};

const DoubleFunction kDoubleFunctions[] = {
    {"exp", expl, -708, 709, 2},     {"exp2", exp2l, -1021, 1023, 2}, {"expm1", expm1l, -40, 40, 5},
    {"log", logl, 1e-300, 1e300, 2}, {"log2", log2l, 1e-3, 1e6, 3},   {"log1p", log1pl, -0.99, 100, 2},
    {"tanh", tanhl, -20, 20, 5},     {"sinh", sinhl, -700, 700, 5},   {"cosh", coshl, -700, 700, 5},
    {"sin", sinl, -8e307, 8e307, 3}, {"cos", cosl, -8e307, 8e307, 3}, {"tan", tanl, -8e307, 8e307, 5},
    {"atan", atanl, -50, 50, 2},     {"asin", asinl, -1, 1, 5},       {"acos", acosl, -1, 1, 5},
    {"asinh", asinhl, -100, 100, 5}, {"acosh", acoshl, 1.0, 100, 5},  {"atanh", atanhl, -0.999, 0.999, 5},
    {"erf", erfl, -6, 6, 2},         {"erfc", erfcl, -5, 26, 5},      {"cbrt", cbrtl, -1e3, 1e3, 2},
    {"round", roundl, -1e9, 1e9, 0}, {"sqrt", sqrtl, 0, 1e300, 0.51}};

class DoubleMath : public ::testing::TestWithParam<DoubleFunction> {};

// Half of the arguments are uniform, half uniform in magnitude, so that small ones occur too.
TEST_P(DoubleMath, HoldsItsUlps) {
  const DoubleFunction& f = GetParam();
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> real(f.low, f.high), magnitude(-12, 0);
  std::vector<double> x;
  for (int i = 0; i < 20011; ++i) {
    x.push_back(real(random));
    const double small = real(random) * std::pow(10.0, magnitude(random));
    if (small >= f.low && small <= f.high) x.push_back(small);
  }
  const std::vector<double> y = evaluatedDouble(f.name, x);
  double worst = 0, at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const long double expected = f.reference(static_cast<long double>(x[i]));
    const double near = std::fabs(static_cast<double>(expected));
    const double ulp = std::nextafter(near, std::numeric_limits<double>::infinity()) - near;
    const double error = std::isfinite(y[i]) ? static_cast<double>(fabsl(y[i] - expected) / ulp) : 1e30;
    if (error > worst) {
      worst = error;
      at = x[i];
    }
  }
  EXPECT_LE(worst, f.ulps) << f.name << "(" << at << ")";
  RecordProperty("ulps", std::to_string(worst));
  expectSignsOfZeros<double>(f.name, f.reference, f.low, f.high,
                             [&](const std::vector<double>& zeros) { return evaluatedDouble(f.name, zeros); });
}

INSTANTIATE_TEST_SUITE_P(All, DoubleMath, ::testing::ValuesIn(kDoubleFunctions),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DoubleMathExtremes, FollowTheLimits) {
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> x{0.0,     -0.0,     kInf, -kInf, kNan,   5e-324, -5e-324,
                              1.7e308, -1.7e308, 1.0,  -1.0,  1000.0, -800.0};
  const struct {
    const char* name;
    double (*reference)(double);
  } kCases[] = {{"exp", std::exp},   {"log", std::log},     {"tanh", std::tanh},
                {"erf", std::erf},   {"atan", std::atan},   {"expm1", std::expm1},
                {"cbrt", std::cbrt}, {"log1p", std::log1p}, {"acosh", std::acosh}};
  for (const auto& [name, reference] : kCases) {
    const std::vector<double> y = evaluatedDouble(name, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = reference(x[i]);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(y[i])) << name << "(" << x[i] << ") = " << y[i];
      } else if (std::isinf(expected) || expected == 0) {
        EXPECT_EQ(y[i], expected) << name << "(" << x[i] << ")";
      } else {
        EXPECT_NEAR(y[i] / expected, 1, 1e-15) << name << "(" << x[i] << ")";
      }
    }
  }
}

TEST(MathExtremes, FollowTheLimits) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x{0.0F, -0.0F, kInf, -kInf, kNan, 1e-40F, -1e-40F, 3e38F, -3e38F, 100.0F, -110.0F};
  for (const auto& [name, reference] : std::initializer_list<std::pair<const char*, double (*)(double)>>{
           {"exp", std::exp}, {"tanh", std::tanh}, {"erf", std::erf}, {"sqrt", std::sqrt}, {"log", std::log}}) {
    const std::vector<float> y = evaluated(name, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const auto expected = static_cast<float>(reference(x[i]));
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(y[i])) << name << "(" << x[i] << ") = " << y[i];
      } else if (std::isinf(expected)) {
        EXPECT_EQ(y[i], expected) << name << "(" << x[i] << ")";
      } else {
        // A result below the smallest normal number may be flushed.
        EXPECT_NEAR(y[i], expected, 2e-6 * std::fabs(expected) + 1.2e-38) << name << "(" << x[i] << ")";
      }
    }
  }
}

TEST(MathExtremes, OfPowersAtMostOne) {
  std::vector<float> x{0.0F, -0.0F, -std::numeric_limits<float>::infinity(), -87.4F, -3e38F, -1e-40F};
  for (uint32_t payload : {0x7fc00000U, 0xffc00000U, 0x7f800001U, 0x7fffffffU, 0xffabcdefU})
    x.push_back(std::bit_cast<float>(payload));
  WorkloadText text;
  const auto n = static_cast<int64_t>(x.size());
  const Tensor result = text.generic({text.argument({n})}, {"d0", "d0"}, text.empty({n}), 1, "",
                                     "%r = math.exp %i0 {tessera.at_most_zero} : f32");
  auto built = buildByDefault(hostUnit(text.finish({result})));
  ASSERT_TRUE(built.ok()) << built.status().message();
  auto loaded = LoadedUnit::load(*built);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  std::vector<float> y(x.size());
  (*loaded)->run({x.data(), y.data()}, 1);
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(y[i])) << i;
    } else {
      EXPECT_EQ(y[i], x[i] > -1 ? 1 : 0) << x[i];
    }
  }
}

TEST(MathPower, IsAccurate) {
  WorkloadText text;
  constexpr int64_t kCount = 4099;
  const Tensor y = text.generic({text.argument({kCount}), text.argument({kCount})}, {"d0", "d0", "d0"},
                                text.empty({kCount}), 1, "", "%r = math.powf %i0, %i1 : f32");
  auto built = buildByDefault(hostUnit(text.finish({y})));
  ASSERT_TRUE(built.ok()) << built.status().message();
  auto loaded = LoadedUnit::load(*built);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  std::mt19937 random(3);
  std::uniform_real_distribution<float> base(0.01F, 10), exponent(-4, 4);
  std::vector<float> a(kCount), b(kCount), out(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    a[i] = base(random);
    b[i] = i % 3 ? exponent(random) : static_cast<float>(i % 5);
  }
  (*loaded)->run({a.data(), b.data(), out.data()}, 1);
  for (int64_t i = 0; i < kCount; ++i) {
    const double expected = std::pow(static_cast<double>(a[i]), static_cast<double>(b[i]));
    ASSERT_NEAR(out[i], expected, 1e-5 * std::fabs(expected)) << a[i] << " ^ " << b[i];
  }
}

/// Every function must compile for every floating-point type, without a call out of the object.
TEST(MathTypes, NeedNoLibrary) {
  for (const char* type : {"f64", "f16", "bf16"})
    for (const Function& function : kFunctions) {
      WorkloadText text;
      const Tensor y = text.generic({text.argument({37}, type)}, {"d0", "d0"}, text.empty({37}, type), 1, "",
                                    std::string("%r = math.") + function.name + " %i0 : " + type);
      checkWorkload(text.finish({y}), {.low = 0.1, .high = 0.9});
    }
}

/// Edges of vectors, transposes and strides of a type that most chips cannot add: masked loads and stores, shuffles.
TEST(MathTypes, MovesOfHalvesNeedNoLibrary) {
  for (const char* type : {"f16", "bf16"}) {
    WorkloadText text;
    const std::string largest = std::string("%r = arith.maximumf %i0, %o : ") + type;
    const Tensor reduced = text.generic({text.argument({4, 3, 13, 9, 31}, type)}, {"d0, d1, d2, d3, d4", "d1, d4, d3"},
                                        text.fill({3, 31, 9}, "0.0", type), 5, "rprpp", largest);
    const Tensor turned =
        text.generic({reduced, text.argument({31, 9, 3}, type)}, {"d0, d1, d2", "d1, d2, d0", "d2, d0, d1"},
                     text.empty({9, 3, 31}, type), 3, "", std::string("%r = arith.addf %i0, %i1 : ") + type);
    checkWorkload(text.finish({turned}), {});
  }
}

/// One number for all lanes that is compared, selected, and converted to an integer and a double: for this host and for
/// one without bf16 conversions.
TEST(MathTypes, ReadingHalvesNeedsNoLibrary) {
  for (const std::string type : {"f16", "bf16"})
    for (const int64_t count : {1, 7, 37})
      for (const unsigned seed : {1U, 3U}) {
        WorkloadText text;
        const Tensor x = text.argument({count}, type), bound = text.argument({}, type);
        const std::vector<std::string> maps = {"d0", "", "d0"};
        const std::string of_two = " %i0, %i1 : " + type;
        const Tensor least = text.generic({x, bound}, maps, text.empty({count}, type), 1, "",
                                          "%c = arith.cmpf olt," + of_two + "\n    %r = arith.select %c," + of_two);
        const Tensor whole =
            text.generic({x, bound}, maps, text.empty({count}, "i32"), 1, "",
                         "%a = arith.fptosi %i0 : " + type + " to i32\n    %b = arith.fptosi %i1 : " + type +
                             " to i32\n    %r = arith.subi %a, %b : i32");
        const Tensor wide =
            text.generic({x, bound}, maps, text.empty({count}, "f64"), 1, "",
                         "%a = arith.extf %i0 : " + type + " to f64\n    %b = arith.extf %i1 : " + type +
                             " to f64\n    %r = arith.subf %a, %b : f64");
        checkWorkload(text.finish({least, whole, wide}), {.seed = seed, .low = -9, .high = 9});
      }
}

// A double slightly above or below the midpoint of two halves is rounded to the midpoint in f32; a second rounding
// would then go to the even neighbour.
TEST(MathTypes, DoublesAreRoundedToHalvesOnce) {
  for (const char* element : {"f16", "bf16"})
    for (const char* value : {"1.00048828125000000001e+00", "1.000488281251", "1.000488281249", "-1.001464843749",
                              "1.00390625000001", "1.00390624999999", "65519.999", "65520.0001", "1.0e-300", "5.97e-8"})
      for (const int64_t count : {1, 3, 40}) {
        WorkloadText text;
        const Tensor x = text.argument({count}, "f64");
        const std::string body = std::string("%zero = arith.constant 0.0 : f64\n    %c = arith.constant ") + value +
                                 " : f64\n    %n = arith.mulf %i0, %zero : f64\n    %s = arith.addf %n, %c : f64\n"
                                 "    %r = arith.truncf %s : f64 to " +
                                 element;
        checkWorkload(text.finish({text.generic({x}, {"d0", "d0"}, text.empty({count}, element), 1, "", body)}));
      }
}

TEST(MathTypes, Remainder) {
  for (const char* type : {"f32", "f64"}) {
    WorkloadText text;
    const Tensor y = text.generic({text.argument({37}, type), text.argument({37}, type)}, {"d0", "d0", "d0"},
                                  text.empty({37}, type), 1, "", std::string("%r = arith.remf %i0, %i1 : ") + type);
    checkWorkload(text.finish({y}), {.low = -50, .high = 70});
  }
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing
