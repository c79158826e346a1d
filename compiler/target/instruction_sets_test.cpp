#include "compiler/target/instruction_sets.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "compiler/target/digits.h"
#include "compiler/target/element_text.h"
#include "compiler/target/target.h"
#include "compiler/target/validate_intrinsic.h"

namespace tessera::compiler {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> setsOf(const std::string& target) {
  std::vector<std::string> names;
  for (const v1::InstructionSet* set : instructionSetsOf(*findBuiltinTarget(target))) names.push_back(set->name());
  return names;
}

TEST(InstructionSets, EveryInstructionIsWholeAndItsNameStandsOnce) {
  std::set<std::string> sets;
  for (const v1::InstructionSet& set : builtinInstructionSets()) {
    EXPECT_TRUE(sets.insert(set.name()).second) << set.name();
    EXPECT_FALSE(set.summary().empty()) << set.name();
    std::set<std::string> names;
    for (const v1::Intrinsic& intrinsic : set.intrinsics()) {
      std::set<std::string> memories = memoriesOf(intrinsic);
      memories.insert({kRegisters, kAnyMemory});
      Problems problems;
      validateIntrinsic(set.name() + "." + intrinsic.name() + ".", intrinsic, memories, problems);
      for (const v1::TargetProblem& problem : problems.take()) ADD_FAILURE() << problem.field() << problem.message();
      EXPECT_TRUE(names.insert(intrinsic.name()).second) << intrinsic.name();
      EXPECT_TRUE(intrinsic.has_arithmetic() && intrinsic.has_emission()) << intrinsic.name();
      EXPECT_FALSE(intrinsic.transfers().empty()) << intrinsic.name();
    }
  }
}

TEST(InstructionSets, ChipsHaveThoseOfTheirFeaturesTheirCpuAndTheirNames) {
  EXPECT_THAT(setsOf("haswell"), ElementsAre("avx2"));
  EXPECT_THAT(setsOf("cascadelake"), ElementsAre("avx2", "avx512", "avx512vnni"));
  EXPECT_THAT(setsOf("sapphirerapids"), ElementsAre("amx-bf16", "amx-int8", "avx2", "avx512", "avx512bf16",
                                                    "avx512fp16", "avx512vnni", "avxvnni"));
  EXPECT_THAT(setsOf("neoverse-v1"), ElementsAre("dotprod", "i8mm", "neon", "neon-bf16", "neon-fp16"));
  EXPECT_THAT(setsOf("sm_90"), ElementsAre("mma-sm80", "wgmma-sm90", "wmma-int8", "wmma-sm80"));
}

TEST(InstructionSets, WhatCodeDoesNotRequireIsAskedForAtRunTime) {
  v1::Target chip = *findBuiltinTarget("sapphirerapids");
  for (const v1::Intrinsic& intrinsic : instructionsOf(chip))
    EXPECT_THAT(featuresToCheckAtRunTime(chip, intrinsic), IsEmpty()) << intrinsic.name();
  auto* features = chip.mutable_code()->mutable_features();
  features->erase(std::remove_if(features->begin(), features->end(),
                                 [](const std::string& feature) { return feature.starts_with("amx-"); }),
                  features->end());
  for (const v1::Intrinsic& intrinsic : instructionsOf(chip)) {
    const bool amx = intrinsic.name().starts_with("tdp");
    EXPECT_EQ(featuresToCheckAtRunTime(chip, intrinsic).empty(), !amx) << intrinsic.name();
  }
}

TEST(InstructionSets, AChipStatesItsOwnTimesAndNothingElse) {
  v1::Target chip = *findBuiltinTarget("znver4");
  chip.clear_intrinsics();
  v1::Intrinsic* own = chip.add_intrinsics();
  own->set_name("vpdpbusd.512");
  own->set_latency_cycles(4);
  own->set_cycles_per_issue(1);
  EXPECT_THAT(validateTarget(chip), IsEmpty());
  for (const v1::Intrinsic& intrinsic : instructionsOf(chip)) {
    if (intrinsic.name() != "vpdpbusd.512") continue;
    EXPECT_EQ(intrinsic.latency_cycles(), 4);
    EXPECT_EQ(intrinsic.cycles_per_issue(), 1);
    EXPECT_EQ(computeText(intrinsic), "acc:s32[i] += a:u8[i, r] * b:s8[i, r], i < 16, r < 4");
  }
  own->add_transfers()->set_operand("a");  // no memories, no strides
  EXPECT_THAT(validateTarget(chip), Not(IsEmpty()));
  own->clear_transfers();
  own->add_iterations()->set_name("i");
  const auto problems = validateTarget(chip);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].field(), "intrinsics[0].iterations");
  EXPECT_THAT(problems[0].message(), HasSubstr("leave it out"));
}

TEST(InstructionSets, NamedSetsMustBeThereWithTheirMemories) {
  v1::Target chip = *findBuiltinTarget("ascend-910-like");
  EXPECT_THAT(validateTarget(chip), IsEmpty());
  chip.mutable_memory()->DeleteSubrange(0, 1);
  chip.mutable_memory(0)->clear_peer_of_inner();
  chip.add_instruction_sets("cubes");
  std::vector<std::string> fields;
  for (const auto& problem : validateTarget(chip)) fields.push_back(problem.field());
  EXPECT_THAT(fields, Contains("instruction_sets[0]"));
  EXPECT_THAT(fields, Contains("instruction_sets[1]"));
}

std::vector<std::string> faultsOf(const std::string& change) {
  v1::Intrinsic intrinsic;
  constexpr char kGood[] = R"(name: "dot" emit: "f" iterations { name: "i" extent: 4 }
      iterations { name: "r" extent: 4 reduction: true }
      operands { name: "c" dtype: DATA_TYPE_I32 subscripts: "i" }
      operands { name: "a" dtype: DATA_TYPE_I8 subscripts: "i + r" } arithmetic { form: ADD })";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kGood, &intrinsic));
  v1::Intrinsic patch;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(change, &patch)) << change;
  intrinsic.MergeFrom(patch);
  Problems problems;
  validateIntrinsic("", intrinsic, {kRegisters, kAnyMemory}, problems);
  std::vector<std::string> fields;
  for (const auto& problem : problems.take()) fields.push_back(problem.field());
  return fields;
}

TEST(InstructionSets, EveryRuleNamesItsField) {
  EXPECT_THAT(faultsOf(""), IsEmpty());
  EXPECT_THAT(faultsOf(R"(iterations { name: "2i" extent: 4 reduction: true })"), ElementsAre("iterations[2].name"));
  EXPECT_THAT(faultsOf(R"(iterations { name: "s" extent: 4 })"), ElementsAre("iterations[2].reduction"));
  EXPECT_THAT(faultsOf(R"(operands { name: "b" dtype: DATA_TYPE_I8 })"), ElementsAre("arithmetic.form"));
  EXPECT_THAT(faultsOf(R"(arithmetic { rounding: ONCE })"), ElementsAre("arithmetic.rounding"));
  EXPECT_THAT(faultsOf(R"(bounds: "i + r <")"), ElementsAre("bounds[0]"));
  EXPECT_THAT(faultsOf(R"(bounds: "i + x < 3")"), ElementsAre("bounds[0]"));
  EXPECT_THAT(faultsOf(R"(transfers { operand: "d" })"), ElementsAre("transfers[0].operand"));
  EXPECT_THAT(faultsOf(R"(transfers { operand: "a" from: "memory" to: "L9" strides: "1" })"),
              ElementsAre("transfers[0].to"));
  EXPECT_THAT(faultsOf(R"(transfers { operand: "a" from: "memory" to: "registers" strides: "one" })"),
              ElementsAre("transfers[0].strides[0]"));
  EXPECT_THAT(faultsOf(R"(transfers { operand: "a" from: "memory" to: "registers" })"),
              ElementsAre("transfers[0].strides"));
  EXPECT_THAT(faultsOf(R"(emission { form: LLVM_INTRINSIC arguments { operand: "x" } })"),
              ElementsAre("emission.arguments[0].operand"));
  EXPECT_THAT(faultsOf(R"(emission { arguments { operand: "a" literal: "1" } })"),
              ElementsAre("emission.form", "emission.arguments[0]"));
}

TEST(InstructionSets, EveryRuleOfThreadsNamesItsField) {
  const std::string good = R"(threads { threads: 32 assembly: "mma.sync"
      fragments { operand: "c" registers: 2 register_type: "b32" lanes: "i" lanes: "r / 2" slots: "r % 2" }
      matrix_loads { operand: "a" from: "memory" to: "registers" along: "r" assembly: "ld.x$" matrices: 2 rows: 8
                row_bytes: 16 } })";
  const auto faultsWith = [&](const std::string& part, const std::string& instead) {
    EXPECT_THAT(good, HasSubstr(part));
    return faultsOf(absl::StrReplaceAll(good, {{part, instead}}));
  };
  EXPECT_THAT(faultsOf(good), IsEmpty());
  EXPECT_THAT(faultsWith("threads: 32", "threads: 2048"), ElementsAre("threads.threads"));
  EXPECT_THAT(faultsWith("threads: 32", "threads: 24"), ElementsAre("threads.threads"));
  EXPECT_THAT(faultsWith(R"(assembly: "mma.sync")", ""), ElementsAre("threads.assembly"));
  EXPECT_THAT(faultsWith("mma.sync", "mma; exit"), ElementsAre("threads.assembly"));
  EXPECT_THAT(faultsWith("mma.sync", "mma\\nexit"), ElementsAre("threads.assembly"));

  EXPECT_THAT(faultsWith(R"("c")", R"("d")"), ElementsAre("threads.fragments[0].operand"));
  EXPECT_THAT(faultsWith("registers: 2", "registers: 256"), ElementsAre("threads.fragments[0].registers"));
  EXPECT_THAT(faultsWith("b32", "b 32"), ElementsAre("threads.fragments[0].register_type"));
  EXPECT_THAT(faultsWith("r / 2", "r * 2"), ElementsAre("threads.fragments[0].lanes[1]"));
  EXPECT_THAT(faultsWith("r / 2", "r/2"), ElementsAre("threads.fragments[0].lanes[1]"));
  EXPECT_THAT(faultsWith("r / 2", "k / 2"), ElementsAre("threads.fragments[0].lanes[1]"));
  EXPECT_THAT(faultsWith("r % 2", "r % 8"), ElementsAre("threads.fragments[0].slots[0]"));
  EXPECT_THAT(faultsWith("r % 2", "r / 8"), ElementsAre("threads.fragments[0].slots[0]"));
  std::string many;
  for (int i = 0; i < 9; ++i) many += R"(slots: "r % 1" )";
  EXPECT_THAT(faultsWith(R"(slots: "r % 2")", many), ElementsAre("threads.fragments[0].slots"));

  EXPECT_THAT(faultsWith(R"("a")", R"("d")"), ElementsAre("threads.matrix_loads[0].operand"));
  EXPECT_THAT(faultsWith(R"(from: "memory")", R"(from: "L9")"), ElementsAre("threads.matrix_loads[0].from"));
  EXPECT_THAT(faultsWith(R"(along: "r")", R"(along: "k")"), ElementsAre("threads.matrix_loads[0].along"));
  EXPECT_THAT(faultsWith("ld.x$", "ld\\\"x"), ElementsAre("threads.matrix_loads[0].assembly"));
  EXPECT_THAT(faultsWith("matrices: 2", "matrices: 0"), ElementsAre("threads.matrix_loads[0].matrices"));
  EXPECT_THAT(faultsWith("rows: 8", "rows: 1025"), ElementsAre("threads.matrix_loads[0].rows"));
  EXPECT_THAT(faultsWith("row_bytes: 16", "row_bytes: 24"), ElementsAre("threads.matrix_loads[0].row_bytes"));
}

TEST(InstructionSets, EveryRuleOfDescriptorsNamesItsField) {
  const std::string good = R"(threads { threads: 32 assembly: "mma.async" modifiers: "-1"
      descriptors { operand: "a" from: "memory" along: "r" row_bytes: 128 rows: 8 modifier: "0" }
      asynchronous { begin: "mma.fence" commit: "mma.commit" wait: "mma.wait $" publish: "fence.proxy" } })";
  const auto faultsWith = [&](const std::string& part, const std::string& instead) {
    EXPECT_THAT(good, HasSubstr(part));
    return faultsOf(absl::StrReplaceAll(good, {{part, instead}}));
  };
  EXPECT_THAT(faultsOf(good), IsEmpty());
  EXPECT_THAT(faultsWith(R"("a")", R"("d")"), ElementsAre("threads.descriptors[0].operand"));
  EXPECT_THAT(faultsWith(R"(from: "memory")", R"(from: "L9")"), ElementsAre("threads.descriptors[0].from"));
  EXPECT_THAT(faultsWith(R"(along: "r")", R"(along: "k")"), ElementsAre("threads.descriptors[0].along"));
  EXPECT_THAT(faultsWith("row_bytes: 128", "row_bytes: 256"), ElementsAre("threads.descriptors[0].row_bytes"));
  EXPECT_THAT(faultsWith("row_bytes: 128", "row_bytes: 48"), ElementsAre("threads.descriptors[0].row_bytes"));
  EXPECT_THAT(faultsWith("rows: 8", "rows: 16"), ElementsAre("threads.descriptors[0].rows"));
  EXPECT_THAT(faultsWith(R"(modifier: "0")", R"(modifier: "0;")"), ElementsAre("threads.descriptors[0].modifier"));
  EXPECT_THAT(faultsWith(R"(modifiers: "-1")", R"(modifiers: "p1")"), ElementsAre("threads.modifiers[0]"));
  EXPECT_THAT(faultsWith("mma.fence", "mma;"), ElementsAre("threads.asynchronous.begin"));
  EXPECT_THAT(faultsWith(R"(commit: "mma.commit")", ""), ElementsAre("threads.asynchronous.commit"));
  EXPECT_THAT(faultsWith("mma.wait $", "mma.wait @"), ElementsAre("threads.asynchronous.wait"));
  EXPECT_THAT(faultsWith("fence.proxy", "fence,"), ElementsAre("threads.asynchronous.publish"));
}

TEST(Digits, AreReadWithWhatIsLeftOut) {
  const auto is = [](const std::string& text, const std::string& iteration, int64_t divisor, int64_t values) {
    const absl::StatusOr<Digit> digit = parseDigit(text);
    ASSERT_TRUE(digit.ok()) << digit.status();
    EXPECT_EQ(digit->iteration, iteration);
    EXPECT_EQ(digit->divisor, divisor) << text;
    EXPECT_EQ(digit->values, values) << text;
  };
  is("i", "i", 1, 0);
  is("r / 4", "r", 4, 0);
  is("j % 2", "j", 1, 2);
  is("r / 16 % 4", "r", 16, 4);
  for (const char* text : {"", " i", "i ", "i /", "i / 0", "i % 0", "i / -2", "i % 2 / 4", "i / 2 / 4", "i % 2 % 2",
                           "i * 2", "i / 2 % 2 % 2", "i / x", "i % 1048577", "i / 99999999999999999999"}) {
    EXPECT_THAT(std::string(parseDigit(text).status().message()), HasSubstr("is no digit; accepted: \"i\"")) << text;
  }
}

}  // namespace
}  // namespace tessera::compiler
