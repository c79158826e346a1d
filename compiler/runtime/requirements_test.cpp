#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/runtime/artifact_reader.h"
#include "compiler/target/cpu_features.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;

TEST(Requirements, PrintedFormParsesBack) {
  const Requirements original = {"x86_64-unknown-linux-gnu", {"avx2", "fma"}};
  Requirements parsed;
  ASSERT_TRUE(parseRequirements(printRequirements(original), &parsed).ok());
  EXPECT_EQ(parsed.triple, original.triple);
  EXPECT_EQ(parsed.features, original.features);
}

TEST(Requirements, OtherFormatsAndUnknownLinesAreRefused) {
  Requirements parsed;
  EXPECT_EQ(parseRequirements("tessera-requirements 2\ntriple x\n", &parsed).code(), TESSERA_INCOMPATIBLE);
  EXPECT_EQ(parseRequirements("tessera-requirements 1\nfeature avx\n", &parsed).code(), TESSERA_CORRUPT);
  EXPECT_EQ(parseRequirements("tessera-requirements 1\ntriple x\nlicence y\n", &parsed).code(), TESSERA_CORRUPT);
  EXPECT_EQ(parseRequirements("", &parsed).code(), TESSERA_CORRUPT);
}

TEST(Requirements, HostWithoutThemIsNamed) {
  const std::string triple = std::string(hostArchitecture()) + "-unknown-linux-gnu";
  EXPECT_TRUE(checkHost({triple, {}}).ok());
  const RuntimeStatus missing = checkHost({triple, {"no-such-feature"}});
  EXPECT_EQ(missing.code(), TESSERA_INCOMPATIBLE);
  EXPECT_THAT(missing.message(), HasSubstr("no-such-feature"));
  EXPECT_EQ(checkHost({"riscv64-unknown-linux-gnu", {}}).code(), TESSERA_INCOMPATIBLE);
}

TEST(Requirements, ProgramOfADescribedChipRunsOnNoHost) {
  Requirements parsed;
  ASSERT_TRUE(
      parseRequirements(printRequirements({.triple = "", .features = {}, .simulated = "some-chip"}), &parsed).ok());
  EXPECT_EQ(parsed.simulated, "some-chip");
  const RuntimeStatus status = checkHost(parsed);
  EXPECT_EQ(status.code(), TESSERA_INCOMPATIBLE);
  EXPECT_THAT(status.message(), HasSubstr("a program for the described chip some-chip"));
  EXPECT_THAT(status.message(), HasSubstr("tessera run"));
}

// An artifact for tile instructions loads only where the host has them, after requesting the tile registers from the
// kernel.
TEST(Requirements, TilesAreAskedForWhereTheHostHasThem) {
  if (hostArchitecture() != "x86_64") GTEST_SKIP() << "no tiles are described";
  const RuntimeStatus status = checkHost({"x86_64-unknown-linux-gnu", {"amx-int8", "amx-tile"}});
  if (hostFeature("amx-int8") == FeatureState::kPresent) {
    EXPECT_TRUE(status.ok()) << status.message();
  } else if (hostFeature("amx-int8") == FeatureState::kDenied) {
    EXPECT_THAT(status.message(), HasSubstr("does not give this process the registers of amx-int8 amx-tile"));
  } else {
    EXPECT_THAT(status.message(), HasSubstr("lacks CPU features the artifact needs: amx-int8 amx-tile"));
  }
}

}  // namespace
}  // namespace tessera::compiler
