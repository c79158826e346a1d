#include "compiler/measure/fields.h"

#include <gmock/gmock.h>

#include "compiler/measure/description.h"
#include "compiler/target/target.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Fields, NumbersGoWhereTheyBelong) {
  v1::Target target = *findBuiltinTarget("znver4");
  setField(target, "memory[1].bandwidth_bytes_per_cycle", 31.5);
  setField(target, "units[0].loads_per_cycle", 1.6);
  setField(target, "units[0].instructions_per_cycle", 0.2);
  setField(target, "cost_parameters.overheads.phase_cycles", 1234.5);
  setField(target, "cost_parameters.prefetching.streams", 8.4);
  EXPECT_EQ(target.memory(1).bandwidth_bytes_per_cycle(), 31.5);
  EXPECT_EQ(target.memory(0).bandwidth_bytes_per_cycle(),
            findBuiltinTarget("znver4")->memory(0).bandwidth_bytes_per_cycle());
  EXPECT_EQ(target.units(0).loads_per_cycle(), 2);
  EXPECT_EQ(target.units(0).instructions_per_cycle(), 1) << "none at all is no rate";
  EXPECT_EQ(target.cost_parameters().overheads().phase_cycles(), 1234.5);
  EXPECT_EQ(target.cost_parameters().prefetching().streams(), 8);
}

TEST(Fields, CommentsStandBeforeTheirFieldsAndChangeNothing) {
  for (const v1::Target& target : builtinTargets()) {
    const std::string text = commentedText(target, {{"memory[1].capacity_bytes", {"one", "two"}}, {"name", {"three"}}});
    const auto read = parseTargetText(text);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->SerializeAsString(), target.SerializeAsString()) << target.name();
    EXPECT_THAT(text, testing::StartsWith("# three\nname: "));
    EXPECT_EQ(text.find("# one"), text.rfind("# one")) << "one place";
    const size_t place =
        text.find("  # one\n  # two\n  capacity_bytes: " + std::to_string(target.memory(1).capacity_bytes()));
    EXPECT_EQ(place != text.npos, target.memory(1).capacity_bytes() != 0) << text;
  }
}

TEST(Description, SaysHowAndHowNoisyAndWhatIsTheFamilys) {
  Measured measured{.target = *findBuiltinTarget("cascadelake")};
  measured.target.mutable_cost_parameters()->mutable_overheads()->set_phase_cycles(3000);
  measured.figures = {
      {.field = "units[0].frequency_ghz", .unit = "GHz", .how = "by counting", .value = {2.5, 0.01}, .repetitions = 9},
      {.field = "memory[0].bandwidth_bytes_per_cycle",
       .unit = "bytes a cycle",
       .how = "by reading",
       .value = {100, 20},
       .repetitions = 9},
      {.field = "memory[0].bandwidth_bytes_per_cycle",
       .unit = "bytes a cycle",
       .how = "by reading",
       .cores = 4,
       .value = {90, 1},
       .repetitions = 9},
      {.field = "cost_parameters.overheads.phase_cycles",
       .unit = "cycles",
       .how = "by waiting",
       .value = {3000, 1},
       .repetitions = 9,
       .away = 0.5}};
  measured.left = {"cost_parameters.overheads.run_cycles: not above the noise"};
  const std::string text = describe(measured, "Monday");
  const auto read = parseTarget(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(targetHash(*read), targetHash(measured.target));
  for (const char* part :
       {"on Monday", "  # Measured: by counting.\n  # 2.5 GHz (median of 9, deviation 0.4 %).\n  frequency_ghz: ",
        "deviation 20.0 %; NOISY).\n  # Each of 4 cores at once: 90 bytes a cycle (median of 9, deviation 1.1 %).\n",
        "BUSY MACHINE: others had 50 % of its time", "  overheads.nest_cycles 1080",
        "# Left out: cost_parameters.overheads.run_cycles"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, Not(HasSubstr("  steps.phase_cycles "))) << "it was measured";
}

}  // namespace
}  // namespace tessera::compiler
