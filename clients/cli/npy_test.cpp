#include "clients/cli/npy.h"

#include <gtest/gtest.h>
#include <zip.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tessera::client {
namespace {

std::string npy(const std::string& dict, const std::string& data) {
  std::string header = dict + "\n";
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header + data;
}

std::string floats(std::initializer_list<float> values) {
  std::string bytes(values.size() * 4, '\0');
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

TEST(NpyTest, ReadsRowMajor) {
  auto tensor =
      parseNpy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", floats({1, 2, 3, 4, 5, 6})), "here");
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->spec.dtype(), v1::DATA_TYPE_F32);
  EXPECT_EQ(tensor->spec.shape_size(), 2);
  EXPECT_EQ(tensor->bytes, floats({1, 2, 3, 4, 5, 6}));
}

TEST(NpyTest, TurnsFortranOrderToRowMajor) {
  auto tensor =
      parseNpy(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", floats({1, 4, 2, 5, 3, 6})), "here");
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->bytes, floats({1, 2, 3, 4, 5, 6}));
}

TEST(NpyTest, RefusesWhatItCannotRead) {
  const std::string good = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", floats({1, 2}));
  EXPECT_TRUE(parseNpy(good, "here").ok());
  EXPECT_FALSE(parseNpy(good.substr(0, good.size() - 1), "here").ok());  // a byte is missing
  EXPECT_FALSE(parseNpy(good + "x", "here").ok());
  EXPECT_FALSE(parseNpy("", "here").ok());
  EXPECT_FALSE(parseNpy(good.substr(0, 11), "here").ok());
  EXPECT_FALSE(parseNpy(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "abcd"), "here").ok());
  EXPECT_FALSE(parseNpy(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "12345678"), "here").ok());
  // The longest header that format 2 can state: the parser reads no more of it than NumPy would.
  const std::string long_header =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::string(2'000'000, ' ') + "), }";
  std::string second("\x93NUMPY\x02\x00", 8);
  for (int i = 0; i < 4; ++i) second += static_cast<char>(long_header.size() >> 8 * i & 0xff);
  EXPECT_FALSE(parseNpy(second + long_header + "abcd", "here").ok());
  // A shape whose product overflows must not wrap around to the data's size.
  EXPECT_FALSE(
      parseNpy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", ""), "here").ok());
  // The product of the other extents must not overflow either if an extent is zero. NumPy rejects these as well.
  for (const char* shape : {"(9223372036854775807, 0)", "(0, 9223372036854775807)", "(4294967296, 0, 4294967296)"}) {
    const std::string dict = std::string("{'descr': '<f4', 'fortran_order': False, 'shape': ") + shape + ", }";
    EXPECT_FALSE(parseNpy(npy(dict, ""), "here").ok()) << shape;
  }
  EXPECT_TRUE(parseNpy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 0), }", ""), "here").ok());
}

TEST(NpyTest, WritesWhatItReads) {
  const std::string path = testing::TempDir() + "/roundtrip.npy";
  for (const auto& shape : std::vector<std::vector<int64_t>>{{}, {4}, {2, 2}, {4, 0, 7}}) {
    v1::TensorSpec spec;
    spec.set_dtype(v1::DATA_TYPE_I16);
    int64_t bytes = 2;
    for (int64_t extent : shape) {
      spec.add_shape(extent);
      bytes *= extent;
    }
    const std::string data(bytes, 'a');
    ASSERT_TRUE(writeNpy(path, spec, data).ok());
    auto tensor = readNpy(path);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(tensor->bytes, data);
    EXPECT_EQ(tensor->spec.shape_size(), spec.shape_size());
    EXPECT_EQ(tensor->spec.dtype(), v1::DATA_TYPE_I16);
  }
}

TEST(NpzTest, ReadsArraysByName) {
  const std::string path = testing::TempDir() + "/arrays.npz";
  std::filesystem::remove(path);
  const std::string array = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", floats({42}));
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE, nullptr);
  for (const char* name : {"x.npy", "mask.npy"}) {
    zip_file_add(archive, name, zip_source_buffer(archive, array.data(), array.size(), 0), 0);
  }
  ASSERT_EQ(zip_close(archive), 0);
  auto tensors = readNpz(path);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ(tensors->at("mask").bytes, floats({42}));
  EXPECT_FALSE(readNpz(testing::TempDir() + "/absent.npz").ok());
}

TEST(NpzTest, RefusesWhatIsMuchMoreThanItsFile) {
  const std::string path = testing::TempDir() + "/swollen.npz";
  std::filesystem::remove(path);
  const std::string array =
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (262144,), }", std::string(1 << 20, '\0'));
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE, nullptr);
  for (const char* name : {"x.npy", "y.npy"}) {
    const zip_int64_t index = zip_file_add(archive, name, zip_source_buffer(archive, array.data(), array.size(), 0), 0);
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_DEFLATE, 1);
  }
  ASSERT_EQ(zip_close(archive), 0);
  ASSERT_LT(std::filesystem::file_size(path), 20'000u);
  EXPECT_TRUE(readNpz(path).ok());
  EXPECT_TRUE(readNpz(path, 3 << 20).ok());
  const auto refused = readNpz(path, (3 << 20) / 2);  // enough for one array, but the limit applies to their sum
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  EXPECT_NE(refused.status().message().find(path), absl::string_view::npos);
}

}  // namespace
}  // namespace tessera::client
