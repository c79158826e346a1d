// Functions at and beyond the ends of their ranges, against libm: NaN, infinities, denormals, zeros of both signs,
// numbers so large that they have no fractional bits.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/workload_text.h"

namespace tessera::compiler::codegen::testing {
namespace {

template <typename T>
std::vector<T> numbers() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> found;
  for (const T x : {T{0},
                    Limits::denorm_min(),
                    Limits::min() / 4,
                    Limits::min(),
                    T(0.1),
                    T(0.5),
                    T(0.99),
                    1 - Limits::epsilon() / 2,
                    T{1},
                    1 + Limits::epsilon(),
                    T(1.5),
                    T{2},
                    T(2.5),
                    T{3},
                    T(3.14159274),
                    T{7},
                    T{20},
                    T(88.7),
                    T{100},
                    T(103.5),
                    T(1e4),
                    T(16777215),
                    T(33554431),
                    T(8388609.5),
                    T(1e10),
                    T(1e30),
                    Limits::max() / 3,
                    Limits::max(),
                    Limits::infinity(),
                    Limits::quiet_NaN()}) {
    found.push_back(x);
    found.push_back(-x);
  }
  return found;
}

/// The results of `body` for pairs, or for the first number of each.
template <typename T>
std::vector<T> evaluated(const std::string& body, std::vector<T> x, std::vector<T> y) {
  const std::string type = sizeof(T) == 4 ? "f32" : "f64";
  WorkloadText text;
  const auto n = static_cast<int64_t>(x.size());
  const Tensor a = text.argument({n}, type), b = text.argument({n}, type);
  const Tensor result =
      text.generic({a, b}, {"d0", "d0", "d0"}, text.empty({n}, type), 1, "", "%r = " + body + " : " + type);
  auto built = buildByDefault(hostUnit(text.finish({result})));
  EXPECT_TRUE(built.ok()) << body << ": " << built.status().message();
  if (!built.ok()) return x;
  auto loaded = LoadedUnit::load(*built);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  std::vector<T> out(x.size());
  (*loaded)->run({x.data(), y.data(), out.data()}, 2);
  return out;
}

template <typename T>
class Limits : public ::testing::Test {
 public:
  /// All pairs of numbers(): equal to the reference, or within `ulps` of it.
  static void check(const std::string& body, T (*reference)(T, T), double ulps) {
    std::vector<T> x, y;
    for (const T a : numbers<T>())
      for (const T b : numbers<T>()) {
        x.push_back(a);
        y.push_back(b);
      }
    std::mt19937_64 random(3);
    for (int i = 0; i < 20000; ++i)
      for (auto* of : {&x, &y}) of->push_back(std::bit_cast<T>(static_cast<Bits>(random())));
    const std::vector<T> found = evaluated<T>(body, x, y);
    int wrong = 0;
    for (size_t i = 0; i < x.size() && wrong < 10; ++i) {
      const T expected = reference(x[i], y[i]);
      // The loss of accuracy grows with the logarithm of the result.
      const T loss = sizeof(T) == 8 ? std::max(T{1}, std::fabs(std::log(std::fabs(expected)))) : T{1};
      const T bound =
          T(ulps) *
          std::max(std::numeric_limits<T>::denorm_min(), std::fabs(expected) * std::numeric_limits<T>::epsilon()) *
          loss;
      bool right = std::fabs(found[i] - expected) <= bound;
      if (std::isnan(expected)) {
        right = std::isnan(found[i]);
        // near overflow the error may turn infinity into the largest number
      } else if (std::isinf(expected) && ulps > 0) {
        right = std::signbit(found[i]) == std::signbit(expected) &&
                std::fabs(found[i]) >= std::numeric_limits<T>::max() * T(1 - 1e-12);
      } else if (ulps == 0 || expected == 0) {
        right = found[i] == expected && std::signbit(found[i]) == std::signbit(expected);
      }
      if (!right) {
        ADD_FAILURE() << body << " of " << x[i] << " and " << y[i] << ": " << found[i] << ", not " << expected;
        ++wrong;
      }
    }
  }

 private:
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
};

using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Limits, Types);

TYPED_TEST(Limits, OfPowersAreThoseOfC) { this->check("math.powf %i0, %i1", std::pow, 2); }
TYPED_TEST(Limits, OfRemaindersAreThoseOfC) { this->check("arith.remf %i0, %i1", std::fmod, 0); }

// The doubles and floats nearest to multiples of pi / 2 (Muller, "Elementary functions", table 11.1): in the reduced
// argument all but the last bits cancel.
TEST(FarOut, SinesNextToTheirZerosKeepTheirBits) {
  const std::vector<double> x{0x1.6ac5b262ca1ffp+849,
                              6381956970095103 * 0x1p797,
                              -6381956970095103 * 0x1p797,
                              0x1.921fb54442d18p+60,
                              1e22,
                              1e6 + 0.5,
                              1.7e308,
                              -1.7e308,
                              0.5};
  const std::vector<float> single{16367173 * 0x1p72F, -16367173 * 0x1p72F, 0x1.47d0fep34F, 3.4e38F, 1e20F, 1e6F, 2e6F};
  for (const auto& [name, reference] : std::initializer_list<std::pair<const char*, long double (*)(long double)>>{
           {"sin", sinl}, {"cos", cosl}, {"tan", tanl}}) {
    const std::vector<double> y = evaluated<double>(std::string("math.") + name + " %i0", x, x);
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(static_cast<double>(y[i] / reference(x[i])), 1, 1.2e-15) << name << "(" << x[i] << ")";
    const std::vector<float> z = evaluated<float>(std::string("math.") + name + " %i0", single, single);
    for (size_t i = 0; i < single.size(); ++i)
      EXPECT_NEAR(static_cast<double>(z[i] / reference(single[i])), 1, 4.5e-7) << name << "(" << single[i] << ")";
  }
}

TEST(FarOut, SinesOfInfinitiesAreNone) {
  const std::vector<float> x{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN(), 1e30F, 1};
  const std::vector<float> y = evaluated<float>("math.sin %i0", x, x);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(y[i])) << x[i];
  for (int i = 3; i < 5; ++i) EXPECT_NEAR(y[i], std::sin(double{x[i]}), 1e-7);
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing
