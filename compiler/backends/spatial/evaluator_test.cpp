#include "compiler/backends/spatial/evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "compiler/backends/spatial/element.h"
#include "compiler/backends/spatial/scalar_operations.h"
#include "compiler/backends/spatial/testing/kernels.h"
#include "compiler/target/element_text.h"
#include "compiler/target/rates.h"
#include "proto/messages/element_size.h"

namespace tessera::compiler::simulator {
namespace {

using namespace testing;

/// The results of one operation on given numbers, as bytes in, bytes out.
template <typename Number>
std::vector<Number> applied(const std::string& name, v1::DataType to,
                            const std::vector<std::pair<v1::DataType, std::vector<Number>>>& operands) {
  SpatialNest nest;
  SpatialOperation operation;
  operation.name = name;
  operation.dtype = to;
  for (const auto& [type, numbers] : operands) {
    SpatialAccess access;
    access.dtype = type;
    operation.operands.push_back(static_cast<int>(nest.accesses.size()));
    nest.accesses.push_back(access);
  }
  nest.body.push_back(operation);
  Evaluator evaluator(nest);
  const size_t count = operands[0].second.size();
  std::vector<Number> results(count);
  for (size_t begin = 0; begin < count; begin += kStrip) {
    const size_t some = std::min<size_t>(kStrip, count - begin);
    const int64_t first = 0;
    const StripPlace place{.positions = &first, .regular = true, .step = 1};
    std::vector<uint8_t> bytes(8 * some);
    for (size_t o = 0; o < operands.size(); ++o) {
      encode(operands[o].first, operands[o].second.data() + begin, some, bytes.data());
      readStrip(operands[o].first, bytes.data(), place, static_cast<int>(some), evaluator.value(static_cast<int>(o)));
    }
    EXPECT_TRUE(evaluator.run(static_cast<int>(some), {}, {}).ok());
    writeStrip(to, bytes.data(), place, static_cast<int>(some), evaluator.value(static_cast<int>(operands.size())));
    decode(to, bytes.data(), some, results.data() + begin);
  }
  return results;
}

/// Ordinary numbers, zeros, the smallest and the largest ones, infinities and NaN, exact in the type.
std::vector<double> reals(std::mt19937_64& random, v1::DataType type, size_t count) {
  std::vector<double> numbers = {0.0,   -0.0, 1,    -1,    0.5,      2.5,       -2.5, 3.5,
                                 65504, 1e-7, 6e-8, -1e-5, INFINITY, -INFINITY, NAN};
  while (numbers.size() < count) {
    const double mantissa = static_cast<double>(random() % 20001) / 10000 - 1;
    numbers.push_back(std::ldexp(mantissa, static_cast<int>(random() % 34) - 20));
  }
  for (double& number : numbers) number = rounded(number, type);
  std::shuffle(numbers.begin(), numbers.end(), random);
  return numbers;
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

TEST(Evaluator, BasicArithmeticIsRoundedOnceToItsType) {
  std::mt19937_64 random(1);
  using Function = double (*)(double, double);
  const std::vector<std::pair<const char*, Function>> functions = {
      {"addf", [](double a, double b) { return a + b; }},
      {"subf", [](double a, double b) { return a - b; }},
      {"mulf", [](double a, double b) { return a * b; }},
      {"maximumf",
       [](double a, double b) {
         return std::isnan(a) || std::isnan(b) ? NAN : a == 0 && b == 0 ? a + b : std::max(a, b);
       }},
      {"minnumf",
       [](double a, double b) {
         return std::isnan(a) ? b : std::isnan(b) ? a : a == 0 && b == 0 ? -(-a - b) : std::min(a, b);
       }},
      {"copysign", [](double a, double b) { return std::copysign(a, b); }}};
  for (const auto type : {kF16, kBF16, kF32}) {
    const std::vector<double> a = reals(random, type, 4000), b = reals(random, type, 4000);
    for (const auto& [name, function] : functions) {
      const std::vector<double> found = applied<double>(name, type, {{type, a}, {type, b}});
      for (size_t i = 0; i < a.size(); ++i) {
        // A sum or product of two such numbers is exact in double precision, or its rounding is no tie of the type.
        const double expected = rounded(function(a[i], b[i]), type);
        ASSERT_TRUE(same(found[i], expected)) << name << " " << elementText(type) << " of " << a[i] << " and " << b[i]
                                              << " is " << found[i] << ", not " << expected;
      }
    }
  }
}

TEST(Evaluator, FunctionsAreNearThoseInDoublePrecision) {
  std::mt19937_64 random(2);
  const std::vector<std::pair<const char*, double (*)(double)>> functions = {
      {"exp", std::exp},
      {"log", std::log},
      {"tanh", std::tanh},
      {"erf", std::erf},
      {"sqrt", std::sqrt},
      {"sin", std::sin},
      {"cos", std::cos},
      {"log1p", std::log1p},
      {"expm1", std::expm1},
      {"floor", std::floor},
      {"ceil", std::ceil},
      {"trunc", std::trunc},
      {"round", std::round},
      {"atan", std::atan},
      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
      {"roundeven", [](double x) { return std::nearbyint(x); }},
      {"negf", [](double x) { return -x; }},
      {"absf", [](double x) { return std::fabs(x); }}};
  for (const auto type : {kF16, kBF16, kF32, kF64}) {
    const std::vector<double> a = reals(random, type, 2000);
    for (const auto& [name, function] : functions) {
      const std::vector<double> found = applied<double>(name, type, {{type, a}});
      for (size_t i = 0; i < a.size(); ++i) {
        const double expected = rounded(function(a[i]), type);
        const double allowed = 4 * unitRoundoff(type) * std::fabs(expected) + 1e-12;
        ASSERT_TRUE(same(found[i], expected) || std::fabs(found[i] - expected) <= allowed)
            << name << " " << elementText(type) << " of " << a[i] << " is " << found[i] << ", not " << expected;
      }
    }
  }
}

TEST(Evaluator, IntegersWrapAndHaveNoSignOfTheirOwn) {
  std::mt19937_64 random(3);
  for (const auto type : {kBool, kI8, kI16, kI32, kI64}) {
    const int bits = widthOf(type);
    std::vector<int64_t> a, b;
    for (int i = 0; i < 2000; ++i) {
      for (std::vector<int64_t>* list : {&a, &b}) {
        const auto number = static_cast<int64_t>(random() >> (i % 2 == 0 ? 60 : 0)) - (i % 2 == 0 ? 8 : 0);
        list->push_back(bits == 1 ? number & 1 : held(number, type, v1::Intrinsic::Arithmetic::WRAP));
      }
    }
    using Wide = __int128;
    const auto up = [&](int64_t x) {
      return static_cast<Wide>(bits == 64 ? static_cast<uint64_t>(x)
                                          : static_cast<uint64_t>(x) & ((uint64_t{1} << bits) - 1));
    };
    const auto down = [&](int64_t x) { return static_cast<Wide>(bits == 1 ? -x : x); };
    const std::vector<std::pair<const char*, std::function<Wide(int64_t, int64_t)>>> functions = {
        {"addi", [&](int64_t x, int64_t y) { return down(x) + down(y); }},
        {"subi", [&](int64_t x, int64_t y) { return down(x) - down(y); }},
        {"muli", [&](int64_t x, int64_t y) { return down(x) * down(y); }},
        {"divsi", [&](int64_t x, int64_t y) { return bits == 1 ? x & y
                                                     : y == 0  ? 0
                                                               : down(x) / down(y); }},
        {"divui", [&](int64_t x, int64_t y) { return y == 0 ? 0 : up(x) / up(y); }},
        {"remui", [&](int64_t x, int64_t y) { return y == 0 ? 0 : up(x) % up(y); }},
        {"ceildivui", [&](int64_t x, int64_t y) { return y == 0 ? 0 : (up(x) + up(y) - 1) / up(y); }},
        {"floordivsi",
         [&](int64_t x, int64_t y) -> Wide {
           if (y == 0 || bits == 1) return bits == 1 ? x & y : 0;
           const Wide q = down(x) / down(y);
           return q * down(y) != down(x) && (x < 0) != (y < 0) ? q - 1 : q;
         }},
        {"maxsi", [&](int64_t x, int64_t y) { return std::max(down(x), down(y)); }},
        {"minsi", [&](int64_t x, int64_t y) { return std::min(down(x), down(y)); }},
        {"maxui", [&](int64_t x, int64_t y) { return std::max(up(x), up(y)); }},
        {"minui", [&](int64_t x, int64_t y) { return std::min(up(x), up(y)); }},
        {"shli",
         [&](int64_t x, int64_t y) { return up(y) >= bits ? 0 : down(x) * (Wide{1} << static_cast<int>(up(y))); }},
        {"shrui", [&](int64_t x, int64_t y) { return up(y) >= bits ? 0 : up(x) >> static_cast<int>(up(y)); }},
        {"shrsi", [&](int64_t x, int64_t y) { return down(x) >> static_cast<int>(std::min<Wide>(up(y), 100)); }},
        {"xori", [&](int64_t x, int64_t y) { return static_cast<Wide>(x ^ y); }}};
    for (const auto& [name, function] : functions) {
      const std::vector<int64_t> found = applied<int64_t>(name, type, {{type, a}, {type, b}});
      for (size_t i = 0; i < a.size(); ++i) {
        const Wide exact = function(a[i], b[i]);
        auto expected = static_cast<int64_t>(static_cast<unsigned __int128>(exact));
        expected = bits == 1 ? expected & 1 : held(expected, type, v1::Intrinsic::Arithmetic::WRAP);
        ASSERT_EQ(found[i], expected) << name << " " << elementText(type) << " of " << a[i] << " and " << b[i];
      }
    }
  }
}

TEST(Evaluator, ComparisonsKnowNaNsAndSigns) {
  const std::vector<double> a = {1, 2, NAN, 0.0, -INFINITY}, b = {2, 1, 1, -0.0, INFINITY};
  const auto reals = [&](const std::string& predicate) {
    return applied<double>("cmpf." + predicate, kBool, {{kF32, a}, {kF32, b}});
  };
  EXPECT_THAT(reals("olt"), ::testing::ElementsAre(1, 0, 0, 0, 1));
  EXPECT_THAT(reals("ult"), ::testing::ElementsAre(1, 0, 1, 0, 1));
  EXPECT_THAT(reals("oge"), ::testing::ElementsAre(0, 1, 0, 1, 0));
  EXPECT_THAT(reals("une"), ::testing::ElementsAre(1, 1, 1, 0, 1));
  EXPECT_THAT(reals("one"), ::testing::ElementsAre(1, 1, 0, 0, 1));
  EXPECT_THAT(reals("ueq"), ::testing::ElementsAre(0, 0, 1, 1, 0));
  EXPECT_THAT(reals("ord"), ::testing::ElementsAre(1, 1, 0, 1, 1));
  EXPECT_THAT(reals("uno"), ::testing::ElementsAre(0, 0, 1, 0, 0));
  const std::vector<int64_t> x = {-1, 5, 7}, y = {1, -5, 7};
  const auto wholes = [&](const std::string& predicate) {
    return applied<int64_t>("cmpi." + predicate, kBool, {{kI8, x}, {kI8, y}});
  };
  EXPECT_THAT(wholes("slt"), ::testing::ElementsAre(1, 0, 0));
  EXPECT_THAT(wholes("ult"), ::testing::ElementsAre(0, 1, 0));
  EXPECT_THAT(wholes("sge"), ::testing::ElementsAre(0, 1, 1));
  EXPECT_THAT(wholes("uge"), ::testing::ElementsAre(1, 0, 1));
  EXPECT_THAT(wholes("ne"), ::testing::ElementsAre(1, 1, 0));
  EXPECT_EQ(scalarOperation("cmpi.olt"), nullptr);
  EXPECT_EQ(scalarOperation("cmpf"), nullptr);
  EXPECT_EQ(scalarOperation("addf.olt"), nullptr);
}

TEST(Evaluator, ConversionsSaturateRoundAndExtend) {
  const std::vector<double> reals = {-1.9, 127.5, 1e9, -1e9, NAN, INFINITY, 255.9, 0.5};
  EXPECT_THAT(applied<double>("fptosi", kI8, {{kF32, reals}}),
              ::testing::ElementsAre(-1, 127, 127, -128, 0, 127, 127, 0));
  EXPECT_THAT(applied<double>("fptoui", v1::DATA_TYPE_U8, {{kF32, reals}}),
              ::testing::ElementsAre(0, 127, 255, 0, 0, 255, 255, 0));
  const std::vector<int64_t> wholes = {-1, 127, -128, 3};
  EXPECT_THAT(applied<int64_t>("extsi", kI32, {{kI8, wholes}}), ::testing::ElementsAre(-1, 127, -128, 3));
  EXPECT_THAT(applied<int64_t>("extui", kI32, {{kI8, wholes}}), ::testing::ElementsAre(255, 127, 128, 3));
  EXPECT_THAT(applied<int64_t>("trunci", kI8, {{kI32, {256, 383, -129, 200}}}),
              ::testing::ElementsAre(0, 127, 127, -56));
  EXPECT_THAT(applied<int64_t>("extsi", kI8, {{kBool, {0, 1}}}), ::testing::ElementsAre(0, -1));
  EXPECT_THAT(applied<int64_t>("bitcast", kI32, {{kI32, {5}}}), ::testing::ElementsAre(5));
  EXPECT_THAT(applied<double>("truncf", kF16, {{kF32, {65519, 65520, 1 + 0x1p-11, 1 + 0x1.8p-10, 0x1p-25}}}),
              ::testing::ElementsAre(65504, INFINITY, 1, 1 + 0x1p-9, 0));
  // One rounding: the first step of two would give the tie 1 + 2^-11.
  EXPECT_THAT(applied<double>("truncf", kF16, {{kF64, {1 + 0x1p-11 + 0x1p-40}}}), ::testing::ElementsAre(1 + 0x1p-10));
}

TEST(Evaluator, EveryF16AndBf16NumberIsReadAndWrittenBack) {
  for (const auto type : {kF16, kBF16}) {
    for (uint32_t bits = 0; bits < 0x10000; bits += kStrip) {
      std::vector<uint16_t> from(kStrip), to(kStrip);
      for (uint32_t i = 0; i < kStrip; ++i) from[i] = static_cast<uint16_t>(bits + i);
      const int64_t first = 0;
      const StripPlace place{.positions = &first, .regular = true, .step = 1};
      StripValue value{};
      readStrip(type, reinterpret_cast<const uint8_t*>(from.data()), place, kStrip, value);
      std::vector<double> expected(kStrip);
      decode(type, reinterpret_cast<const uint8_t*>(from.data()), kStrip, expected.data());
      writeStrip(type, reinterpret_cast<uint8_t*>(to.data()), place, kStrip, value);
      for (size_t i = 0; i < kStrip; ++i) {
        ASSERT_TRUE(same(value.single()[i], expected[i])) << from[i];
        if (!std::isnan(expected[i])) ASSERT_EQ(to[i], from[i]);
      }
    }
  }
}

TEST(Evaluator, NarrowRoundingsAreThoseOfDoublePrecision) {
  std::mt19937 random(5);
  for (int i = 0; i < 2000000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isnan(value)) continue;
    ASSERT_TRUE(same(roundedToHalf(value), rounded(value, kF16))) << value;
    ASSERT_TRUE(same(roundedToBrain(value), rounded(value, kBF16))) << value;
  }
}

// Operations of bodies are of the same kinds for the evaluator and for rates.
TEST(Evaluator, OperationsAreNamesOfRates) {
  for (const char* name : {"addf", "exp", "cmpf.olt", "select", "load", "absi", "erfc", "bitcast"}) {
    const ScalarOperation* operation = scalarOperation(name);
    ASSERT_NE(operation, nullptr) << name;
    const std::string_view kind = kindOf(name);
    EXPECT_EQ(kind == "transcendental", operation->work == Work::kTranscendental) << name;
    EXPECT_EQ(kind == "gather", operation->work == Work::kGather) << name;
  }
}

}  // namespace
}  // namespace tessera::compiler::simulator
