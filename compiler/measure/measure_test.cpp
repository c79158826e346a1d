#include "compiler/measure/measure.h"

#include <gmock/gmock.h>

#include <map>

#include "compiler/measure/description.h"
#include "compiler/target/chip.h"
#include "compiler/target/target.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;

/// Shared by all tests, since it takes seconds.
const absl::StatusOr<Measured>& measured() {
  static const absl::StatusOr<Measured> once = measureHost({.repetitions = 5});
  return once;
}

// Skips on machines without kernels for their vectors, or without enough free memory.
#define SKIP_WHERE_NOTHING_CAN_BE_MEASURED()                                     \
  if (absl::IsResourceExhausted(measured().status()) ||                          \
      failureOf(measured().status()).reason() == v1::Failure::INCOMPATIBLE_HOST) \
    GTEST_SKIP() << measured().status();                                         \
  ASSERT_TRUE(measured().ok()) << measured().status()

TEST(Measure, ADescriptionThatIsValidAndReadAsWritten) {
  SKIP_WHERE_NOTHING_CAN_BE_MEASURED();
  const std::string text = describe(*measured(), "today");
  const auto read = parseTarget(text);
  ASSERT_TRUE(read.ok()) << read.status() << text;
  EXPECT_EQ(targetHash(*read), targetHash(measured()->target));
  EXPECT_THAT(read->name(), testing::EndsWith("-measured"));
  EXPECT_THAT(text, HasSubstr("# Measured by `tessera target measure` on today."));
}

// The chip answers with the measured figures. Checks only what holds on a machine with other load.
TEST(Measure, FiguresThatAMachineCanHave) {
  SKIP_WHERE_NOTHING_CAN_BE_MEASURED();
  const Chip chip(measured()->target);
  EXPECT_GT(chip.hertz(), 0.2e9);
  EXPECT_LT(chip.hertz(), 20e9);
  EXPECT_GT(chip.near().bytes_per_cycle, chip.levels().back().bytes_per_cycle);
  EXPECT_GT(chip.near().bytes_per_cycle, 1);
  EXPECT_GE(chip.multiplyAddLatency(), 1);
  EXPECT_LE(chip.multiplyAddLatency(), 60);
  EXPECT_GT(chip.instructionsPerCycle(), 0);
  EXPECT_GT(chip.loadsPerCycle(), 0);
  const v1::CostParameters& parameters = chip.costParameters();
  EXPECT_GT(parameters.memory().transfers_per_written_line(), 0);
  EXPECT_GT(parameters.overheads().phase_cycles(), 0);
  for (const Chip::Level& level : chip.levels()) EXPECT_GT(level.sustained_per_cycle, 0) << level.name;
}

TEST(Measure, EveryFigureHasItsNoiseAndItsPlace) {
  SKIP_WHERE_NOTHING_CAN_BE_MEASURED();
  std::map<std::string, int> places;
  for (const Figure& figure : measured()->figures) {
    EXPECT_EQ(figure.repetitions, 5) << figure.field;
    EXPECT_GE(figure.value.deviation, 0) << figure.field;
    EXPECT_FALSE(figure.how.empty() || figure.unit.empty()) << figure.field;
    EXPECT_GE(figure.away, 0) << figure.field;
    if (figure.isWritten()) ++places[figure.field];
  }
  EXPECT_GE(places.size(), 20u);
  for (const auto& [place, times] : places) EXPECT_EQ(times, 1) << place;
  for (const char* place : {"units[0].frequency_ghz", "units[0].ops_per_cycle", "memory[0].bandwidth_bytes_per_cycle",
                            "cost_parameters.overheads.phase_cycles", "cost_parameters.copies.transpose_cycles"})
    EXPECT_TRUE(places.contains(place)) << place;
}

TEST(Measure, ALimitOfTimeIsSaidOrAnError) {
  const auto few = measureHost({.repetitions = 1000, .seconds = 0.5});
  if (few.ok()) {
    EXPECT_GE(few->figures.front().repetitions, 3);
    EXPECT_LT(few->figures.front().repetitions, 1000);
    EXPECT_THAT(few->left, testing::Contains(HasSubstr("of 1000 repetitions")));
  } else {
    EXPECT_EQ(few.status().code(), absl::StatusCode::kDeadlineExceeded) << few.status();
  }
  EXPECT_THAT(measureHost({.seconds = 0}).status().message(), HasSubstr("of 31 repetitions are done"));
}

TEST(Measure, RefusesWhatMakesNoSense) {
  EXPECT_THAT(measureHost({.name = "Not A Name"}).status().message(), HasSubstr("name"));
  EXPECT_THAT(measureHost({.repetitions = 2}).status().message(), HasSubstr("3 repetitions"));
}

}  // namespace
}  // namespace tessera::compiler
