#include "workers/task/tensor_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "proto/messages/failure.h"
#include "proto/messages/tensor_text.h"
#include "workers/task/seeded_tensor.h"

namespace tessera::worker {
namespace {

v1::TensorSpec spec(v1::DataType dtype, std::initializer_list<int64_t> shape) {
  v1::TensorSpec result;
  result.set_name("x");
  result.set_dtype(dtype);
  for (int64_t extent : shape) result.add_shape(extent);
  return result;
}

v1::TensorValue value(const v1::TensorSpec& spec, size_t bytes) {
  v1::TensorValue result;
  *result.mutable_spec() = spec;
  result.set_data(std::string(bytes, '\0'));
  return result;
}

TEST(TensorCheckTest, DescribesTypeAndShape) {
  EXPECT_EQ(tensorText(spec(v1::DATA_TYPE_F32, {1, 3, 224, 224})), "f32[1,3,224,224]");
  EXPECT_EQ(tensorText(spec(v1::DATA_TYPE_BOOL, {})), "bool[]");
}

TEST(TensorCheckTest, AcceptsWhatFits) {
  const v1::TensorSpec accepted = spec(v1::DATA_TYPE_F32, {2, 3});
  EXPECT_TRUE(checkTensor(value(accepted, 24), accepted, 24).ok());
  v1::TensorValue by_digest = value(accepted, 0);
  by_digest.mutable_blob()->set_size_bytes(24);
  EXPECT_TRUE(checkTensor(by_digest, accepted, 24).ok());
}

TEST(TensorCheckTest, NamesWhatWasFoundAndWhatIsAccepted) {
  const v1::TensorSpec accepted = spec(v1::DATA_TYPE_F32, {2, 3});
  const std::pair<v1::TensorValue, const char*> cases[] = {
      {value(spec(v1::DATA_TYPE_F64, {2, 3}), 48), "f64[2,3]"},
      {value(spec(v1::DATA_TYPE_F32, {3, 2}), 24), "f32[3,2]"},
      {value(spec(v1::DATA_TYPE_F32, {2, 3, 1}), 24), "f32[2,3,1]"},
      {value(spec(v1::DATA_TYPE_F32, {2}), 8), "f32[2]"},
  };
  for (const auto& [given, found] : cases) {
    const v1::Failure failure = failureOf(checkTensor(given, accepted, 24));
    EXPECT_EQ(failure.reason(), v1::Failure::INVALID_INPUT);
    EXPECT_EQ(failure.attribute(), "x");
    EXPECT_EQ(failure.found(), found);
    EXPECT_EQ(failure.accepted(), "f32[2,3]");
  }
}

TEST(TensorCheckTest, DataOfAnotherLengthIsRefused) {
  const v1::TensorSpec accepted = spec(v1::DATA_TYPE_F32, {2, 3});
  for (size_t bytes : {0, 23, 25}) {
    const v1::Failure failure = failureOf(checkTensor(value(accepted, bytes), accepted, 24));
    EXPECT_EQ(failure.accepted(), "24 bytes") << bytes;
  }
}

TEST(SeededTensorTest, SeedDecidesAndValuesStayInRange) {
  std::vector<float> a(1000), b(1000), c(1000);
  fillSeeded(v1::DATA_TYPE_F32, 1, a.data(), 4000);
  fillSeeded(v1::DATA_TYPE_F32, 1, b.data(), 4000);
  fillSeeded(v1::DATA_TYPE_F32, 2, c.data(), 4000);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_THAT(a, testing::Each(testing::AllOf(testing::Ge(-1.0F), testing::Lt(1.0F))));
  // Values of both signs: a constant input would hide errors of kernels.
  EXPECT_THAT(a, testing::Contains(testing::Lt(-0.5F)));
  EXPECT_THAT(a, testing::Contains(testing::Gt(0.5F)));
}

TEST(SeededTensorTest, IntegersAreSmallAndBooleansAreBits) {
  std::vector<int64_t> integers(1000);
  fillSeeded(v1::DATA_TYPE_I64, 1, integers.data(), 8000);
  EXPECT_THAT(integers, testing::Each(testing::AllOf(testing::Ge(0), testing::Le(7))));
  std::vector<uint8_t> booleans(1000);
  fillSeeded(v1::DATA_TYPE_BOOL, 1, booleans.data(), 1000);
  EXPECT_THAT(booleans, testing::Each(testing::Le(1)));
  EXPECT_THAT(booleans, testing::Contains(1));
}

TEST(SeededTensorTest, SixteenBitFormsAreFiniteAndInRange) {
  std::vector<uint16_t> half(1000), bf16(1000);
  fillSeeded(v1::DATA_TYPE_F16, 1, half.data(), 2000);
  fillSeeded(v1::DATA_TYPE_BF16, 1, bf16.data(), 2000);
  for (size_t i = 0; i < half.size(); ++i) {
    _Float16 value;
    memcpy(&value, &half[i], sizeof(value));
    EXPECT_LE(std::fabs(static_cast<float>(value)), 1.0F);
    const uint32_t bits = static_cast<uint32_t>(bf16[i]) << 16;
    float wide;
    memcpy(&wide, &bits, sizeof(wide));
    EXPECT_LE(std::fabs(wide), 1.0F);
    // Equal seeds give equal numbers: the two formats differ only by rounding.
    EXPECT_NEAR(wide, static_cast<float>(value), 0.01F);
  }
}

}  // namespace
}  // namespace tessera::worker
