#include "compiler/target/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/target/builtin_texts.h"
#include "compiler/target/product_factors.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

std::vector<std::string> fields(const v1::Target& target) {
  std::vector<std::string> names;
  for (const v1::TargetProblem& problem : validateTarget(target)) names.push_back(problem.field());
  return names;
}

TEST(Target, EveryBuiltinIsValidAndFoundByItsName) {
  ASSERT_GE(builtinTargets().size(), 13u);
  for (const v1::Target& target : builtinTargets()) {
    EXPECT_THAT(fields(target), IsEmpty()) << target.name();
    EXPECT_EQ(findBuiltinTarget(target.name()), &target);
    EXPECT_FALSE(target.summary().empty()) << target.name();
  }
  EXPECT_EQ(builtinTargets().size(), 30u);
  EXPECT_EQ(findBuiltinTarget("host"), nullptr);
  EXPECT_EQ(findBuiltinTarget("no-such-chip"), nullptr);
}

TEST(Target, EveryBuiltinSaysWhereItsFiguresAreFrom) {
  for (std::string_view text : builtinTexts()) {
    const std::string heading(text.substr(0, text.find("name: ")));
    EXPECT_THAT(heading, HasSubstr("\n# Figures: ")) << text.substr(0, 200);
  }
}

TEST(Target, WideVectorsComeWithTheirRegistersAndFeatures) {
  for (const v1::Target& target : builtinTargets()) {
    if (target.family() != v1::Target::X86_64) continue;
    const bool wide = target.registers().vector_bits() == 512;
    EXPECT_EQ(target.registers().vector_count(), wide ? 32 : 16) << target.name();
    EXPECT_EQ(wide, std::count(target.code().features().begin(), target.code().features().end(), "avx512f") == 1)
        << target.name();
  }
}

TEST(Target, HashOfABuiltInOneIsThatOfItsContent) {
  std::set<std::string> hashes;
  for (const v1::Target& target : builtinTargets()) {
    EXPECT_EQ(targetHash(target), targetHash(v1::Target(target))) << target.name();
    EXPECT_TRUE(hashes.insert(targetHash(target)).second) << target.name();
  }
}

TEST(Target, HashIgnoresSummaryAndOrderOfFeaturesButNothingElse) {
  const v1::Target original = *findBuiltinTarget("cascadelake");
  v1::Target same = original;
  same.set_summary("another text");
  std::reverse(same.mutable_code()->mutable_features()->begin(), same.mutable_code()->mutable_features()->end());
  same.mutable_code()->add_features(same.code().features(0));
  EXPECT_EQ(targetHash(same), targetHash(original));
  EXPECT_EQ(targetHash(original).size(), 64u);

  v1::Target other = original;
  other.mutable_memory(1)->set_capacity_bytes(other.memory(1).capacity_bytes() * 2);
  EXPECT_NE(targetHash(other), targetHash(original));
  other = original;
  other.set_name("renamed");
  EXPECT_NE(targetHash(other), targetHash(original));
}

TEST(Target, EveryProblemIsReportedByItsField) {
  v1::Target target = *findBuiltinTarget("x86-64-v3");
  target.set_name("Not A Name");
  target.mutable_code()->set_triple("aarch64-linux");
  target.mutable_code()->set_features(1, "avx2,+sneaky");
  target.mutable_registers()->set_vector_bits(384);
  target.mutable_memory(1)->set_capacity_bytes(1024);
  target.mutable_memory(2)->set_bandwidth_bytes_per_cycle(-1);
  target.mutable_memory(2)->set_name("L1");
  target.mutable_units(0)->set_ops_per_cycle(std::numeric_limits<double>::quiet_NaN());
  target.mutable_intrinsics(0)->mutable_operands(1)->set_subscripts(0, "q");
  EXPECT_THAT(fields(target),
              ElementsAre("name", "code.triple", "code.features[1]", "registers.vector_bits",
                          "memory[1].capacity_bytes", "memory[2].name", "memory[2].bandwidth_bytes_per_cycle",
                          "units[0].ops_per_cycle", "intrinsics[0].operands[1].subscripts[0]"));
}

// Moving instruction descriptions to sets must not change any chip's identity, to which tuning records refer.
TEST(Target, HashesOfChipsAreThoseOfEarlierReleases) {
  EXPECT_EQ(targetHash(*findBuiltinTarget("cascadelake")),
            "b5a36e7fee70a8fa61a6abec08d1fe376e9e320d677483f288fd8d489bf0f017");
  EXPECT_EQ(targetHash(*findBuiltinTarget("haswell")),
            "55fd9310febba2163d8f5c430df365d71e78d0fd8b5ed349f21491e46c70603e");
  EXPECT_EQ(targetHash(*findBuiltinTarget("x86-64-v3")),
            "4e0a33b26d0003879875d1defbfd1b27e242f25ad13c7d294c4d1c58ece3f4b1");
}

TEST(Target, EmptyDescriptionNamesWhatIsMissing) {
  EXPECT_THAT(fields(v1::Target()), IsSupersetOf({"name", "family", "memory", "units"}));
}

TEST(Target, SpatialTargetsNeedNoMachineCode) {
  const auto target = parseTarget(R"(
      name: "edge" family: SPATIAL
      memory { name: "sram" capacity_bytes: 1048576 bandwidth_bytes_per_cycle: 32 shared_by: 1 energy_pj_per_byte: 0.5 }
      units { name: "pe" count: 256 lanes: 1 frequency_ghz: 1 ops_per_cycle: 2 })");
  EXPECT_TRUE(target.ok()) << target.status();
}

TEST(Target, FpgasDescribeTheirLogicAndOtherChipsHaveNone) {
  v1::Target target = *findBuiltinTarget("systolic-128");
  EXPECT_THAT(fields(target), IsEmpty());
  target.set_family(v1::Target::HLS);
  EXPECT_THAT(fields(target), ElementsAre("logic"));
  target = *findBuiltinTarget("vu9p");
  target.set_family(v1::Target::SPATIAL);
  EXPECT_THAT(fields(target), ElementsAre("logic"));
}

TEST(Target, WrongLogicIsReportedByItsField) {
  v1::Target target = *findBuiltinTarget("vu9p");
  v1::ProgrammableLogic& logic = *target.mutable_logic();
  logic.mutable_shell()->set_dsp(logic.device().dsp() + 1);
  logic.mutable_port()->set_lut(-1);
  logic.set_routable_share(1.5);
  logic.set_port_bits(96);
  logic.set_burst_cycles(-1);
  logic.mutable_operators(1)->set_operation(logic.operators(0).operation());
  logic.mutable_operators(2)->set_latency_cycles(-1);
  logic.mutable_operators(3)->clear_operation();
  EXPECT_THAT(fields(target), ElementsAre("logic.port.lut", "logic.shell.dsp", "logic.routable_share",
                                          "logic.port_bits", "logic.burst_cycles", "logic.operators[1].operation",
                                          "logic.operators[2].latency_cycles", "logic.operators[3].operation"));
  target.clear_family();
  EXPECT_THAT(fields(target), IsSupersetOf({"family", "logic"}));
}

TEST(Target, ParseErrorsNameLineAndColumn) {
  const absl::Status status = parseTarget("name: \"x\"\nfamlily: X86_64\n").status();
  EXPECT_EQ(failureOf(status).reason(), v1::Failure::INVALID_TARGET);
  EXPECT_THAT(std::string(status.message()), HasSubstr("line 2:"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("famlily"));
}

// A megabyte of faults, each listing the accepted values, would give a gigabyte of messages.
TEST(Target, OnlyTheFirstHundredProblemsAreKept) {
  v1::Target target = *findBuiltinTarget("skylake-avx512");
  for (int i = 0; i < 100; ++i) target.add_instruction_sets("none");
  EXPECT_EQ(validateTarget(target).size(), 100U);
  for (int i = 0; i < 100; ++i) target.add_instruction_sets("none");
  const std::vector<v1::TargetProblem> problems = validateTarget(target);
  ASSERT_EQ(problems.size(), 101U);
  EXPECT_THAT(problems.back().message(), HasSubstr("not listed"));
}

TEST(Target, OversizedTextIsRefusedBeforeParsing) {
  const std::string text(kMaxTargetBytes + 1, '#');
  EXPECT_THAT(std::string(parseTarget(text).status().message()), HasSubstr("at most 1048576"));
}

TEST(Target, ModelsCompileForProcessorsAndForSimulatedChips) {
  for (const v1::Target& target : builtinTargets()) {
    const absl::Status status = modelsCompileFor(target);
    const bool is_compiled = target.family() != v1::Target::NVPTX && target.family() != v1::Target::HLS;
    EXPECT_EQ(status.ok(), is_compiled) << target.name();
    EXPECT_EQ(isSimulated(target), target.family() == v1::Target::SPATIAL) << target.name();
    if (status.ok()) continue;
    EXPECT_EQ(failureOf(status).attribute(), "family");
    EXPECT_EQ(failureOf(status).accepted(), "X86_64, AARCH64, SPATIAL, OPENCL");
    const bool is_fpga = target.family() == v1::Target::HLS;
    EXPECT_THAT(failureOf(status).fix(),
                HasSubstr(is_fpga ? "`tessera kernel --target" : "`tessera mappings --target"));
  }
}

TEST(Target, FactorsAreRoundedToWhatAnInstructionMultiplies) {
  EXPECT_EQ(roundedFactors(*findBuiltinTarget("ascend-910-like")), v1::DATA_TYPE_F16);
  v1::Target chip;
  chip.set_family(v1::Target::SPATIAL);
  EXPECT_EQ(roundedFactors(chip), v1::DATA_TYPE_UNSPECIFIED) << "no instruction";
  const auto addProduct = [&](v1::DataType factors, v1::DataType sum) {
    v1::Intrinsic& product = *chip.add_intrinsics();
    product.set_name(v1::DataType_Name(factors));
    product.mutable_arithmetic()->set_form(v1::Intrinsic::Arithmetic::MULTIPLY_ADD);
    for (v1::DataType type : {sum, factors, factors}) product.add_operands()->set_dtype(type);
  };
  addProduct(v1::DATA_TYPE_I8, v1::DATA_TYPE_I32);
  EXPECT_EQ(roundedFactors(chip), v1::DATA_TYPE_UNSPECIFIED) << "no sums of f32";
  addProduct(v1::DATA_TYPE_BF16, v1::DATA_TYPE_F32);
  EXPECT_EQ(roundedFactors(chip), v1::DATA_TYPE_BF16);
  addProduct(v1::DATA_TYPE_F16, v1::DATA_TYPE_F32);
  EXPECT_EQ(roundedFactors(chip), v1::DATA_TYPE_F16) << "it rounds less";
  addProduct(v1::DATA_TYPE_F32, v1::DATA_TYPE_F32);
  EXPECT_EQ(roundedFactors(chip), v1::DATA_TYPE_UNSPECIFIED) << "nothing to round";
}

TEST(Target, ParsedProblemsCarryTheFirstFieldAsAttribute) {
  const absl::Status status = parseTarget("name: \"x\" family: X86_64").status();
  const v1::Failure failure = failureOf(status);
  EXPECT_EQ(failure.reason(), v1::Failure::INVALID_TARGET);
  EXPECT_EQ(failure.attribute(), "code.triple");
  EXPECT_THAT(failure.message(), HasSubstr("registers.vector_count"));
}

}  // namespace
}  // namespace tessera::compiler
