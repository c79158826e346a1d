#include "compiler/intrinsic/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/intrinsic/simulation_check.h"
#include "compiler/intrinsic/testing/instructions.h"

namespace tessera::compiler::intrinsic {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Interpreter, LoopsRunAsTheyAreWritten) {
  const Nest gemv = loopnest::parse("v", "O[i] += A[i, k] * B[k]", {2, 2}).value();
  Tensors tensors = {{10, 20}, {1, 2, 3, 4}, {5, 6}};
  run(gemv, tensors);
  EXPECT_THAT(tensors[0], ElementsAre(10 + 17, 20 + 39));
  const Nest fresh = loopnest::parse("v", "O[i] = A[i, k] * B[k]", {2, 2}).value();
  run(fresh, tensors);
  EXPECT_THAT(tensors[0], ElementsAre(17, 39));
}

Tensors onOneCall(const v1::Intrinsic& intrinsic, const Nest& software, Tensors tensors) {
  std::vector<int> source;
  for (int i = 1; i < intrinsic.operands_size(); ++i) source.push_back(i);
  std::vector<int> iteration;
  for (size_t i = 0; i < software.loops.size(); ++i) iteration.push_back(static_cast<int>(i));
  const Matching matching{iteration, source};
  const PhysicalMapping mapping = physicalMapping(software, intrinsic, matching, v1::Target()).value();
  EXPECT_TRUE(run(programOf(software, intrinsic, matching, mapping).value(), intrinsic, tensors).ok());
  return tensors;
}

TEST(Interpreter, SaturationIsTheInstructions) {
  const Nest pair = loopnest::parse("p", "O[i] = A[i, r] * B[i, r]", {1, 2}).value();
  const Tensors most = {{0}, {255, 255}, {127, 127}};
  EXPECT_THAT(onOneCall(testing::builtinInstruction("haswell", "vpmaddubsw.256"), pair, most)[0], ElementsAre(32767));
  const Nest dot = loopnest::parse("d", "O[i] += A[i, r] * B[i, r]", {1, 4}).value();
  const Tensors full = {{INT32_MAX - 3}, {1, 1, 1, 1}, {1, 1, 1, 1}};
  EXPECT_THAT(onOneCall(testing::builtinInstruction("cascadelake", "vpdpbusd.512"), dot, full)[0],
              ElementsAre(INT32_MIN));
  EXPECT_THAT(onOneCall(testing::builtinInstruction("cascadelake", "vpdpbusds.512"), dot, full)[0],
              ElementsAre(INT32_MAX));
}

TEST(Interpreter, ProgramsCopyByTheStatementsOfTheMemoryAbstraction) {
  const v1::Intrinsic cube = testing::builtinInstruction("ascend-910-like", "cube.f16");
  const Nest software = loopnest::parse("g", "O[i, j] += A[i, k] * B[k, j]", {17, 3, 20}).value();
  const Matching matching{{0, 1, 2}, {1, 2}};
  const PhysicalMapping mapping = physicalMapping(software, cube, matching, v1::Target()).value();
  const std::string text = print(programOf(software, cube, matching, mapping).value(), 9);
  EXPECT_EQ(text,
            "copy memory.O -> L0C.c, 256 elements, 208 padded\n"
            "copy memory.A -> L1.a, 256 elements\n"
            "copy L1.a -> L0A.a, 256 elements\n"
            "copy memory.B -> L1.b, 256 elements, 208 padded\n"
            "copy L1.b -> L0B.b, 256 elements\n"
            "call\n"
            "copy memory.A -> L1.a, 256 elements, 192 padded\n"
            "copy L1.a -> L0A.a, 256 elements\n"
            "copy memory.B -> L1.b, 256 elements, 244 padded\n"
            "... 17 more steps\n");
  EXPECT_EQ(simulate(software, cube, matching, 1).agreement, Agreement::kEqual);
}

TEST(Interpreter, OfALongProgramTheBeginningIsWritten) {
  const v1::Intrinsic cube = testing::builtinInstruction("ascend-910-like", "cube.f16");
  const Nest software = loopnest::parse("g", "O[i, j] += A[i, k] * B[k, j]", {4096, 4096, 4096}).value();
  const Matching matching{{0, 1, 2}, {1, 2}};
  const PhysicalMapping mapping = physicalMapping(software, cube, matching, v1::Target()).value();
  EXPECT_EQ(programOf(software, cube, matching, mapping).status().code(), absl::StatusCode::kResourceExhausted);
  const Program begun = programOf(software, cube, matching, mapping, 4).value();
  EXPECT_FALSE(begun.complete);
  EXPECT_LE(begun.steps.size(), 8u);
  EXPECT_THAT(print(begun, 4), ::testing::EndsWith("...\n"));
}

TEST(Interpreter, ExtremaIgnorePadding) {
  const v1::Intrinsic largest = testing::instruction(R"(
    name: "max" emit: "max" arithmetic { form: MAXIMUM }
    iterations { name: "i" extent: 2 } iterations { name: "r" extent: 2 reduction: true }
    operands { name: "m" dtype: DATA_TYPE_I32 subscripts: "i" }
    operands { name: "x" dtype: DATA_TYPE_I32 subscripts: "i" subscripts: "r" })");
  const Nest pool = loopnest::parse("p", "O[p] max= I[p + r]", {3, 3}).value();
  const Tensors found = onOneCall(largest, pool, {{-9, -9, -9}, {-5, -3, -4, -8, -7}});
  EXPECT_THAT(found[0], ElementsAre(-3, -3, -4));
}

TEST(Interpreter, BoundsLeavePointsOut) {
  const v1::Intrinsic triangle = testing::instruction(R"(
    name: "t" emit: "t" arithmetic { form: ADD } bounds: "r < i + 1"
    iterations { name: "i" extent: 3 } iterations { name: "r" extent: 3 reduction: true }
    operands { name: "y" dtype: DATA_TYPE_I32 subscripts: "i" }
    operands { name: "x" dtype: DATA_TYPE_I32 subscripts: "r" })");
  const Nest sums = loopnest::parse("s", "O[i] += X[r]", {3, 3}).value();
  EXPECT_THAT(onOneCall(triangle, sums, {{0, 0, 0}, {1, 2, 4}})[0], ElementsAre(1, 3, 7));
}

TEST(Interpreter, ACopyThatLeavesItsBufferIsAnError) {
  Program program;
  program.buffers = {{"memory", "O", 1}};
  program.operands = {0};
  program.steps.push_back({false, {0, 0, {{5, 0}}}});
  Tensors tensors = {{1}};
  EXPECT_THAT(std::string(run(program, testing::smallAxpy(), tensors).message()), HasSubstr("from 5 to 0"));
}

}  // namespace
}  // namespace tessera::compiler::intrinsic
