#include "compiler/runtime/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "compiler/runtime/tessera.h"

namespace tessera::compiler {
namespace {

std::string fileOf(const std::string& header, const std::string& data) {
  std::string bytes;
  for (size_t i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return bytes + header + data;
}

std::string errorOf(const std::string& bytes) {
  SafetensorsFile file;
  const RuntimeStatus status = SafetensorsFile::parse(bytes, &file);
  EXPECT_TRUE(status.ok() || status.code() == TESSERA_CORRUPT);
  EXPECT_TRUE(status.ok() || file.tensors().empty());
  return status.message();
}

TEST(Safetensors, ReadsWhatItWrites) {
  const std::string path = testing::TempDir() + "safetensors_test.safetensors";
  SafetensorsWriter writer;
  writer.add("a \"quoted\"\n name", TESSERA_F32, std::vector<int64_t>{2, 1}, 8);
  writer.add("scalar", TESSERA_I64, {}, 8);
  writer.add("empty", TESSERA_BF16, std::vector<int64_t>{3, 0}, 0);
  const std::vector<std::string> values = {"12345678", "abcdefgh", ""};
  ASSERT_TRUE(
      writer.write(path.c_str(), [&](size_t i, void* to) { std::memcpy(to, values[i].data(), values[i].size()); })
          .ok());
  EXPECT_FALSE(std::filesystem::exists(path + ".unfinished"));
  SafetensorsFile file;
  ASSERT_TRUE(SafetensorsFile::read(path.c_str(), &file).ok());
  ASSERT_EQ(file.tensors().size(), 3U);
  const SafetensorsFile::Tensor* tensor = file.find("a \"quoted\"\n name");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->dtype, TESSERA_F32);
  EXPECT_EQ(tensor->shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(tensor->data), tensor->size_bytes), values[0]);
  EXPECT_TRUE(file.find("scalar")->shape.empty());
  EXPECT_EQ(file.find("empty")->shape, (std::vector<int64_t>{3, 0}));
  EXPECT_EQ(file.find("none"), nullptr);
  // A file that cannot be replaced stays as it is.
  EXPECT_EQ(writer.write("/nonexistent/x", [](size_t, void*) {}).code(), TESSERA_IO_ERROR);
  EXPECT_EQ(SafetensorsFile::read("/nonexistent/x", &file).code(), TESSERA_IO_ERROR);
}

TEST(Safetensors, SkipsMetadataAndReadsEscapes) {
  SafetensorsFile file;
  const std::string header =
      "{ \"__metadata__\" : {\"format\":\"pt\"}, \"\\u0061\\n\\u00e9\":{\"shape\":[1],\"data_offsets\":[0,1],\"dtype\":"
      "\"U8\"} }  ";
  ASSERT_TRUE(SafetensorsFile::parse(fileOf(header, "x"), &file).ok());
  ASSERT_EQ(file.tensors().size(), 1U);
  EXPECT_EQ(file.tensors()[0].name, "a\n\xC3\xA9");
}

TEST(Safetensors, ATensorWithoutBytesMayBeginWhereAnotherDoes) {
  // In the header's order the empty tensor is the last one.
  SafetensorsFile file;
  const std::string header =
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
  EXPECT_EQ(errorOf(fileOf(header, "xy")), "");
  ASSERT_TRUE(SafetensorsFile::parse(fileOf(header, "xy"), &file).ok());
  EXPECT_EQ(file.find("a")->size_bytes, 2U);
  EXPECT_EQ(file.find("b")->size_bytes, 0U);
}

TEST(Safetensors, RefusesOtherFiles) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(errorOf(fileOf(good, "12345678")), "");
  EXPECT_NE(errorOf("1234567").find("it has 7 bytes"), std::string::npos);
  EXPECT_NE(errorOf(fileOf(good, "1234567")).find("cut off"), std::string::npos);
  EXPECT_NE(errorOf(std::string(16, '\xFF')).find("header takes"), std::string::npos);
  struct Case {
    const char* header;
    const char* error;
  };
  const Case cases[] = {
      {"", "no object"},
      {"[]", "no object"},
      {"{\"a\"}", "no ':'"},
      {"{\"a\":{}}", "without dtype"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})", "without an end"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} x)", "after the header's end"},
      {R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", "has type F33"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "its shape takes 12"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "no whole number"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "precede"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[1],"data_offsets":[7,8]}})",
       "another tensor"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       "twice"},
      {R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8]}})", "too large"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "too large"},
      {R"({"a\q":1})", "escape"},
      {"{\"a\n\":1}", "control character"},
      {"{\"a", "without an end"},
  };
  for (const Case& each : cases)
    EXPECT_NE(errorOf(fileOf(each.header, "12345678")).find(each.error), std::string::npos)
        << each.header << ": " << errorOf(fileOf(each.header, "12345678"));
}

TEST(Safetensors, RefusesEveryCutOffFile) {
  const std::string whole = fileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "12345678");
  for (size_t length = 0; length < whole.size(); ++length) EXPECT_NE(errorOf(whole.substr(0, length)), "") << length;
}

}  // namespace
}  // namespace tessera::compiler
