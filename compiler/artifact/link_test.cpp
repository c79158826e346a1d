#include "compiler/artifact/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "proto/failure.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;

/// Every file that linking writes is on a full disk in turn.
TEST(LinkTest, AFullDiskIsTheMachinesFault) {
  for (const char* name : {"exports.map", "0.o", "code.so"}) {
    std::string folder = testing::TempDir() + "linkXXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    std::filesystem::create_symlink("/dev/full", folder + "/" + name);
    // An object of nothing; lld would refuse it, so it is left out where lld is reached.
    const bool links = std::string_view(name) == "code.so";
    const absl::Status status =
        linkShared(links ? std::vector<std::string>{} : std::vector<std::string>{"object"}, "f", folder);
    EXPECT_EQ(failureOf(status).reason(), v1::Failure::WORKER_FAULT) << name << ": " << status;
    EXPECT_THAT(status.message(), HasSubstr(std::string("/") + name));
    EXPECT_THAT(status.message(), HasSubstr("No space left on device"));
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
}  // namespace tessera::compiler
