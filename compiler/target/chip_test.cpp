#include "compiler/target/chip.h"

#include <gmock/gmock.h>

#include <set>

#include "compiler/target/target.h"

namespace tessera::compiler {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

Chip builtin(const std::string& name) { return Chip(*findBuiltinTarget(name)); }

/// Unset fields of a message and of its submessages.
void unset(const Message& message, const std::string& at, std::vector<std::string>& missing) {
  const auto& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (!message.GetReflection()->HasField(message, &field)) {
      missing.push_back(at + std::string(field.name()));
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      unset(message.GetReflection()->GetMessage(message, &field), at + std::string(field.name()) + ".", missing);
    }
  }
}

TEST(Chip, NothingIsLeftOpen) {
  std::vector<v1::Target> targets = builtinTargets();
  targets.emplace_back();
  for (const v1::Target& target : targets) {
    const v1::Target whole = completedTarget(target);
    std::vector<std::string> missing;
    unset(whole.cost_parameters(), "", missing);
    EXPECT_THAT(missing, testing::IsEmpty()) << target.name();
    for (const v1::MemoryLevel& level : whole.memory()) {
      EXPECT_GT(level.line_bytes(), 0) << target.name();
      EXPECT_GT(level.associativity(), 0) << target.name();
      EXPECT_LE(level.sustained_bytes_per_cycle(), level.bandwidth_bytes_per_cycle()) << target.name();
    }
    EXPECT_GT(whole.units(0).threads(), 0) << target.name();
    if (target.name().empty()) continue;
    EXPECT_THAT(validateTarget(whole), testing::IsEmpty()) << target.name();
    EXPECT_EQ(whole.memory_size(), target.memory_size()) << target.name();
    EXPECT_EQ(completedTarget(whole).SerializeAsString(), whole.SerializeAsString()) << target.name();
  }
}

TEST(Chip, ADescriptionComesBeforeItsFamilyAndThatBeforeAll) {
  v1::Target target = *findBuiltinTarget("neoverse-n1");
  EXPECT_EQ(Chip(target).threadsPerCore(), 1) << "the family's";
  EXPECT_EQ(builtin("cascadelake").threadsPerCore(), 2);
  EXPECT_EQ(Chip(target).costParameters().overheads().phase_cycles(),
            Chip().costParameters().overheads().phase_cycles());
  target.mutable_units(0)->set_threads(4);
  target.mutable_cost_parameters()->mutable_overheads()->set_phase_cycles(9000);
  target.mutable_cost_parameters()->mutable_memory()->set_exposed_share(0);
  const Chip chip(target);
  EXPECT_EQ(chip.threadsPerCore(), 4);
  EXPECT_EQ(chip.costParameters().overheads().phase_cycles(), 9000);
  EXPECT_EQ(chip.costParameters().memory().exposed_share(), 0) << "nothing is exposed, and that is said";
  EXPECT_EQ(chip.costParameters().overheads().nest_cycles(), Chip().costParameters().overheads().nest_cycles());
}

TEST(Chip, SaysWhichSumsAreCutAndWhichVectorsLieApart) {
  EXPECT_FALSE(Chip::cutsSum(1536, 1024));
  EXPECT_TRUE(Chip::cutsSum(1537, 1024));
  v1::Target target;
  EXPECT_FALSE(Chip(target).areFarApart(4 * 64, 0));
  EXPECT_TRUE(Chip(target).areFarApart(4 * 64 + 1, 0));
  EXPECT_FALSE(Chip(target).areFarApart(1000, 500)) << "they fill half of what is between";
  EXPECT_TRUE(Chip(target).areFarApart(1000, 499));
  target.mutable_cost_parameters()->mutable_prefetching()->set_adjacent_lines(8);
  EXPECT_FALSE(Chip(target).areFarApart(8 * 64, 0));
}

TEST(Chip, SetsAndSpansOfCaches) {
  EXPECT_EQ(builtin("cascadelake").near().sets(), 64);
  EXPECT_EQ(builtin("cascadelake").near().setSpan(), 4096);
  EXPECT_EQ(builtin("icelake-server").near().ways, 12);
  EXPECT_EQ(builtin("icelake-server").near().setSpan(), 4096);
  EXPECT_EQ(builtin("neoverse-n1").near().ways, 4);
  EXPECT_EQ(builtin("neoverse-n1").near().setSpan(), 16384);
  EXPECT_EQ(builtin("icelake-server").second().ways, 20);
}

TEST(Chip, SharesOfLevels) {
  const Chip server = builtin("cascadelake");
  const Chip::Level &own = server.level(1), &common = server.level(2);
  EXPECT_EQ(server.share(own, 28), static_cast<double>(own.capacity_bytes));
  const auto whole = static_cast<double>(common.capacity_bytes);
  EXPECT_EQ(server.share(common, 1), whole);
  EXPECT_EQ(server.share(common, 4), whole / 4);
  EXPECT_EQ(server.share(common, 28), whole * server.costParameters().memory().min_core_share());
  const Chip zen = builtin("znver4");
  EXPECT_EQ(zen.share(zen.level(2), 64), static_cast<double>(zen.level(2).capacity_bytes) / 8) << "eight share it";
  EXPECT_EQ(zen.farBytes(), zen.level(2).capacity_bytes / 8);
  EXPECT_EQ(server.residentBytes(own), own.capacity_bytes * 3 / 4);
  EXPECT_EQ(server.residentWays(server.near(), 5), 30) << "three quarters of five sets of eight";
  EXPECT_EQ(server.residentOperandBytes(own), own.capacity_bytes / 2);
  v1::Target crowded = server.target();
  crowded.mutable_cost_parameters()->mutable_memory()->set_stationary_share(0.25);
  EXPECT_EQ(Chip(crowded).residentOperandBytes(own), own.capacity_bytes / 4);
  EXPECT_EQ(completedCostParameters(crowded).memory().stationary_share(), 0.25);
  EXPECT_EQ(server.ownLevel(), 1);
  EXPECT_EQ(server.levelHolding(2 << 20).name, "L3");
  EXPECT_EQ(server.levelHolding(1e12).name, "DRAM");
}

TEST(Chip, TwoLevelsAreEnough) {
  v1::Target target = *findBuiltinTarget("cascadelake");
  target.mutable_memory()->DeleteSubrange(1, 2);
  const Chip chip(target);
  EXPECT_EQ(chip.second().name, "L1") << "blocks stay in the only cache there is";
  EXPECT_EQ(chip.beyondNear().name, "DRAM");
  EXPECT_EQ(chip.beyondNear().sustained_per_cycle, chip.beyondNear().bytes_per_cycle);
  EXPECT_EQ(chip.farBytes(), 2 * chip.near().capacity_bytes);
  EXPECT_EQ(chip.ownLevel(), 0);
  target.mutable_memory()->DeleteSubrange(0, 1);
  const Chip bare(target);
  EXPECT_EQ(bare.ownLevel(), std::nullopt);
  EXPECT_EQ(bare.beyondNear().name, "DRAM");
}

TEST(Chip, WhatACoreStartsInACycle) {
  EXPECT_EQ(builtin("cascadelake").multiplyAddsPerCycle(), 2);
  EXPECT_EQ(builtin("znver4").multiplyAddsPerCycle(), 1) << "512 bits in two passes";
  EXPECT_EQ(builtin("neoverse-v1").multiplyAddsPerCycle(), 4);
  EXPECT_EQ(builtin("cascadelake").multiplyAddLatency(), 4);
  EXPECT_EQ(builtin("haswell").multiplyAddLatency(), 5);
  EXPECT_TRUE(builtin("neoverse-n1").fusesMultiplyAdd());
  EXPECT_TRUE(builtin("haswell").fusesMultiplyAdd());
  EXPECT_FALSE(Chip().fusesMultiplyAdd());
  Chip narrow = builtin("cascadelake");
  narrow.narrowVectors(256);
  EXPECT_EQ(narrow.lanes(), 8);
  EXPECT_EQ(builtin("cascadelake").lanes(), 16);
}

TEST(Chip, MatricesAreAcceleratorsOnly) {
  EXPECT_EQ(builtin("sapphirerapids").matrixChannels(), 0);
  EXPECT_EQ(builtin("sapphirerapids").cores(), 56);
  v1::Target target;
  target.set_family(v1::Target::SPATIAL);
  v1::Intrinsic& cube = *target.add_intrinsics();
  for (const char* name : {"m", "n", "k"}) {
    v1::Intrinsic::IterDim& loop = *cube.add_iterations();
    loop.set_name(name);
    loop.set_extent(16);
    loop.set_reduction(name[0] == 'k');
  }
  EXPECT_EQ(Chip(target).matrixChannels(), 16);
  EXPECT_EQ(Chip(target).lanes(), 1);
  EXPECT_EQ(builtin("ascend-910-like").matrixChannels(), 16) << "those of f16, not the 32 of bytes";
  EXPECT_EQ(builtin("systolic-128").matrixChannels(), 128);
  EXPECT_EQ(builtin("cloud").matrixChannels(), 32);
  EXPECT_EQ(builtin("gemv-engine").matrixChannels(), 0) << "its instruction reads a vector";
  target.set_family(v1::Target::X86_64);
  EXPECT_EQ(Chip(target).matrixChannels(), 0);
}

TEST(Chip, FaultsOfPricesAreNamed) {
  v1::Target target = *findBuiltinTarget("cascadelake");
  target.mutable_cost_parameters()->mutable_memory()->set_resident_share(1.5);
  target.mutable_cost_parameters()->mutable_overheads()->set_phase_cycles(-1);
  target.mutable_cost_parameters()->mutable_products()->set_peak_share(0);
  target.mutable_cost_parameters()->mutable_products()->set_columns_per_part(0);
  target.mutable_units(0)->set_loads_per_cycle(-2);
  std::vector<std::string> fields;
  for (const v1::TargetProblem& problem : validateTarget(target)) fields.push_back(problem.field());
  EXPECT_THAT(fields, testing::UnorderedElementsAre("units[0].loads_per_cycle", "cost_parameters.memory.resident_share",
                                                    "cost_parameters.overheads.phase_cycles",
                                                    "cost_parameters.products.peak_share",
                                                    "cost_parameters.products.columns_per_part"));
}

}  // namespace
}  // namespace tessera::compiler
