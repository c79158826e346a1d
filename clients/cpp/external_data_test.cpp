#include "clients/cpp/external_data.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "proto/messages/failure.h"

namespace tessera::client {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A length-delimited field of a message, with less than 2 MiB.
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
  void link(const std::string& target, const std::string& name) {
    std::filesystem::create_symlink(target, folder_ + "/" + name);
  }

  /// Without symbolic links, so that paths can be compared.
  const std::string folder_ =
      std::filesystem::canonical(testing::TempDir()).string() + "/external_data_test_" + std::to_string(getpid());
};

TEST_F(ExternalDataTest, LocationsAreFoundWhereverTensorsAre) {
  const std::string constant = field(5, field(5, tensorAt("constant.bin")));  // a node with a tensor attribute
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
  EXPECT_EQ(resolveExternalFile(model, "weights.bin").value(), weights);
  EXPECT_EQ(resolveExternalFile(model, "missing.bin").value(), "");
  EXPECT_EQ(resolveExternalFile(model, "../outside.bin").value(), "");
  EXPECT_EQ(resolveExternalFile(model, weights).value(), "") << "an absolute path";
  EXPECT_EQ(resolveExternalFile(model, ".").value(), "");
  EXPECT_EQ(resolveExternalFile(model, "").value(), "");
  EXPECT_EQ(resolveExternalFile(folder_ + "/model.onnx", "sub/weights.bin").value(), weights) << "in a folder below";
}

TEST_F(ExternalDataTest, LinksStayInTheModelsFolder) {
  const std::string model = file("sub/model.onnx", "");
  const std::string weights = file("sub/weights.bin", "w");
  const std::string outside = file("outside.bin", "o");
  link("weights.bin", "sub/inner.bin");
  link("../outside.bin", "sub/link.bin");
  link("link.bin", "sub/second.bin");
  link("..", "sub/up");
  link("nothing", "sub/dangling.bin");
  EXPECT_EQ(resolveExternalFile(model, "inner.bin").value(), weights);
  EXPECT_EQ(resolveExternalFile(model, "dangling.bin").value(), "");
  for (const char* location : {"link.bin", "second.bin", "up/outside.bin"}) {
    const auto found = resolveExternalFile(model, location);
    ASSERT_FALSE(found.ok()) << location;
    const v1::Failure failure = failureOf(found.status());
    EXPECT_EQ(failure.reason(), v1::Failure::INVALID_MODEL);
    EXPECT_EQ(failure.attribute(), location);
    EXPECT_EQ(failure.found(), outside);
    EXPECT_THAT(failure.fix(), testing::HasSubstr("--external-data"));
  }
  link("sub", "alias");
  EXPECT_EQ(resolveExternalFile(folder_ + "/alias/model.onnx", "inner.bin").value(), weights)
      << "the folder itself by a link";
}

TEST_F(ExternalDataTest, SnapshotsOfTheHubLinkToTheirOwnBlobs) {
  const std::string repository = "models--org--net", snapshot = repository + "/snapshots/4f1a";
  for (const std::string& made : {repository + "/blobs", snapshot + "/onnx", std::string("models--other/blobs"),
                                  std::string("net/snapshots/4f1a"), std::string("net/blobs")})
    std::filesystem::create_directories(folder_ + "/" + made);
  const std::string blob = file(repository + "/blobs/ab12", "w");
  file("models--other/blobs/cd34", "w");
  file("net/blobs/ab12", "w");
  const std::string model = folder_ + "/" + snapshot + "/onnx/model.onnx";
  link("../../../blobs/ef56", snapshot + "/onnx/model.onnx");
  link("../../../blobs/ab12", snapshot + "/onnx/model.onnx_data");
  link("../../../../models--other/blobs/cd34", snapshot + "/onnx/other.bin");
  link("../../blobs/ab12", "net/snapshots/4f1a/weights.bin");
  EXPECT_EQ(resolveExternalFile(model, "model.onnx_data").value(), blob);
  EXPECT_FALSE(resolveExternalFile(model, "other.bin").ok()) << "blobs of another repository";
  EXPECT_FALSE(resolveExternalFile(folder_ + "/net/snapshots/4f1a/model.onnx", "weights.bin").ok())
      << "no repository's name";
  std::filesystem::remove_all(folder_ + "/" + repository + "/blobs");
  link("..", repository + "/blobs");
  file("ab12", "secret");
  EXPECT_FALSE(resolveExternalFile(model, "model.onnx_data").ok()) << "blobs that are a link themselves";
}

}  // namespace
}  // namespace tessera::client
