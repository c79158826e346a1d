#include "clients/cpp/external_data.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tessera::client {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A field of a message, as bytes: what is below 2 MiB.
std::string field(int number, const std::string& bytes) {
  const auto varint = [](size_t value) {
    std::string text;
    for (; value >= 128; value >>= 7) text.push_back(static_cast<char>((value & 127) | 128));
    text.push_back(static_cast<char>(value));
    return text;
  };
  return varint(static_cast<size_t>(number) << 3 | 2) + varint(bytes.size()) + bytes;
}

std::string tensorAt(const std::string& location) {
  return field(8, "a name") + field(13, field(1, "location") + field(2, location)) +
         field(13, field(1, "length") + field(2, "64")) + field(9, std::string(1000, 'x'));
}

class ExternalDataTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_ + "/sub"); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
    return folder_ + "/" + name;
  }

  const std::string folder_ = testing::TempDir() + "external_data_test_" + std::to_string(getpid());
};

TEST_F(ExternalDataTest, LocationsAreFoundWhereverTensorsAre) {
  const std::string constant = field(5, field(5, tensorAt("constant.bin")));  // a node with a tensor as attribute
  const std::string branch = field(5, field(6, field(5, tensorAt("branch.bin")) + field(1, constant)));
  const std::string graph = field(1, branch) + field(5, tensorAt("weights.bin")) + field(5, tensorAt("weights.bin")) +
                            field(15, field(1, tensorAt("sparse.bin")));
  const std::string model =
      field(2, "producer") + field(7, graph) + field(25, field(7, field(5, field(10, tensorAt("f")))));
  EXPECT_THAT(externalLocations(file("model.onnx", model)),
              ElementsAre("branch.bin", "constant.bin", "f", "sparse.bin", "weights.bin"));
}

TEST_F(ExternalDataTest, AModelInMemoryNamesTheSame) {
  const std::string model = field(7, field(5, tensorAt("weights.bin")));
  EXPECT_THAT(externalLocationsIn(model), ElementsAre("weights.bin"));
  EXPECT_THAT(externalLocationsIn(model), testing::ContainerEq(externalLocations(file("model.onnx", model))));
  EXPECT_THAT(externalLocationsIn(""), IsEmpty());
}

TEST_F(ExternalDataTest, OfWhatIsNoModelThereAreNone) {
  EXPECT_THAT(externalLocations(folder_ + "/none"), IsEmpty());
  EXPECT_THAT(externalLocations(folder_), IsEmpty());
  EXPECT_THAT(externalLocations(file("empty", "")), IsEmpty());
  EXPECT_THAT(externalLocations(file("text", "location weights.bin, but of what?")), IsEmpty());
  std::string deep = field(5, tensorAt("below"));
  for (int i = 0; i < 200; ++i) deep = field(1, field(5, field(6, deep)));
  EXPECT_THAT(externalLocations(file("deep", field(7, deep))), IsEmpty());
  const std::string whole = field(7, field(5, tensorAt("weights.bin")));
  for (size_t size = 0; size < whole.size(); size += 7) (void)externalLocations(file("cut", whole.substr(0, size)));
}

TEST_F(ExternalDataTest, FilesAreBesideTheModelAndNowhereElse) {
  const std::string model = file("sub/model.onnx", "");
  const std::string weights = file("sub/weights.bin", "w");
  file("outside.bin", "o");
  EXPECT_EQ(besideModel(model, "weights.bin"), weights);
  EXPECT_EQ(besideModel(model, "missing.bin"), "");
  EXPECT_EQ(besideModel(model, "../outside.bin"), "");
  EXPECT_EQ(besideModel(model, weights), "") << "an absolute path";
  EXPECT_EQ(besideModel(model, "."), "");
  EXPECT_EQ(besideModel(model, ""), "");
  EXPECT_EQ(besideModel(folder_ + "/model.onnx", "sub/weights.bin"), weights) << "in a folder below";
}

}  // namespace
}  // namespace tessera::client
