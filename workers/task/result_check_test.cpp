#include "workers/task/result_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace tessera::worker {
namespace {

template <typename T>
std::string bytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

ResultCheck check(v1::DataType type, const std::string& found, const std::string& reference, double tolerance = 0) {
  v1::TensorSpec spec;
  spec.set_dtype(type);
  return checkResult(spec, found, reference, tolerance);
}

TEST(ResultCheck, FloatsAreHeldAgainstTheLargestMagnitude) {
  const std::string reference = bytesOf<float>({1000, 0, -3});
  EXPECT_EQ(check(v1::DATA_TYPE_F32, bytesOf<float>({1000.05F, 0.05F, -3}), reference).difference, "");
  EXPECT_NE(check(v1::DATA_TYPE_F32, bytesOf<float>({1000, 0.5F, -3}), reference).difference, "");
  EXPECT_EQ(check(v1::DATA_TYPE_F32, bytesOf<float>({1000, 0.5F, -3}), reference, 0.01).difference, "");
}

TEST(ResultCheck, WhereTheReferenceIsZeroSoMustTheOtherBe) {
  EXPECT_NE(check(v1::DATA_TYPE_F32, bytesOf<float>({1e-6F}), bytesOf<float>({0})).difference, "");
}

TEST(ResultCheck, NaNsStandWhereTheReferenceHasThem) {
  const float nan = std::nanf("");
  const ResultCheck same = check(v1::DATA_TYPE_F32, bytesOf<float>({nan, 1}), bytesOf<float>({nan, 1}));
  EXPECT_EQ(same.difference, "");
  EXPECT_FALSE(same.finite);
  EXPECT_NE(check(v1::DATA_TYPE_F32, bytesOf<float>({1, nan}), bytesOf<float>({nan, 1})).difference, "");
}

TEST(ResultCheck, HalvesAndBrainFloatsAreFloats) {
  // 1.0 and the next representable number.
  EXPECT_EQ(check(v1::DATA_TYPE_F16, bytesOf<uint16_t>({0x3c01}), bytesOf<uint16_t>({0x3c00})).difference, "");
  EXPECT_EQ(check(v1::DATA_TYPE_BF16, bytesOf<uint16_t>({0x3f81}), bytesOf<uint16_t>({0x3f80})).difference, "");
  EXPECT_NE(check(v1::DATA_TYPE_F16, bytesOf<uint16_t>({0x4000}), bytesOf<uint16_t>({0x3c00})).difference, "");
}

TEST(ResultCheck, AllElseIsEqual) {
  EXPECT_EQ(check(v1::DATA_TYPE_I32, bytesOf<int32_t>({7, 8}), bytesOf<int32_t>({7, 8})).difference, "");
  EXPECT_NE(check(v1::DATA_TYPE_I32, bytesOf<int32_t>({7, 9}), bytesOf<int32_t>({7, 8})).difference, "");
  EXPECT_NE(check(v1::DATA_TYPE_I32, bytesOf<int32_t>({7}), bytesOf<int32_t>({7, 8})).difference, "");
}

}  // namespace
}  // namespace tessera::worker
