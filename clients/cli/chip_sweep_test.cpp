#include "clients/cli/chip_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/target/target.h"

namespace tessera::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1::Target fourCores() {
  return compiler::parseTargetText(R"(name: "small" summary: "four cores" family: SPATIAL
    memory { name: "L1" capacity_bytes: 524288 bandwidth_bytes_per_cycle: 64 shared_by: 1 }
    memory { name: "DRAM" bandwidth_bytes_per_cycle: 4 write_bandwidth_bytes_per_cycle: 2 shared_by: 4 }
    units { name: "core" count: 4 lanes: 256 frequency_ghz: 1 ops_per_cycle: 512 })")
      .value();
}

TEST(ChipSweep, RangesDoubleOrAddAndTheLastParameterIsFastest) {
  const auto parameters =
      parseSweep("L1.capacity=1M..4M, 6M, core.count=1, 2,core.ops_per_cycle=100..300+100", fourCores());
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  ASSERT_EQ(parameters->size(), 3U);
  EXPECT_THAT((*parameters)[0].values, ElementsAre(1 << 20, 2 << 20, 4 << 20, 6 << 20));
  EXPECT_THAT((*parameters)[1].values, ElementsAre(1, 2));
  EXPECT_THAT((*parameters)[2].values, ElementsAre(100, 200, 300));
  const auto points = sweepPoints(*parameters);
  ASSERT_EQ(points.size(), 24U);
  EXPECT_THAT(points[4], ElementsAre(1 << 20, 2, 200));
  EXPECT_EQ(sweptValueText((*parameters)[0], 6 << 20), "6M");
  EXPECT_EQ(sweptValueText((*parameters)[0], 1536), "1.5K");
  EXPECT_EQ(sweptValueText((*parameters)[1], 1024), "1024");
}

TEST(ChipSweep, ALevelThatAllCoresShareKeepsItsTotalBandwidth) {
  const v1::Target chip = fourCores();
  const auto parameters = parseSweep("L1.capacity=8K,core.count=8", chip).value();
  const auto made = chipAt(chip, parameters, {8192, 8});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->memory(0).capacity_bytes(), 8192);
  EXPECT_EQ(made->memory(0).shared_by(), 1);
  EXPECT_EQ(made->memory(0).bandwidth_bytes_per_cycle(), 64);
  EXPECT_EQ(made->memory(1).shared_by(), 8);
  EXPECT_EQ(made->memory(1).bandwidth_bytes_per_cycle(), 2);
  EXPECT_EQ(made->memory(1).write_bandwidth_bytes_per_cycle(), 1);
  const auto both = parseSweep("DRAM.bandwidth=16,core.count=8", chip).value();
  EXPECT_EQ(chipAt(chip, both, {16, 8})->memory(1).bandwidth_bytes_per_cycle(), 16) << "a value of its own counts";
}

TEST(ChipSweep, FaultsNameTheParameter) {
  const auto message = [](const std::string& text) {
    return std::string(parseSweep(text, fourCores()).status().message());
  };
  EXPECT_THAT(message("L9.capacity=1M"),
              HasSubstr("--sweep L9.capacity: the chip has no such figure; accepted are L1.{"));
  EXPECT_THAT(message("L1.size=1M"), HasSubstr("--sweep L1.size: the chip has no such figure"));
  EXPECT_THAT(message("L1.capacity=x"), HasSubstr("--sweep L1.capacity: 'x' is no value"));
  EXPECT_THAT(message("L1.capacity="), HasSubstr("--sweep L1.capacity: '' is no value"));
  EXPECT_THAT(message("L1.capacity=4..1"), HasSubstr("--sweep L1.capacity: '4..1' is no range"));
  EXPECT_THAT(message("L1.capacity=1..2+0"), HasSubstr("--sweep L1.capacity: '1..2+0' is no range"));
  EXPECT_THAT(message("core.count=1.5"), HasSubstr("--sweep core.count: 1.5 is no whole number"));
  EXPECT_THAT(message("core.count=1,core.count=2"), HasSubstr("--sweep core.count: the parameter occurs twice"));
  EXPECT_THAT(message("4M"), HasSubstr("accepted is NAME=VALUES"));
  EXPECT_THAT(message("core.count=1..100+1,L1.capacity=1..100+1"), HasSubstr("more than 4096 points"));
  v1::Target pairs = fourCores();
  pairs.mutable_memory(0)->set_shared_by(2);
  const auto odd = chipAt(pairs, parseSweep("core.count=3", pairs).value(), {3});
  EXPECT_THAT(std::string(odd.status().message()), HasSubstr("--sweep core.count=3: 3 core cannot share L1"));
}

}  // namespace
}  // namespace tessera::client
