// Divisions by constants and saturating conversions against the host's own, bit by bit.
#include "compiler/backends/cpu/math/rescaling.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/workload_text.h"

namespace tessera::compiler::codegen::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

/// The results of the body for each x; `type` is the result type.
template <typename Result>
std::vector<Result> evaluated(const std::string& body, const std::string& type, const std::vector<float>& x) {
  WorkloadText text;
  const auto n = static_cast<int64_t>(x.size());
  const Tensor y = text.generic({text.argument({n})}, {"d0", "d0"}, text.empty({n}, type), 1, "", body);
  std::vector<Result> out(x.size());
  auto built = buildByDefault(hostUnit(text.finish({y})));
  EXPECT_TRUE(built.ok()) << built.status().message();
  if (!built.ok()) return out;
  auto loaded = LoadedUnit::load(*built);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  std::vector<float> in = x;
  (*loaded)->run({in.data(), out.data()}, 1);
  return out;
}

void expectQuotients(const std::vector<float>& x, float divisor) {
  const std::string body = absl::StrFormat("%%c = arith.constant 0x%08X : f32\n    %%r = arith.divf %%i0, %%c : f32",
                                           std::bit_cast<uint32_t>(divisor));
  const std::vector<float> y = evaluated<float>(body, "f32", x);
  for (size_t i = 0; i < x.size(); ++i) {
    const float expected = x[i] / divisor;
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(y[i])) << x[i] << " / " << divisor;
    } else if (std::fabs(x[i]) >= 0x1p-100F || x[i] == 0) {
      ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(expected)) << x[i] << " / " << divisor;
    } else {
      ASSERT_LE(std::abs(static_cast<int64_t>(std::bit_cast<uint32_t>(y[i])) -
                         static_cast<int64_t>(std::bit_cast<uint32_t>(expected))),
                1)
          << x[i] << " / " << divisor;
    }
  }
}

/// 0x1.fffffep0 has all bits of its mantissa set, the hardest case of the method's proof.
constexpr float kDivisors[] = {
    3,     0.1F,       0.02F, 0.0039215689F, 7,  255,    0x1.fffffep0F, 0x1.fffffep-7F, 0x1.000002p0F, 1e-20F,
    1e20F, 1.4142135F, 4,     0x1p-90F,      -3, 1e-38F, 1e38F};

TEST(Rescaling, QuotientsByConstantsAreThoseOfADivision) {
  std::vector<float> x{0.0F,   -0.0F,   kInf,  -kInf, kNan, std::numeric_limits<float>::max(),
                       1e-45F, -1e-40F, 3e38F, -1e37F};
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4099)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (float divisor : kDivisors) expectQuotients(x, divisor);
  std::mt19937 random(5);
  for (int i = 0; i < 12; ++i) {
    const float divisor =
        std::ldexp(std::uniform_real_distribution<float>(1, 2)(random), static_cast<int>(random() % 120) - 60);
    std::vector<float> some;
    for (int j = 0; j < 20000; ++j) some.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    // Neighbours of half-integers are the numbers where quantization rounds.
    for (int j = 0; j < 2000; ++j) some.push_back((static_cast<float>(j) + 0.5F) * divisor);
    expectQuotients(some, divisor);
  }
}

/// Every mantissa: exponents only scale, except for the smallest ones.
TEST(Rescaling, QuotientsOfEveryMantissa) {
  std::vector<float> x;
  for (uint32_t bits = 0; bits < (1U << 23); ++bits) x.push_back(std::bit_cast<float>(0x3f800000U | bits));
  for (float divisor : {0.02F, 3.0F, 0x1.fffffep0F, 0x1.fffffcp0F, 0x1.000002p0F}) expectQuotients(x, divisor);
}

/// In the form that import emits (Scalars::floatToInteger).
std::string saturating(const std::string& to, bool is_unsigned, int64_t lowest, int64_t highest, double below,
                       const std::string& x) {
  return absl::StrFormat(
      "%%zero = arith.constant 0.0 : f32\n    %%from = arith.constant %.1f : f32\n    %%to = arith.constant %d.0 : "
      "f32\n"
      "    %%lowest = arith.constant %d : %s\n    %%highest = arith.constant %d : %s\n"
      "%s"
      "    %%below = arith.cmpf ole, %%x, %%from : f32\n    %%above = arith.cmpf oge, %%x, %%to : f32\n"
      "    %%nan = arith.cmpf une, %%x, %%x : f32\n    %%either = arith.ori %%below, %%above : i1\n"
      "    %%unsafe = arith.ori %%nan, %%either : i1\n    %%safe = arith.select %%unsafe, %%zero, %%x : f32\n"
      "    %%whole = arith.%s %%safe : f32 to %s\n    %%inner = arith.select %%above, %%highest, %%whole : %s\n"
      "    %%r = arith.select %%below, %%lowest, %%inner : %s",
      below, highest + 1, lowest, to, highest, to, x, is_unsigned ? "fptoui" : "fptosi", to, to, to);
}

/// For x rounded to even, with `zero_point` added.
template <typename T>
void expectSaturation(const std::vector<float>& x, int zero_point = 0) {
  const std::string type = absl::StrCat("i", sizeof(T) * 8);
  constexpr int64_t kLowest = std::numeric_limits<T>::min(), kHighest = std::numeric_limits<T>::max();
  const std::string body = saturating(
      type, kLowest == 0, kLowest, kHighest, kLowest == 0 ? -1.0 : static_cast<double>(kLowest),
      absl::StrFormat("    %%even = math.roundeven %%i0 : f32\n    %%zero_point = arith.constant %d.0 : f32\n"
                      "    %%x = arith.addf %%even, %%zero_point : f32\n",
                      zero_point));
  const std::vector<T> y = evaluated<T>(body, type, x);
  for (size_t i = 0; i < x.size(); ++i) {
    const float whole = std::nearbyint(x[i]);
    const double expected = std::isnan(whole) ? 0 : std::fmin(std::fmax(whole + zero_point, kLowest), kHighest);
    ASSERT_EQ(y[i], static_cast<T>(expected)) << x[i] << " to " << type;
  }
}

TEST(Rescaling, ConversionsSaturateAndNanIsZero) {
  std::vector<float> x{0.0F, -0.0F,  kInf,   -kInf, kNan,     -kNan,  0.5F,     -0.5F, -0.99F, 127.5F, 128,  -128.5F,
                       -129, 255.5F, 254.5F, 256,   32767.5F, -32769, 65535.5F, 65536, 1e10F,  -1e10F, 3e38F};
  std::mt19937 random(9);
  for (int i = 0; i < 5000; ++i) x.push_back(std::uniform_real_distribution<float>(-400, 400)(random));
  for (int i = 0; i < 5000; ++i) x.push_back(std::uniform_real_distribution<float>(-1e5F, 1e5F)(random));
  // Halves, which round to the even neighbour, and their neighbours.
  for (int i = -300; i <= 300; ++i)
    for (float half : {static_cast<float>(i) + 0.5F})
      for (float each : {half, std::nextafter(half, -kInf), std::nextafter(half, kInf)}) x.push_back(each);
  for (int zero_point : {0, 1, 2, 117, 128, -77}) {
    expectSaturation<uint8_t>(x, zero_point);
    expectSaturation<int8_t>(x, zero_point);
    expectSaturation<uint16_t>(x, zero_point);
    expectSaturation<int16_t>(x, zero_point);
  }
}

TEST(Rescaling, WhatIsQuantizedAndMadeRealAgainIsTheSameNumber) {
  std::vector<float> x{0.0F, -0.0F, kInf, -kInf, kNan, 0.5F, -0.5F, 1.5F, 1e30F, -1e30F};
  for (int i = -400; i <= 400; ++i)
    for (float half : {static_cast<float>(i) * 0.5F, static_cast<float>(i) * 0.37F}) x.push_back(half);
  for (const bool is_unsigned : {true, false})
    // read with the other signedness than written: the sign bit matters
    for (const bool reads_unsigned : {true, false})
      for (int zero_point : {0, 1, 117, 128, -5})
        for (int taken : {0, zero_point, 3}) {
          const int lowest = is_unsigned ? 0 : -128, highest = is_unsigned ? 255 : 127;
          std::string body = saturating("i8", is_unsigned, lowest, highest, is_unsigned ? -1.0 : -128.0,
                                        absl::StrFormat("    %%even = math.roundeven %%i0 : f32\n"
                                                        "    %%zero_point = arith.constant %d.0 : f32\n"
                                                        "    %%x = arith.addf %%even, %%zero_point : f32\n",
                                                        zero_point));
          body.replace(body.rfind("%r ="), 4, "%q =");
          absl::StrAppendFormat(&body,
                                "\n    %%w = arith.%s %%q : i8 to i32\n    %%taken = arith.constant %d : i32\n"
                                "    %%d = arith.subi %%w, %%taken : i32\n    %%r = arith.sitofp %%d : i32 to f32",
                                reads_unsigned ? "extui" : "extsi", taken);
          const std::vector<float> y = evaluated<float>(body, "f32", x);
          for (size_t i = 0; i < x.size(); ++i) {
            const float whole = std::nearbyint(x[i]) + static_cast<float>(zero_point);
            const int stored = std::isnan(whole) ? 0 : static_cast<int>(std::fmin(std::fmax(whole, lowest), highest));
            const int read = reads_unsigned ? stored & 255 : static_cast<int8_t>(stored);
            ASSERT_EQ(y[i], static_cast<float>(read - taken)) << x[i] << " + " << zero_point << " - " << taken;
          }
        }
}

TEST(Rescaling, WhatIsNotRoundedIsConvertedTowardZero) {
  for (float scale : {1.0F, 0.37F}) {
    std::vector<float> x;
    for (int i = -600; i <= 600; ++i) x.push_back(static_cast<float>(i) * scale);
    const std::vector<uint8_t> y =
        evaluated<uint8_t>(saturating("i8", true, 0, 255, -1.0, "    %x = arith.addf %i0, %i0 : f32\n"), "i8", x);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(y[i], static_cast<uint8_t>(std::fmin(std::fmax(std::trunc(2 * x[i]), 0), 255))) << x[i];
  }
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing
