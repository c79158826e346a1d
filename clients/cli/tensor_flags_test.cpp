#include "clients/cli/tensor_flags.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "proto/failure.h"

namespace tessera::client {
namespace {

v1::TensorSpec spec(const std::string& name, v1::DataType dtype, const std::vector<int64_t>& shape) {
  v1::TensorSpec spec;
  spec.set_name(name);
  spec.set_dtype(dtype);
  for (int64_t extent : shape) spec.add_shape(extent);
  return spec;
}

TEST(CheckInputsTest, AcceptsExactlyWhatIsDescribed) {
  const std::vector<v1::TensorSpec> described = {spec("x", v1::DATA_TYPE_F32, {2, 3})};
  std::map<std::string, Tensor> given = {{"x", seededTensor(described[0], 1)}};
  EXPECT_TRUE(checkInputs(given, described).ok());

  given["y"] = given["x"];
  EXPECT_EQ(failureOf(checkInputs(given, described)).attribute(), "y");
  given.erase("y");
  given["x"].spec.set_shape(1, 4);
  const v1::Failure failure = failureOf(checkInputs(given, described));
  EXPECT_EQ(failure.reason(), v1::Failure::INVALID_INPUT);
  EXPECT_EQ(failure.found(), "float32[2,4]");
  EXPECT_EQ(failure.accepted(), "float32[2,3]");
  EXPECT_FALSE(checkInputs({}, described).ok());
}

TEST(CheckInputsTest, TakesTheBitsOfBfloat16AsUint16) {
  const std::vector<v1::TensorSpec> described = {spec("x", v1::DATA_TYPE_BF16, {2})};
  EXPECT_TRUE(checkInputs({{"x", seededTensor(spec("x", v1::DATA_TYPE_U16, {2}), 1)}}, described).ok());
  EXPECT_FALSE(checkInputs({{"x", seededTensor(spec("x", v1::DATA_TYPE_I16, {2}), 1)}}, described).ok());
  EXPECT_FALSE(checkInputs({{"x", seededTensor(spec("x", v1::DATA_TYPE_U16, {3}), 1)}}, described).ok());
}

TEST(SeededTensorTest, RepeatsAndFitsItsType) {
  for (auto dtype : {v1::DATA_TYPE_F32, v1::DATA_TYPE_F16, v1::DATA_TYPE_BF16, v1::DATA_TYPE_I64, v1::DATA_TYPE_BOOL}) {
    const auto described = spec("x", dtype, {3, 5});
    const Tensor once = seededTensor(described, 7);
    EXPECT_EQ(once.bytes.size(), static_cast<size_t>(15 * dtypeBytes(dtype)));
    EXPECT_EQ(once.bytes, seededTensor(described, 7).bytes);
    EXPECT_NE(once.bytes, seededTensor(described, 8).bytes);
  }
  for (char value : seededTensor(spec("b", v1::DATA_TYPE_BOOL, {64}), 3).bytes) EXPECT_LE(value, 1);
}

TEST(WriteOutputTest, NamesCannotLeaveTheFolder) {
  const std::string folder = testing::TempDir() + "/outputs";
  const auto described = spec("../escape", v1::DATA_TYPE_U8, {1});
  ASSERT_TRUE(writeOutput(folder, described, "a").ok());
  EXPECT_TRUE(std::filesystem::exists(folder + "/.._escape.npy"));
}

TEST(ReadInputsTest, SaysHowToWriteIt) {
  EXPECT_FALSE(readInputs({"x.npy"}).ok());
  EXPECT_FALSE(readInputs({"=x.npy"}).ok());
  EXPECT_FALSE(readInputs({"x=absent.npy"}).ok());
}

}  // namespace
}  // namespace tessera::client
