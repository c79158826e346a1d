#include "compiler/backends/spatial/element.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "proto/messages/float_value.h"

namespace tessera::compiler::simulator {
namespace {

using Arithmetic = v1::Intrinsic::Arithmetic;

TEST(Element, FloatsAreRoundedAsTheMachineDoes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const double value = std::bit_cast<double>((random() & 0x800fffffffffffff) | (1023 + random() % 280 - 150) << 52);
    EXPECT_EQ(rounded(value, v1::DATA_TYPE_F32), static_cast<double>(static_cast<float>(value))) << value;
  }
}

TEST(Element, EveryHalfAndBfloatIsWrittenAsItIsRead) {
  for (const v1::DataType type : {v1::DATA_TYPE_F16, v1::DATA_TYPE_BF16}) {
    for (uint32_t bits = 0; bits < 1 << 16; ++bits) {
      const auto stored = static_cast<uint16_t>(bits);
      const double value = floatValue(type, reinterpret_cast<const char*>(&stored));
      if (std::isnan(value)) continue;
      uint16_t again = 0;
      encode(type, &value, 1, reinterpret_cast<uint8_t*>(&again));
      ASSERT_EQ(again, stored) << value;
      ASSERT_EQ(rounded(value, type), value);
    }
  }
}

TEST(Element, HalvesAreRoundedToTheNearestEven) {
  EXPECT_EQ(rounded(1 + 0x1p-11, v1::DATA_TYPE_F16), 1);
  EXPECT_EQ(rounded(1 + 3 * 0x1p-11, v1::DATA_TYPE_F16), 1 + 2 * 0x1p-10);
  EXPECT_EQ(rounded(-65519, v1::DATA_TYPE_F16), -65504);
  EXPECT_EQ(rounded(65520, v1::DATA_TYPE_F16), INFINITY);
  EXPECT_EQ(rounded(0x1p-25, v1::DATA_TYPE_F16), 0);
  EXPECT_EQ(rounded(3 * 0x1p-25, v1::DATA_TYPE_F16), 0x1p-23);
  EXPECT_EQ(rounded(1 + 0x1p-8, v1::DATA_TYPE_BF16), 1);
}

TEST(Element, IntegersWrapOrSaturate) {
  EXPECT_EQ(held(130, v1::DATA_TYPE_I8, Arithmetic::WRAP), -126);
  EXPECT_EQ(held(130, v1::DATA_TYPE_I8, Arithmetic::SATURATE), 127);
  EXPECT_EQ(held(-1, v1::DATA_TYPE_U8, Arithmetic::WRAP), 255);
  EXPECT_EQ(held(-1, v1::DATA_TYPE_U8, Arithmetic::SATURATE), 0);
  EXPECT_EQ(held(int64_t{1} << 31, v1::DATA_TYPE_I32, Arithmetic::WRAP), INT32_MIN);
  EXPECT_EQ(least(v1::DATA_TYPE_I16), -32768);
  EXPECT_EQ(largest(v1::DATA_TYPE_U32), int64_t{UINT32_MAX});
}

}  // namespace
}  // namespace tessera::compiler::simulator
