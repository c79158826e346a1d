#include "clients/cli/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tessera::client {
namespace {

template <typename T>
Tensor tensor(v1::DataType type, std::vector<T> values) {
  Tensor made;
  made.spec.set_dtype(type);
  made.spec.add_shape(static_cast<int64_t>(values.size()));
  made.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return made;
}

Tensor floats(std::vector<float> values) { return tensor(v1::DATA_TYPE_F32, std::move(values)); }

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

TEST(ComparisonTest, IsRelativeToTheReferencesLargestMagnitude) {
  const Difference near = compare("y", floats({0.0005f, -10}), floats({0, -10}), 1e-4);
  EXPECT_TRUE(near.passed()) << near.why;
  EXPECT_NEAR(near.absolute, 5e-4, 1e-9);
  EXPECT_NEAR(near.relative, 5e-5, 1e-10);
  EXPECT_FALSE(compare("y", floats({0.005f, -10}), floats({0, -10}), 1e-4).passed());
  EXPECT_FALSE(compare("y", floats({1e-3f}), floats({0}), 1e-4).passed());
}

TEST(ComparisonTest, WantsNansAndInfinitiesInTheirPlaces) {
  EXPECT_TRUE(compare("y", floats({kNan, kInf, -kInf}), floats({kNan, kInf, -kInf}), 0).passed());
  for (const float wrong : {kNan, kInf, 1.f}) {
    EXPECT_FALSE(compare("y", floats({wrong}), floats({-kInf}), 1).passed()) << wrong;
    EXPECT_FALSE(compare("y", floats({-kInf}), floats({wrong}), 1).passed()) << wrong;
  }
}

TEST(ComparisonTest, HasNoNumberWhereNoneCanBeTold) {
  EXPECT_TRUE(compare("y", floats({1, 2}), floats({1, 3}), 1e-4).measured);
  EXPECT_FALSE(compare("y", floats({1, kNan}), floats({1, 3}), 1e-4).measured);
  EXPECT_FALSE(compare("y", floats({1, 2}), floats({1}), 1e-4).measured);
  EXPECT_FALSE(compare("y", floats({1}), tensor<int32_t>(v1::DATA_TYPE_I32, {1}), 1e-4).measured);
}

TEST(ComparisonTest, ComparesIntegersExactly) {
  const int64_t big = int64_t{1} << 60;  // equal to its neighbour after conversion to double
  EXPECT_TRUE(compare("y", tensor<int64_t>(v1::DATA_TYPE_I64, {big}), tensor<int64_t>(v1::DATA_TYPE_I64, {big}), 1e-4)
                  .passed());
  const Difference off = compare("y", tensor<int64_t>(v1::DATA_TYPE_I64, {1, big}),
                                 tensor<int64_t>(v1::DATA_TYPE_I64, {1, big + 1}), 1e-4);
  EXPECT_EQ(off.why, "1 of 2 elements differ");
}

TEST(ComparisonTest, ReadsHalves) {
  const Tensor wanted = tensor<uint16_t>(v1::DATA_TYPE_F16, {0x3c00, 0xc000, 0x0001, 0x7c00});  // 1, -2, 2^-24, inf
  EXPECT_TRUE(compare("y", wanted, wanted, 0).passed());
  const Difference off =
      compare("y", tensor<uint16_t>(v1::DATA_TYPE_F16, {0x3e00, 0xc000, 0x0001, 0x7c00}), wanted, 1e-4);  // 1.5
  EXPECT_DOUBLE_EQ(off.absolute, 0.5);
  EXPECT_DOUBLE_EQ(off.relative, 0.25);
  const Tensor bits = tensor<uint16_t>(v1::DATA_TYPE_U16, {0x3f80});  // 1 in bf16
  const Difference brain = compare("y", tensor<uint16_t>(v1::DATA_TYPE_BF16, {0x4000}), bits, 0.5);
  EXPECT_DOUBLE_EQ(brain.absolute, 1);
  EXPECT_FALSE(brain.passed());
}

TEST(ComparisonTest, NamesOtherShapesAndTypes) {
  EXPECT_EQ(compare("y", floats({1}), floats({1, 2}), 1).why, "it is float32[1], the reference float32[2]");
  EXPECT_FALSE(compare("y", floats({1}), tensor<double>(v1::DATA_TYPE_F64, {1}), 1).passed());
  EXPECT_TRUE(compare("y", floats({}), floats({}), 0).passed());
}

}  // namespace
}  // namespace tessera::client
