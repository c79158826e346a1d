#include "compiler/measure/measure.h"

#include <gmock/gmock.h>

#include <map>

#include "compiler/measure/description.h"
#include "compiler/target/chip.h"
#include "compiler/target/target.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;

/// Once for all tests: it takes seconds.
const absl::StatusOr<Measured>& measured() {
  static const absl::StatusOr<Measured> once = measureHost({.repetitions = 5});
  return once;
}

TEST(Measure, ADescriptionThatIsValidAndReadAsWritten) {
  ASSERT_TRUE(measured().ok()) << measured().status();
  const std::string text = describe(*measured(), "today");
  const auto read = parseTarget(text);
  ASSERT_TRUE(read.ok()) << read.status() << text;
  EXPECT_EQ(targetHash(*read), targetHash(measured()->target));
  EXPECT_THAT(read->name(), testing::EndsWith("-measured"));
  EXPECT_THAT(text, HasSubstr("# Measured by `tessera target measure` on today."));
}

// Nearer is faster, a chain is slower than what is independent, and what was measured is what the chip answers.
TEST(Measure, FiguresThatAMachineCanHave) {
  ASSERT_TRUE(measured().ok()) << measured().status();
  const Chip chip(measured()->target);
  EXPECT_GT(chip.hertz(), 0.5e9);
  EXPECT_LT(chip.hertz(), 8e9);
  EXPECT_GT(chip.near().bytes_per_cycle, chip.levels().back().bytes_per_cycle);
  EXPECT_GE(chip.near().bytes_per_cycle, 16) << "a vector of 128 bits in a cycle";
  EXPECT_GE(chip.multiplyAddLatency(), 2);
  EXPECT_LE(chip.multiplyAddLatency(), 12);
  EXPECT_GE(chip.multiplyAddsPerCycle() * chip.multiplyAddLatency(), 1.5) << "several are under way";
  EXPECT_GE(chip.instructionsPerCycle(), 2);
  EXPECT_GE(chip.loadsPerCycle(), 1);
  const v1::Prices& prices = chip.prices();
  EXPECT_GE(prices.memory().written_passes(), 1);
  EXPECT_GT(prices.steps().phase_cycles(), 10);
  EXPECT_LE(prices.copies().slice_copy_cycles(), prices.copies().scatter_cycles());
  for (const Chip::Level& level : chip.levels())
    EXPECT_LE(level.sustained_per_cycle, level.bytes_per_cycle) << level.name;
}

TEST(Measure, EveryFigureHasItsNoiseAndItsPlace) {
  ASSERT_TRUE(measured().ok()) << measured().status();
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
                            "prices.steps.phase_cycles", "prices.copies.turn_cycles"})
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
