#include "compiler/target/hierarchy.h"

#include <gmock/gmock.h>

#include <limits>

#include "compiler/target/chip.h"
#include "compiler/target/difference.h"
#include "compiler/target/rates.h"
#include "compiler/target/target.h"

namespace tessera::compiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Two clusters of three cores; a core has one array of 4x2 elements and two vector units.
constexpr char kNested[] = R"(
    name: "nested" family: SPATIAL
    memory { name: "lane" unit: "vector" capacity_bytes: 64 bandwidth_bytes_per_cycle: 8 energy_pj_per_byte: 0.5 }
    memory { name: "near" unit: "core" capacity_bytes: 1200 bandwidth_bytes_per_cycle: 24 write_bandwidth_bytes_per_cycle: 6
             energy_pj_per_byte: 1 write_energy_pj_per_byte: 3 multicast: true }
    memory { name: "mid" unit: "cluster" capacity_bytes: 9000 bandwidth_bytes_per_cycle: 30 }
    memory { name: "DRAM" bandwidth_bytes_per_cycle: 2 shared_by: 6 energy_pj_per_byte: 50 }
    units { name: "core" parent: "cluster" count: 3 frequency_ghz: 1 }
    units { name: "array" parent: "core" count: 1 lanes: 8 frequency_ghz: 1 ops_per_cycle: 16 }
    units { name: "row" parent: "array" count: 4 lanes: 2 frequency_ghz: 1 ops_per_cycle: 4 }
    units { name: "pe" parent: "row" count: 2 lanes: 1 frequency_ghz: 1 ops_per_cycle: 2 }
    units { name: "vector" parent: "core" count: 2 lanes: 4 frequency_ghz: 1 ops_per_cycle: 4 memory: "lane"
            rates { operation: "elementwise" elements_per_cycle: 4 energy_pj: 1 }
            rates { operation: "elementwise" dtype: DATA_TYPE_F16 elements_per_cycle: 8 }
            rates { operation: "exp" elements_per_cycle: 0.5 }
            rates { operation: "gather" elements_per_cycle: 1 } }
    units { name: "cluster" count: 2 frequency_ghz: 1 })";

v1::Target nested() {
  const absl::StatusOr<v1::Target> target = parseTarget(kNested);
  EXPECT_TRUE(target.ok()) << target.status();
  return target.value_or(v1::Target());
}

TEST(Hierarchy, CountsUnitsAndLevelsOnTheChip) {
  const Hierarchy chip(nested());
  std::vector<int64_t> units, levels;
  for (const Hierarchy::Unit& unit : chip.units()) units.push_back(unit.instances);
  for (const Hierarchy::Level& level : chip.levels()) levels.push_back(level.instances);
  EXPECT_THAT(units, ElementsAre(6, 6, 24, 48, 12, 2));
  EXPECT_THAT(levels, ElementsAre(12, 6, 2, 1));
  EXPECT_EQ(chip.fanOut(chip.levelNamed("mid"), chip.levelNamed("near")), 3);
  EXPECT_EQ(chip.fanOut(chip.levelNamed("DRAM"), chip.levelNamed("lane")), 12);
  EXPECT_EQ(chip.unit("core")->operations_per_cycle, 16) << "the array's, or its eight elements'";
  EXPECT_EQ(chip.unit("cluster")->operations_per_cycle, 48);
  EXPECT_TRUE(chip.isInside(chip.unitNamed("pe"), chip.unitNamed("cluster")));
  EXPECT_FALSE(chip.isInside(chip.unitNamed("pe"), chip.unitNamed("vector")));
  EXPECT_EQ(chip.unitNamed("none"), -1);
  EXPECT_EQ(chip.level("none"), nullptr);
}

TEST(Hierarchy, UnitsShareTheLevelsAroundThem) {
  const Hierarchy chip(nested());
  const Hierarchy::Level& near = *chip.level("near");
  EXPECT_EQ(near.read_bytes_per_cycle, 24);
  EXPECT_EQ(near.write_bytes_per_cycle, 6);
  EXPECT_EQ(near.write_pj_per_byte, 3);
  EXPECT_TRUE(near.multicast);
  EXPECT_EQ(chip.level("lane")->write_pj_per_byte, 0.5) << "as for a read";
  const auto share = [&](const char* level, const char* unit) {
    return chip.shareOf(chip.levelNamed(level), chip.unitNamed(unit));
  };
  EXPECT_EQ(share("near", "array").sharers, 1);
  EXPECT_EQ(share("near", "vector").sharers, 2);
  EXPECT_EQ(share("near", "vector").capacity_bytes, 600);
  EXPECT_EQ(share("near", "vector").write_bytes_per_cycle, 3);
  EXPECT_EQ(share("mid", "pe").sharers, 24);
  EXPECT_EQ(share("lane", "array").sharers, 1) << "each array could use two";
  // Six cores share the DRAM, 2 bytes a cycle each.
  EXPECT_EQ(chip.level("DRAM")->read_bytes_per_cycle, 12);
  EXPECT_EQ(share("DRAM", "core").read_bytes_per_cycle, 2);
  EXPECT_EQ(share("DRAM", "vector").sharers, 12);
  EXPECT_EQ(share("DRAM", "vector").read_bytes_per_cycle, 1);
}

// Cores are counted by shared_by; a unit that is not inside of a core stands for one.
TEST(Hierarchy, ChipsOfTheOldFormMeanWhatTheyMeant) {
  const v1::Target& gpu = *findBuiltinTarget("sm_80");
  const Hierarchy chip(gpu);
  const int tensor = chip.unitNamed("tensor");
  ASSERT_GE(tensor, 0);
  EXPECT_EQ(chip.units()[static_cast<size_t>(tensor)].instances, 432);
  for (int l = 0; l < gpu.memory_size(); ++l) {
    const v1::MemoryLevel& level = gpu.memory(l);
    const Hierarchy::Share share = chip.shareOf(l, tensor);
    EXPECT_EQ(share.sharers, level.shared_by()) << level.name();
    EXPECT_EQ(share.read_bytes_per_cycle, level.bandwidth_bytes_per_cycle()) << level.name();
    EXPECT_EQ(share.capacity_bytes, level.capacity_bytes() / level.shared_by()) << level.name();
    EXPECT_EQ(chip.levels()[static_cast<size_t>(l)].instances, std::max(1, 108 / level.shared_by())) << level.name();
    // A unit that is alone has all of each level, at the rate of one core.
    EXPECT_EQ(chip.shareOf(l, -1).capacity_bytes, level.capacity_bytes()) << level.name();
  }
}

TEST(Hierarchy, ACompletedChipHasFiguresOfACore) {
  const v1::Target whole = completedTarget(nested());
  EXPECT_EQ(whole.units(0).lanes(), 8);
  EXPECT_EQ(whole.units(0).ops_per_cycle(), 16);
  EXPECT_THAT(validateTarget(whole), IsEmpty());
  const Chip chip(nested());
  EXPECT_EQ(chip.cores(), 6);
  EXPECT_EQ(chip.level(0).bytes_per_cycle, 16) << "two vector units with a level each";
  EXPECT_EQ(chip.level(1).bytes_per_cycle, 24);
  EXPECT_EQ(chip.level(2).bytes_per_cycle, 10) << "three cores share it";
  EXPECT_EQ(chip.level(2).sharers, 3);
  EXPECT_EQ(chip.level(3).bytes_per_cycle, 2);
}

TEST(Hierarchy, RatesAreFoundByNameBeforeKindAndByTypeBeforeAll) {
  const v1::Target target = nested();
  const v1::ComputeUnit& vector = *vectorUnitsOf(target).at(0);
  EXPECT_EQ(vector.name(), "vector");
  const auto speed = [&](std::string_view operation, v1::DataType dtype) {
    const v1::ComputeUnit::Rate* rate = rateOf(vector, operation, dtype);
    return rate ? rate->elements_per_cycle() : 0;
  };
  EXPECT_EQ(speed("addf", v1::DATA_TYPE_F32), 4);
  EXPECT_EQ(speed("addf", v1::DATA_TYPE_F16), 8);
  EXPECT_EQ(speed("cmpf.olt", v1::DATA_TYPE_F16), 8);
  EXPECT_EQ(speed("exp", v1::DATA_TYPE_F16), 0.5) << "the name comes first";
  EXPECT_EQ(speed("log", v1::DATA_TYPE_F16), 0) << "the unit has no rate for transcendental functions";
  EXPECT_EQ(speed("load", v1::DATA_TYPE_I64), 1);
  EXPECT_EQ(speed("reduction", v1::DATA_TYPE_F32), 0);
  EXPECT_EQ(kindOf("exp"), "transcendental");
  EXPECT_EQ(kindOf("no-operation"), "");
}

TEST(Hierarchy, EverySpatialChipRunsWholeNetworks) {
  int chips = 0;
  for (const v1::Target& target : builtinTargets()) {
    if (target.family() != v1::Target::SPATIAL) continue;
    ++chips;
    const std::vector<const v1::ComputeUnit*> units = vectorUnitsOf(target);
    ASSERT_FALSE(units.empty()) << target.name();
    for (const v1::ComputeUnit* unit : units) {
      EXPECT_FALSE(unit->memory().empty()) << target.name();
      for (const char* operation : {"addf", "select", "exp", "reduction", "copy", "transpose", "gather", "load"}) {
        for (const v1::DataType dtype : {v1::DATA_TYPE_F32, v1::DATA_TYPE_F16, v1::DATA_TYPE_I64, v1::DATA_TYPE_BOOL}) {
          EXPECT_NE(rateOf(*unit, operation, dtype), nullptr) << target.name() << " " << unit->name() << operation;
        }
      }
      EXPECT_GT(rateOf(*unit, "mulf", v1::DATA_TYPE_F32)->energy_pj(), 0) << target.name();
    }
    for (const v1::MemoryLevel& level : target.memory()) EXPECT_GT(level.energy_pj_per_byte(), 0) << target.name();
    for (const v1::Intrinsic& each : target.intrinsics()) EXPECT_GT(each.energy_pj(), 0) << target.name();
    EXPECT_FALSE(target.intrinsics().empty()) << target.name();
  }
  EXPECT_EQ(chips, 9);
}

// Table 3.7 of the thesis.
TEST(Hierarchy, EdgeAndCloudAreThoseOfTheThesis) {
  const Hierarchy edge(*findBuiltinTarget("edge")), cloud(*findBuiltinTarget("cloud"));
  EXPECT_EQ(edge.unit("pe")->instances, 32 * 32);
  EXPECT_EQ(edge.unit("core")->instances, 4);
  EXPECT_EQ(edge.level("L1")->capacity_bytes, 4 << 20);
  EXPECT_EQ(edge.level("L1")->read_bytes_per_cycle * 4, 1200) << "1.2 TB/s";
  EXPECT_EQ(edge.level("DRAM")->read_bytes_per_cycle, 60) << "60 GB/s";
  EXPECT_EQ(cloud.unit("pe")->instances, 256 * 256);
  EXPECT_EQ(cloud.unit("sub-core")->instances, 4 * 16);
  EXPECT_EQ(cloud.level("L1")->capacity_bytes * 16, 20 << 20);
  EXPECT_EQ(cloud.level("L1")->read_bytes_per_cycle * 64, 9600) << "9.6 TB/s";
  EXPECT_EQ(cloud.level("L2")->capacity_bytes, 40 << 20);
  EXPECT_EQ(cloud.level("L2")->read_bytes_per_cycle * 4, 1900) << "1.9 TB/s";
  EXPECT_EQ(cloud.level("DRAM")->read_bytes_per_cycle, 384) << "384 GB/s";
}

struct Fault {
  const char* field;
  const char* message;  ///< a part of it
  void (*make)(v1::Target&);
};

class FaultOfAHierarchy : public ::testing::TestWithParam<Fault> {};

TEST_P(FaultOfAHierarchy, IsNamed) {
  v1::Target target = nested();
  GetParam().make(target);
  const std::vector<v1::TargetProblem> problems = validateTarget(target);
  ASSERT_FALSE(problems.empty());
  EXPECT_EQ(problems[0].field(), GetParam().field);
  EXPECT_THAT(problems[0].message(), HasSubstr(GetParam().message));
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

INSTANTIATE_TEST_SUITE_P(
    Each, FaultOfAHierarchy,
    ::testing::Values(
        Fault{"units[1].parent", "'cores' is no unit of this target; accepted: core, array",
              [](v1::Target& t) { t.mutable_units(1)->set_parent("cores"); }},
        Fault{"units[5].parent", "makes cluster a part of itself",
              [](v1::Target& t) { t.mutable_units(5)->set_parent("cluster"); }},
        Fault{"units[0].parent", "makes core a part of itself",
              [](v1::Target& t) { t.mutable_units(5)->set_parent("pe"); }},
        Fault{"units[2].name", "'array' is the name of an earlier unit",
              [](v1::Target& t) { t.mutable_units(2)->set_name("array"); }},
        Fault{"units[1].count", "units on the chip; at most",
              [](v1::Target& t) {
                t.mutable_units(1)->set_count(1 << 20);
                t.mutable_units(5)->set_count(1 << 20);
                t.mutable_units(0)->set_parent("cluster");
              }},
        Fault{"units[3].lanes", "is 0; accepted: 1 to", [](v1::Target& t) { t.mutable_units(3)->set_lanes(0); }},
        Fault{"units[3].ops_per_cycle", "above 0", [](v1::Target& t) { t.mutable_units(3)->set_ops_per_cycle(0); }},
        Fault{"units[0].ops_per_cycle", "above 0", [](v1::Target& t) { t.mutable_units(0)->set_ops_per_cycle(-1); }},
        Fault{"units[4].memory", "'lain' is no memory of this target; accepted: lane, near",
              [](v1::Target& t) { t.mutable_units(4)->set_memory("lain"); }},
        Fault{"units[4].rates[2].operation", "kinds: elementwise, transcendental",
              [](v1::Target& t) { t.mutable_units(4)->mutable_rates(2)->set_operation("expo"); }},
        Fault{"units[4].rates[2].operation", "'cmpf.olt' is neither",
              [](v1::Target& t) { t.mutable_units(4)->mutable_rates(2)->set_operation("cmpf.olt"); }},
        Fault{"units[4].rates[1].operation", "has an earlier rate for the same element type",
              [](v1::Target& t) { t.mutable_units(4)->mutable_rates(1)->clear_dtype(); }},
        Fault{"units[4].rates[0].dtype", "is not a known element type",
              [](v1::Target& t) { t.mutable_units(4)->mutable_rates(0)->set_dtype(static_cast<v1::DataType>(999)); }},
        Fault{"units[4].rates[0].elements_per_cycle", "above 0",
              [](v1::Target& t) { t.mutable_units(4)->mutable_rates(0)->set_elements_per_cycle(0); }},
        Fault{"units[4].rates[0].elements_per_cycle", "above 0",
              [](v1::Target& t) { t.mutable_units(4)->mutable_rates(0)->set_elements_per_cycle(kInfinity); }},
        Fault{"units[4].rates[3].energy_pj", "0 (unknown) or above",
              [](v1::Target& t) { t.mutable_units(4)->mutable_rates(3)->set_energy_pj(-0.5); }},
        Fault{"memory[1].unit", "'score' is no unit of this target",
              [](v1::Target& t) { t.mutable_memory(1)->set_unit("score"); }},
        Fault{"memory[1].shared_by", "is 2, but one instance for each core is shared by 1 of the first unit",
              [](v1::Target& t) { t.mutable_memory(1)->set_shared_by(2); }},
        Fault{"memory[1].shared_by", "accepted: 1 to", [](v1::Target& t) { t.mutable_memory(1)->clear_unit(); }},
        Fault{"memory[2].unit", "gives 12 instances, more than the inner level's 6",
              [](v1::Target& t) { t.mutable_memory(2)->set_unit("vector"); }},
        Fault{"memory[3].shared_by", "gives 3 instances, more than the inner level's 2",
              [](v1::Target& t) { t.mutable_memory(3)->set_shared_by(2); }},
        Fault{"memory[1].write_energy_pj_per_byte", "0 (unknown) or above",
              [](v1::Target& t) { t.mutable_memory(1)->set_write_energy_pj_per_byte(kNan); }},
        Fault{"intrinsics[0].energy_pj", "0 (unknown) or above",
              [](v1::Target& t) {
                t.add_instruction_sets("axpy");
                t.mutable_memory(1)->set_name("buffer");
                t.add_intrinsics()->set_name("axpy");
                t.mutable_intrinsics(0)->set_energy_pj(-1);
              }},
        Fault{"intrinsics[0].unit", "'engine' is no unit of this target",
              [](v1::Target& t) {
                t.add_instruction_sets("axpy");
                t.mutable_memory(1)->set_name("buffer");
                t.add_intrinsics()->set_name("axpy");
                t.mutable_intrinsics(0)->set_unit("engine");
              }},
        Fault{"instruction_sets[0]", "'mac-16x16' runs on unit 'array', which this target does not have",
              [](v1::Target& t) {
                t.add_instruction_sets("mac-16x16");
                t.mutable_memory(1)->set_name("L1");
                t.mutable_units(1)->set_name("square");
                t.mutable_units(2)->set_parent("square");
              }}));

TEST(Hierarchy, TheOrderOfRatesIsNoPartOfTheIdentity) {
  const v1::Target target = nested();
  v1::Target other = target;
  other.mutable_units(4)->mutable_rates()->SwapElements(0, 3);
  EXPECT_EQ(targetHash(other), targetHash(target));
  EXPECT_THAT(differencesOf(target, other), IsEmpty());
  other.mutable_units(4)->mutable_rates(3)->set_energy_pj(2);
  EXPECT_NE(targetHash(other), targetHash(target));
  const std::vector<TargetDifference> differences = differencesOf(target, other);
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences[0].field, "units[vector].rates[elementwise].energy_pj");
  EXPECT_EQ(differences[0].right, "2");
}

}  // namespace
}  // namespace tessera::compiler
