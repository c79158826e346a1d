#include "proto/channel/identity.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tessera {
namespace {

absl::Status statusOf(const std::string& address, const Identity& identity) {
  return openChannel(address, identity, grpc::ChannelArguments()).status();
}

std::string fileWith(const std::string& content) {
  static int files = 0;
  const std::string path = testing::TempDir() + "identity " + std::to_string(++files);
  std::ofstream(path) << content;
  return path;
}

TEST(OpenChannel, AnAddressIsAHostAndAPort) {
  for (const char* good : {"localhost:7400", "127.0.0.1:1", "[::1]:7400", "unix:/run/x.sock", "dns:///build-1:7400"}) {
    EXPECT_TRUE(statusOf(good, {}).ok()) << good;
  }
  for (const char* bad : {"", "localhost", "127.0.0.1", ":7400", "http://localhost:7400", "localhost:0",
                          "localhost:70000", "localhost:http"}) {
    const absl::Status status = statusOf(bad, {});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_NE(status.message().find(bad), std::string::npos) << status;
  }
}

TEST(OpenChannel, AListHoldsIpv4Addresses) {
  for (const char* good : {"127.0.0.1:7400,127.0.0.1:7401", "ipv4:10.0.0.1:1,10.0.0.2:1"}) {
    EXPECT_TRUE(statusOf(good, {}).ok()) << good;
  }
  for (const char* bad : {"127.0.0.1:7400,", ",127.0.0.1:7400", "127.0.0.1:7400,build-2:7400", "127.0.0.1:1,[::1]:1",
                          "127.0.0.1:1,127.0.0.1:0", "dns:///a:1,127.0.0.1:1"}) {
    const absl::Status status = statusOf(bad, {});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_NE(status.message().find(bad), std::string::npos) << status;
  }
}

TEST(OpenChannel, ATokenGoesToNoServerOfAListInPlainTextIfOneIsRemote) {
  Identity identity;
  identity.token = "tessera-0123";
  EXPECT_TRUE(statusOf("127.0.0.1:1,127.0.0.2:1", identity).ok());
  for (const char* list : {"127.0.0.1:1,10.0.0.1:1", "ipv4:127.0.0.1:1,10.0.0.1:1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(statusOf(list, identity))) << list;
  }
}

TEST(OpenChannel, WhatIsNoTokenIsNotSent) {
  for (const char* bad : {"two\nlines", "t\xc3\xb6ken", "a\tb", "\x7f"}) {
    Identity said, filed;
    said.token = bad;
    filed.token_file = fileWith(bad);
    EXPECT_TRUE(absl::IsInvalidArgument(statusOf("localhost:1", said))) << bad;
    const absl::Status status = statusOf("localhost:1", filed);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_NE(status.message().find(filed.token_file), std::string::npos) << status;
  }
  Identity good, folder, project;
  good.token_file = fileWith("tessera-0123\n");
  EXPECT_TRUE(statusOf("localhost:1", good).ok());
  folder.token_file = testing::TempDir();
  EXPECT_TRUE(absl::IsInvalidArgument(statusOf("localhost:1", folder)));
  project.project =
      "gr\xc3\xb6\xc3\x9f"
      "e";
  EXPECT_TRUE(absl::IsInvalidArgument(statusOf("localhost:1", project)));
}

TEST(OpenChannel, WhatIsNoPemIsNamed) {
  for (std::string Identity::* file : {&Identity::ca_file, &Identity::certificate_file}) {
    for (const std::string& wrong :
         {fileWith("import onnx\n"), fileWith(""), testing::TempDir(), std::string("absent")}) {
      Identity identity;
      identity.key_file = fileWith("-----BEGIN PRIVATE KEY-----\n");
      if (file == &Identity::ca_file) identity.key_file.clear();
      identity.*file = wrong;
      const absl::Status status = statusOf("localhost:1", identity);
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong;
      EXPECT_NE(status.message().find(wrong), std::string::npos) << status;
    }
  }
}

}  // namespace
}  // namespace tessera
