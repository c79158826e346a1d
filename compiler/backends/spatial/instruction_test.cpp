#include "compiler/backends/spatial/instruction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "compiler/backends/spatial/element.h"
#include "compiler/backends/spatial/interpreter.h"
#include "compiler/backends/spatial/lower.h"
#include "compiler/backends/spatial/testing/chips.h"
#include "compiler/intrinsic/testing/instructions.h"
#include "proto/messages/element_size.h"

namespace tessera::compiler::simulator {
namespace {

using intrinsic::testing::builtinInstruction;
using intrinsic::testing::instruction;
using ::testing::ElementsAre;
using Operands = std::vector<std::vector<int64_t>>;  // per operand, destination first

std::vector<uint8_t> encoded(v1::DataType type, const std::vector<int64_t>& numbers) {
  std::vector<uint8_t> bytes(numbers.size() * static_cast<size_t>(elementBytes(type)));
  encode(type, numbers.data(), numbers.size(), bytes.data());
  return bytes;
}

std::vector<int64_t> decoded(v1::DataType type, const std::vector<uint8_t>& bytes) {
  std::vector<int64_t> numbers(bytes.size() / static_cast<size_t>(elementBytes(type)));
  decode(type, bytes.data(), numbers.size(), numbers.data());
  return numbers;
}

/// The first `most` numbers of the destination's block after one call; `blocks` are continued by zeros.
std::vector<int64_t> called(const v1::Intrinsic& described, Operands blocks, size_t most) {
  const loopnest::Nest nest = intrinsic::nestOf(described).value();
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<uint8_t*> pointers;
  for (size_t operand = 0; operand < blocks.size(); ++operand) {
    size_t elements = 1;
    for (const int64_t extent : shapeOf(nest, nest.accesses[operand])) elements *= static_cast<size_t>(extent);
    blocks[operand].resize(elements);
    bytes.push_back(encoded(nest.accesses[operand].dtype, blocks[operand]));
  }
  for (std::vector<uint8_t>& block : bytes) pointers.push_back(block.data());
  (*instructionOf(described, nest).value())(pointers);
  std::vector<int64_t> found = decoded(nest.accesses[0].dtype, bytes[0]);
  found.resize(most);
  return found;
}

/// The result of the program in which the operator's loops and sources are the instruction's, in the same order.
std::vector<int64_t> computed(const v1::Target& chip, const v1::Intrinsic& described, const loopnest::Nest& software,
                              const Operands& tensors) {
  intrinsic::Matching matching{std::vector<int>(software.loops.size()), std::vector<int>(tensors.size() - 1)};
  std::iota(matching.iteration.begin(), matching.iteration.end(), 0);
  std::iota(matching.source.begin(), matching.source.end(), 1);
  const Program program = lower(tiled(software, described, matching, chip).value(), chip).value();
  TensorBytes bytes;
  for (size_t array = 0; array < tensors.size(); ++array) {
    bytes.push_back(encoded(program.buffers[array].dtype, tensors[array]));
  }
  const auto begun = execute(program, bytes);
  EXPECT_TRUE(begun.ok()) << begun.status();
  return decoded(program.buffers[0].dtype, bytes[0]);
}

TEST(Instruction, AddsToItsDestinationUnlessItMultipliesOnly) {
  v1::Intrinsic gemv = instruction(R"(
    name: "gemv" emit: "gemv" arithmetic { form: MULTIPLY_ADD }
    iterations { name: "i" extent: 2 } iterations { name: "k" extent: 2 reduction: true }
    operands { name: "y" dtype: DATA_TYPE_I32 subscripts: "i" }
    operands { name: "a" dtype: DATA_TYPE_I32 subscripts: "i" subscripts: "k" }
    operands { name: "x" dtype: DATA_TYPE_I32 subscripts: "k" })");
  const Operands blocks = {{10, 20}, {1, 2, 3, 4}, {5, 6}};
  EXPECT_THAT(called(gemv, blocks, 2), ElementsAre(10 + 17, 20 + 39));
  // A program begins its results with 0.
  const loopnest::Nest product = testing::nestOf("O[i] += A[i, k] * B[k]", {2, 2});
  EXPECT_THAT(computed(testing::chipOf(testing::madeUpChip()), gemv, product, blocks), ElementsAre(17, 39));
  gemv.mutable_arithmetic()->set_form(v1::Intrinsic::Arithmetic::MULTIPLY);
  EXPECT_THAT(called(gemv, blocks, 2), ElementsAre(17, 39));
}

TEST(Instruction, SaturationIsTheInstructions) {
  const loopnest::Nest pair = testing::nestOf("O[i] = A[i, r] * B[i, r]", {1, 2});
  EXPECT_THAT(computed(*findBuiltinTarget("haswell"), builtinInstruction("haswell", "vpmaddubsw.256"), pair,
                       {{0}, {255, 255}, {127, 127}}),
              ElementsAre(32767));
  const Operands full = {{INT32_MAX - 3}, {1, 1, 1, 1}, {1, 1, 1, 1}};
  EXPECT_THAT(called(builtinInstruction("cascadelake", "vpdpbusd.512"), full, 1), ElementsAre(INT32_MIN));
  EXPECT_THAT(called(builtinInstruction("cascadelake", "vpdpbusds.512"), full, 1), ElementsAre(INT32_MAX));
}

TEST(Instruction, ExtremaIgnorePadding) {
  const v1::Intrinsic largest = instruction(R"(
    name: "max" emit: "max" arithmetic { form: MAXIMUM }
    iterations { name: "i" extent: 2 } iterations { name: "r" extent: 2 reduction: true }
    operands { name: "m" dtype: DATA_TYPE_I32 subscripts: "i" }
    operands { name: "x" dtype: DATA_TYPE_I32 subscripts: "i" subscripts: "r" })");
  const loopnest::Nest pool = testing::nestOf("O[p] max= I[p + r]", {3, 3});
  EXPECT_THAT(computed(testing::chipOf(testing::madeUpChip()), largest, pool, {{-9, -9, -9}, {-5, -3, -4, -8, -7}}),
              ElementsAre(-3, -3, -4));
  EXPECT_THAT(called(largest, {{-9, -9}, {-5, -3, -10, -11}}, 2), ElementsAre(-3, -9));
}

TEST(Instruction, BoundsLeavePointsOut) {
  const v1::Intrinsic triangle = instruction(R"(
    name: "t" emit: "t" arithmetic { form: ADD } bounds: "r < i + 1"
    iterations { name: "i" extent: 3 } iterations { name: "r" extent: 3 reduction: true }
    operands { name: "y" dtype: DATA_TYPE_I32 subscripts: "i" }
    operands { name: "x" dtype: DATA_TYPE_I32 subscripts: "r" })");
  const loopnest::Nest sums = testing::nestOf("O[i] += X[r]", {3, 3});
  EXPECT_THAT(computed(testing::chipOf(testing::madeUpChip()), triangle, sums, {{0, 0, 0}, {1, 2, 4}}),
              ElementsAre(1, 3, 7));
}

}  // namespace
}  // namespace tessera::compiler::simulator
