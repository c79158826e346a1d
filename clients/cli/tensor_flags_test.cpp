#include "clients/cli/tensor_flags.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <set>

#include "proto/messages/failure.h"
#include "proto/support/printable.h"

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
  ASSERT_TRUE(OutputFolder(folder).write(described, "a").ok());
  EXPECT_TRUE(std::filesystem::exists(folder + "/.._escape.npy"));
}

TEST(OutputFolderTest, OutputsOfOneFileNameAreTwoFiles) {
  const std::string path = testing::TempDir() + "outputs of one name";
  std::filesystem::remove_all(path);
  OutputFolder folder(path);
  for (const char* name : {"a/b", "a_b", "a_b-2", "/", "_"})
    ASSERT_TRUE(folder.write(spec(name, v1::DATA_TYPE_U8, {1}), "a").ok()) << name;
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) files.insert(entry.path().filename());
  EXPECT_EQ(files, (std::set<std::string>{"a_b.npy", "a_b-2.npy", "a_b-2-2.npy", "_.npy", "_-2.npy"}));
  const absl::Status within_a_file = OutputFolder(path + "/_.npy").write(spec("x", v1::DATA_TYPE_U8, {1}), "a");
  EXPECT_TRUE(absl::IsInvalidArgument(within_a_file)) << within_a_file;
}

TEST(OutputFolderTest, LongNamesKeepFrontAndEnd) {
  const std::string path = testing::TempDir() + "outputs of long names";
  std::filesystem::remove_all(path);
  OutputFolder folder(path);
  const std::string scope = "model/" + std::string(300, 'x');
  std::string accents;  // two bytes each, so that any cut may fall within one
  for (int i = 0; i < 150; ++i) accents += "\u00e9";
  const std::vector<std::string> names = {scope + "/output:0",
                                          scope + "y/output:0",
                                          scope + "/output:1",
                                          accents,
                                          "o" + accents,
                                          std::string("a\0b\n", 4),
                                          ""};
  for (const std::string& name : names) ASSERT_TRUE(folder.write(spec(name, v1::DATA_TYPE_U8, {1}), "a").ok()) << name;
  const auto stem = [&](size_t i) { return std::filesystem::path(folder.files()[i]).stem().string(); };
  EXPECT_EQ(stem(0).size(), 200U);
  EXPECT_THAT(stem(0), testing::AllOf(testing::StartsWith("model_x"), testing::EndsWith("x_output:0")));
  EXPECT_EQ(stem(1), "model_" + std::string(74, 'x') + "..." + std::string(107, 'x') + "y_output:0");
  for (size_t i : {3, 4}) EXPECT_EQ((stem(i).size() - 3 - (i - 3)) % 2, 0U) << "a character was cut: " << stem(i);
  EXPECT_EQ(std::set<std::string>(folder.files().begin(), folder.files().end()).size(), names.size());
  for (const std::string& file : folder.files()) EXPECT_TRUE(std::filesystem::exists(file)) << file;
}

TEST(CheckInputsTest, AMisspelledNameIsTheFault) {
  const std::vector<v1::TensorSpec> described = {spec("image", v1::DATA_TYPE_F32, {2}),
                                                 spec("mask", v1::DATA_TYPE_F32, {2})};
  const Tensor tensor = seededTensor(described[0], 1);
  const v1::Failure failure = failureOf(checkInputs({{"imgae", tensor}, {"mask", tensor}}, described));
  EXPECT_EQ(failure.attribute(), "imgae");
  EXPECT_EQ(failure.accepted(), "only image, mask");
}

TEST(ReadInputsTest, SaysHowToWriteIt) {
  EXPECT_FALSE(readInputs({"x.npy"}).ok());
  EXPECT_FALSE(readInputs({"=x.npy"}).ok());
  EXPECT_NE(readInputs({"x="}).status().message().find("--input x=: write"), std::string::npos);
  EXPECT_NE(readInputs({"x"}, "--reference").status().message().find("--reference x: write"), std::string::npos);
  EXPECT_FALSE(readInputs({"x=absent.npy"}).ok());
}

}  // namespace
}  // namespace tessera::client
