#include "compiler/target/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/target/cpu_features.h"
#include "compiler/target/dot_product.h"
#include "compiler/target/target.h"
#include "compiler/target/tile_product.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A folder like /sys/devices/system/cpu with caches chosen by the test.
class FakeSysfs {
 public:
  FakeSysfs()
      : root_(std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~FakeSysfs() { std::filesystem::remove_all(root_); }

  void addCache(int index, const std::map<std::string, std::string>& files) {
    const auto folder = root_ / "cpu0/cache" / ("index" + std::to_string(index));
    std::filesystem::create_directories(folder);
    for (const auto& [name, text] : files) std::ofstream(folder / name) << text << "\n";
  }
  void addFile(const std::string& folder, const std::string& name, const std::string& text) {
    std::filesystem::create_directories(root_ / folder);
    std::ofstream(root_ / folder / name) << text << "\n";
  }
  HostPaths paths() const { return {.cpuinfo = (root_ / "cpuinfo").string(), .cpus = root_.string()}; }
  void writeCpuinfo(const std::string& text) const { std::ofstream(root_ / "cpuinfo") << text; }

 private:
  std::filesystem::path root_;
};

/// Sets TESSERA_HOST_FEATURES during its lifetime.
class FeatureLimit {
 public:
  explicit FeatureLimit(const std::string& list) {
    if (const char* set = std::getenv(kHostFeaturesVariable)) before_ = set;
    setenv(kHostFeaturesVariable, list.c_str(), 1);
  }
  ~FeatureLimit() { setenv(kHostFeaturesVariable, before_.c_str(), 1); }
  FeatureLimit(const FeatureLimit&) = delete;
  FeatureLimit& operator=(const FeatureLimit&) = delete;

 private:
  std::string before_;
};

TEST(Host, CachesAndNameComeFromTheKernel) {
  FakeSysfs sysfs;
  sysfs.writeCpuinfo("processor\t: 0\nmodel name\t: Imaginary 9000\n");
  sysfs.addCache(0, {{"level", "1"},
                     {"type", "Data"},
                     {"size", "40K"},
                     {"ways_of_associativity", "10"},
                     {"coherency_line_size", "64"},
                     {"shared_cpu_list", "0,4"}});
  sysfs.addCache(1, {{"level", "1"}, {"type", "Instruction"}, {"size", "16K"}});
  sysfs.addCache(2, {{"level", "2"}, {"type", "Unified"}, {"size", "3M"}, {"shared_cpu_list", "0-3,8"}});
  const auto target = detectHostTarget(sysfs.paths());
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->name(), "host");
  EXPECT_THAT(target->summary(), HasSubstr("Imaginary 9000"));
  EXPECT_EQ(target->memory(0).capacity_bytes(), 40 * 1024);
  EXPECT_EQ(target->memory(0).associativity(), 10);
  EXPECT_EQ(target->memory(0).shared_by(), 2);
  EXPECT_EQ(target->memory(1).capacity_bytes(), 3 * 1024 * 1024);
  EXPECT_EQ(target->memory(1).shared_by(), 5);
}

TEST(Host, ThreadsOfOneCoreShareNothing) {
  FakeSysfs sysfs;
  sysfs.writeCpuinfo("flags\t\t: fpu avx\n");
  sysfs.addFile("cpu0/topology", "thread_siblings_list", "0,4");
  sysfs.addCache(0, {{"level", "1"}, {"type", "Data"}, {"size", "48K"}, {"shared_cpu_list", "0,4"}});
  sysfs.addCache(1, {{"level", "3"}, {"type", "Unified"}, {"size", "32M"}, {"shared_cpu_list", "0-7"}});
  const auto target = detectHostTarget(sysfs.paths());
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->units(0).threads(), 2);
  EXPECT_EQ(target->memory(0).shared_by(), 1);
  ASSERT_EQ(target->memory(2).name(), "L3");
  EXPECT_EQ(target->memory(2).shared_by(), 4);
}

// A guest sees two of the cores that share a cache; the built-in chip has at least as many.
TEST(Host, AVirtualMachineIsNotAlone) {
  for (const bool guest : {false, true}) {
    FakeSysfs sysfs;
    sysfs.writeCpuinfo(guest ? "flags\t\t: fpu hypervisor avx\n" : "flags\t\t: fpu avx\n");
    sysfs.addCache(0, {{"level", "3"}, {"type", "Unified"}, {"size", "32M"}, {"shared_cpu_list", "0-1"}});
    const auto target = detectHostTarget(sysfs.paths());
    ASSERT_TRUE(target.ok()) << target.status();
    ASSERT_EQ(target->memory(2).name(), "L3");
    EXPECT_EQ(target->memory(2).shared_by() == 2, !guest);
  }
}

// Nor does it see which threads run on its cores: its plans assume as many threads per core as the chip can run.
TEST(Host, AVirtualMachineIsNotAloneOnItsCores) {
  for (const bool guest : {false, true}) {
    FakeSysfs sysfs;
    sysfs.writeCpuinfo(guest ? "flags\t\t: fpu hypervisor avx\n" : "flags\t\t: fpu avx\n");
    sysfs.addFile("cpu0/topology", "thread_siblings_list", "0");
    const auto target = detectHostTarget(sysfs.paths());
    ASSERT_TRUE(target.ok()) << target.status();
    if (guest) {
      EXPECT_EQ(target->units(0).threads(), findBuiltinTarget(target->code().cpu())->units(0).threads());
    } else {
      EXPECT_EQ(target->units(0).threads(), 1);
    }
  }
}

TEST(Host, WithoutSysfsTheBuiltinFiguresStay) {
  const auto target = detectHostTarget({.cpuinfo = "/nonexistent", .cpus = "/nonexistent"});
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_GT(target->memory(0).capacity_bytes(), 0);
  EXPECT_THAT(validateTarget(*target), IsEmpty());
}

TEST(Host, ThisMachineRunsWhatIsCompiledForItself) {
  const v1::HostInfo info = hostInfo();
  const auto target = detectHostTarget();
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_THAT(hostProblems(target->code(), info), IsEmpty());
  EXPECT_GE(info.cores(), 1);
  EXPECT_GT(info.memory_bytes(), 0);
  EXPECT_EQ(info.cpu(), target->code().cpu());
  // A listed feature may be used: it was requested from the kernel.
  for (const std::string& feature : info.features()) EXPECT_EQ(hostFeature(feature), FeatureState::kPresent) << feature;
}

// A virtual machine, an old kernel, or one that refuses: all features except the tiles are present.
TEST(Host, AChipWithoutItsTilesKeepsTheRest) {
  if (hostArchitecture() != "x86_64") GTEST_SKIP() << "no chip of this architecture has tiles";
  const CpuIdentity chip{.vendor = "GenuineIntel", .family = 6, .model = 0x8f, .stepping = 8};
  const v1::Target& whole = *findBuiltinTarget("sapphirerapids");
  const auto closest = [&](const std::set<std::string>& without) {
    std::vector<std::string_view> features;
    for (const std::string& feature : whole.code().features())
      if (!without.contains(feature)) features.push_back(feature);
    const auto found = closestBuiltin(chip, features);
    EXPECT_TRUE(found);
    return found.value_or(v1::Target());
  };
  EXPECT_EQ(closest({}).summary(), "sapphirerapids");
  EXPECT_EQ(closest({}).code().SerializeAsString(), whole.code().SerializeAsString());
  EXPECT_EQ(tileProducts(usableInstructions(closest({}))).size(), 5U);

  const v1::Target without = closest({"amx-bf16", "amx-int8", "amx-tile"});
  EXPECT_EQ(without.summary(), "sapphirerapids without amx-bf16 amx-int8 amx-tile");
  EXPECT_EQ(without.code().cpu(), "sapphirerapids");
  EXPECT_EQ(without.code().features_size(), whole.code().features_size() - 3);
  EXPECT_THAT(validateTarget(without), IsEmpty());
  const auto usable = usableInstructions(without);
  EXPECT_THAT(tileProducts(usable), IsEmpty());
  EXPECT_EQ(dotProducts(usable), dotProducts(usableInstructions(whole)));
  EXPECT_FALSE(dotProducts(usable).empty());
  // Only some of the products.
  EXPECT_THAT(tileProducts(usableInstructions(closest({"amx-bf16"}))), SizeIs(4));

  EXPECT_EQ(closest({"avx512vnni"}).name(), "x86-64-v4") << "what else is missing is another chip";
  EXPECT_FALSE(closestBuiltin(chip, {"avx", "amx-tile"}));
}

// For a model newer than the table, or a virtual machine's, features decide.
TEST(Host, AnUnknownModelIsTheChipOfItsMakerWithMostOfItsFeatures) {
  if (hostArchitecture() != "x86_64") GTEST_SKIP() << "of one architecture";
  const auto closest = [](const char* vendor, const std::string& has, const std::set<std::string>& without = {}) {
    CpuIdentity chip{.family = 6, .model = 0xa7, .stepping = 1};
    std::snprintf(chip.vendor, sizeof(chip.vendor), "%s", vendor);
    std::vector<std::string_view> features{"sha"};
    for (const std::string& feature : findBuiltinTarget(has)->code().features())
      if (!without.contains(feature)) features.push_back(feature);
    const auto found = closestBuiltin(chip, features);
    return found ? found->summary() : "none";
  };
  EXPECT_EQ(closest("GenuineIntel", "sapphirerapids"), "sapphirerapids by its features");
  EXPECT_EQ(closest("GenuineIntel", "sapphirerapids", {"amx-bf16", "amx-int8", "amx-tile"}),
            "sapphirerapids by its features without amx-bf16 amx-int8 amx-tile");
  EXPECT_EQ(closest("GenuineIntel", "sapphirerapids", {"avx512fp16"}), "icelake-server by its features");
  EXPECT_EQ(closest("GenuineIntel", "sapphirerapids", {"avx512vbmi2"}), "cascadelake by its features");
  EXPECT_EQ(closest("AuthenticAMD", "znver5"), "znver5 by its features");
  EXPECT_EQ(closest("AuthenticAMD", "znver5", {"avxvnni"}), "znver4 by its features");
  EXPECT_EQ(closest("AuthenticAMD", "znver5", {"sse4a"}), "x86-64-v4");
  // Features that match a level as well give the level, and so does a chip of another vendor.
  EXPECT_EQ(closest("GenuineIntel", "skylake-avx512"), "x86-64-v4");
  EXPECT_EQ(closest("GenuineIntel", "haswell"), "x86-64-v3");
  EXPECT_EQ(closest("CentaurHauls", "sapphirerapids"), "x86-64-v4");
  EXPECT_EQ(closest("GenuineIntel", "haswell", {"avx2"}), "none");
}

// As on a machine with AVX2 only, on which all tests that need no more must pass.
TEST(Host, IsLimitedToTheFeaturesThatTheEnvironmentNames) {
  if (hostArchitecture() != "x86_64") GTEST_SKIP() << "of one architecture";
  const v1::Target& level = *findBuiltinTarget("x86-64-v3");
  if (!hostProblems(level.code(), hostInfo()).empty()) GTEST_SKIP() << "no AVX2 here";
  const FeatureLimit limit(absl::StrCat("no-such-feature,", absl::StrJoin(level.code().features(), ",")));
  EXPECT_EQ(hostFeature("avx512f"), FeatureState::kAbsent);
  EXPECT_EQ(hostFeature("avx"), FeatureState::kPresent);
  EXPECT_EQ(hostFeature("no-such-feature"), FeatureState::kUnknown);
  EXPECT_THAT(hostInfo().features(), testing::ElementsAreArray(level.code().features()));
  const auto target = detectHostTarget();
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->code().cpu(), closestBuiltin(hostIdentity(), hostFeatures())->code().cpu());
  EXPECT_THAT(target->code().features(), testing::ElementsAreArray(level.code().features()));
  EXPECT_EQ(target->registers().vector_bits(), 256);
  EXPECT_THAT(target->summary(), HasSubstr("limited by TESSERA_HOST_FEATURES"));
}

TEST(Host, ALimitBelowEveryTargetIsToldOf) {
  const FeatureLimit limit("sse2,neon");
  const auto target = detectHostTarget();
  EXPECT_EQ(failureOf(target.status()).reason(), v1::Failure::INCOMPATIBLE_HOST);
  EXPECT_THAT(failureOf(target.status()).fix(), HasSubstr("unset TESSERA_HOST_FEATURES"));
}

TEST(Host, MissingFeaturesAreNamed) {
  v1::HostInfo host;
  host.set_triple("x86_64-unknown-linux-gnu");
  for (const std::string& feature : findBuiltinTarget("x86-64-v3")->code().features()) host.add_features(feature);
  EXPECT_THAT(hostProblems(findBuiltinTarget("x86-64-v3")->code(), host), IsEmpty());
  const auto problems = hostProblems(findBuiltinTarget("cascadelake")->code(), host);
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].reason(), v1::Failure::INCOMPATIBLE_HOST);
  EXPECT_THAT(problems[0].message(), HasSubstr("avx512vnni"));
  EXPECT_THAT(problems[0].message(), testing::Not(HasSubstr("avx2")));
  const auto arm = hostProblems(findBuiltinTarget("aarch64")->code(), host);
  ASSERT_THAT(arm, SizeIs(1));
  EXPECT_THAT(arm[0].message(), HasSubstr("architecture"));
}

TEST(CpuFeatures, EveryFeatureABuiltinOfThisArchitectureNeedsIsInTheTable) {
  for (const v1::Target& target : builtinTargets()) {
    if (!target.code().triple().starts_with(hostArchitecture())) continue;
    for (const std::string& feature : target.code().features()) {
      EXPECT_NE(hostFeature(feature), FeatureState::kUnknown) << target.name() << " " << feature;
    }
  }
  EXPECT_EQ(hostFeature("warp-drive"), FeatureState::kUnknown);
}

TEST(CpuFeatures, AgreesWithTheKernel) {
  const FeatureLimit none("");
  // Linux prints some features under other names; these have the same name.
  std::ifstream file("/proc/cpuinfo");
  std::string flags;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("flags")) flags = line + " ";
  }
  if (flags.empty()) GTEST_SKIP() << "no flags line in /proc/cpuinfo";
  for (const char* name : {"avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "gfni", "bmi2"}) {
    EXPECT_EQ(hostFeature(name) == FeatureState::kPresent, flags.find(" " + std::string(name) + " ") != flags.npos)
        << name;
  }
}

}  // namespace
}  // namespace tessera::compiler
