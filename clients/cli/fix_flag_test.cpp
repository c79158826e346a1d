#include "clients/cli/fix_flag.h"

#include <gtest/gtest.h>

#include <cstring>

#include "clients/cli/npy.h"

namespace tessera::client {
namespace {

template <typename T>
std::vector<T> valuesOf(const v1::TensorValue& value) {
  std::vector<T> values(value.data().size() / sizeof(T));
  std::memcpy(values.data(), value.data().data(), value.data().size());
  return values;
}

TEST(ParseFixTest, TheValuesSayTheirType) {
  const auto shape = parseFix("shape=2,-1");
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->spec().name(), "shape");
  EXPECT_EQ(shape->spec().dtype(), v1::DATA_TYPE_I64);
  EXPECT_EQ(std::vector<int64_t>(shape->spec().shape().begin(), shape->spec().shape().end()), std::vector<int64_t>{2});
  EXPECT_EQ(valuesOf<int64_t>(*shape), (std::vector<int64_t>{2, -1}));
  EXPECT_EQ(valuesOf<float>(*parseFix("scales=1,2.5,1e1")), (std::vector<float>{1, 2.5F, 10}));
  EXPECT_EQ(valuesOf<uint8_t>(*parseFix("mode=true,false")), (std::vector<uint8_t>{1, 0}));
}

TEST(ParseFixTest, ATypeMayBeNamed) {
  EXPECT_EQ(valuesOf<int32_t>(*parseFix("axis=int32:-3")), std::vector<int32_t>{-3});
  EXPECT_EQ(valuesOf<uint8_t>(*parseFix("n=uint8:0,255")), (std::vector<uint8_t>{0, 255}));
  EXPECT_EQ(valuesOf<int8_t>(*parseFix("n=i8:-128")), std::vector<int8_t>{-128});
  EXPECT_EQ(valuesOf<double>(*parseFix("x=float64:3")), std::vector<double>{3});
  EXPECT_EQ(parseFix("a=b:0=7")->spec().name(), "a=b:0");
}

TEST(ParseFixTest, NoValueIsAnEmptyList) {
  const auto value = parseFix("axes=");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->spec().shape(0), 0);
  EXPECT_EQ(value->data(), "");
}

TEST(ParseFixTest, FilesBringTypeAndShape) {
  const std::string path = testing::TempDir() + "fix.npy";
  v1::TensorSpec spec;
  spec.set_dtype(v1::DATA_TYPE_I32);
  ASSERT_TRUE(writeNpy(path, spec, std::string("\7\0\0\0", 4)).ok());
  const auto value = parseFix("k=@" + path);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->spec().name(), "k");
  EXPECT_EQ(value->spec().dtype(), v1::DATA_TYPE_I32);
  EXPECT_EQ(value->spec().shape_size(), 0);
  EXPECT_EQ(valuesOf<int32_t>(*value), std::vector<int32_t>{7});
}

TEST(ParseFixTest, RefusesWhatIsNoValue) {
  for (const char* text : {"", "x", "=3", "x=a", "x=1,,2", "x=int8:300", "x=int32:1.5", "x=whole:1", "x=float16:1",
                           "x=99999999999999999999", "x=bool:2"}) {
    EXPECT_EQ(parseFix(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_FALSE(parseFix("x=@/no/such.npy").ok());
}

}  // namespace
}  // namespace tessera::client
