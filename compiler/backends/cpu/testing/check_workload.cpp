#include "compiler/backends/cpu/testing/check_workload.h"

#include <gtest/gtest.h>

#include <cstring>

#include "compiler/backends/cpu/bufferize.h"
#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/interpreter/compare.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/interpreter/random_array.h"
#include "compiler/ir/workload.h"
#include "compiler/runtime/guarded_memory.h"
#include "compiler/schedule/text.h"
#include "compiler/target/dot_product.h"
#include "compiler/target/target.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen::testing {
namespace {

using End = GuardedMemory::End;

/// Memory of one operand as a caller may pass it: aligned to its element only, so that at the back no slack separates
/// it from the inaccessible page.
GuardedMemory memoryFor(const interpreter::Array& array, size_t bytes) {
  GuardedMemory memory;
  const size_t element = std::max(8U, array.storage->element.bits) / 8;
  EXPECT_TRUE(memory.allocate(bytes, element));
  return memory;
}

/// Runs a unit whose first result shares the memory of the argument that it may overwrite, and compares.
void checkInPlace(LoadedUnit& unit, int over, const std::vector<std::string>& contents,
                  const std::vector<interpreter::Array>& expected) {
  ASSERT_EQ(expected.size(), 1U) << "one result is written over an argument";
  for (const int pieces : {1, 3}) {
    std::vector<std::string> memory = contents;
    std::vector<void*> operands;
    operands.reserve(memory.size() + 1);
    for (std::string& argument : memory) operands.push_back(argument.data());
    operands.push_back(operands[over]);
    unit.poison();
    unit.run(operands, pieces);
    const interpreter::Difference difference = interpreter::compare(
        expected[0], interpreter::fromBytes(expected[0].storage->element, expected[0].shape, memory[over]));
    EXPECT_TRUE(difference.isWithin()) << "written over argument " << over << " in " << pieces << " pieces: "
                                       << interpreter::describe(difference, expected[0].storage->element);
    for (size_t i = 0; i < contents.size(); ++i)
      EXPECT_TRUE(static_cast<int>(i) == over || memory[i] == contents[i]) << "argument " << i << " was written to";
  }
}

}  // namespace

absl::StatusOr<v1::BuiltObject> buildByDefault(v1::BuildUnit unit, const ScheduleRequest& request) {
  TESSERA_ASSIGN_OR_RETURN(auto schedule, defaultSchedule(unit, request));
  *unit.mutable_schedule() = std::move(schedule);
  return buildObject(unit);
}

v1::KernelInfo checkWorkload(const std::string& ir, const CheckOptions& options) {
  v1::BuildUnit unit = hostUnit(ir);
  // Every fourth seed compiles for another generation: the one before with half as wide vectors and half as many
  // registers, or the one after, whose vectors LLVM splits in two on this machine; its tiles and edges remain those of
  // the wider vectors.
  if (options.seed % 4 == 3 && unit.registers().vector_bits() == 512) {
    unit.mutable_code()->set_cpu("x86-64-v3");
    *unit.mutable_intrinsics() = usableInstructions(*findBuiltinTarget("x86-64-v3"));
    unit.mutable_registers()->set_vector_bits(256);
    unit.mutable_registers()->set_vector_count(16);
  } else if (options.seed % 4 == 3 && unit.registers().vector_bits() == 256) {
    unit.mutable_registers()->set_vector_bits(512);
    unit.mutable_registers()->set_vector_count(32);
  }
  if (options.adjust) options.adjust(unit);
  auto schedule = defaultSchedule(unit, options.request);
  EXPECT_TRUE(schedule.ok()) << schedule.status().message() << "\n" << ir;
  if (!schedule.ok()) return {};
  if (options.edit) options.edit(*schedule);
  *unit.mutable_schedule() = std::move(*schedule);
  auto built = buildObject(unit);
  EXPECT_TRUE(built.ok()) << built.status().message() << "\n" << ir << printSchedule(unit.schedule());
  if (!built.ok()) return {};

  mlir::DialectRegistry registry;
  registerCodegenDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = parseWorkload(context, ir);
  EXPECT_TRUE(module.ok()) << module.status().message();
  if (!module.ok()) return {};
  mlir::func::FuncOp func = *(*module)->getOps<mlir::func::FuncOp>().begin();

  interpreter::InputRange range{options.seed * 1000, options.low, options.high, -options.integer_range,
                                options.integer_range - 1};
  std::vector<interpreter::Array> arguments;
  std::vector<std::string> contents;
  std::vector<GuardedMemory> operands;
  for (mlir::Type type : func.getArgumentTypes()) {
    auto tensor = llvm::cast<mlir::RankedTensorType>(type);
    ++range.seed;
    arguments.push_back(
        interpreter::randomArray(interpreter::elementOf(tensor.getElementType()), tensor.getShape(), range));
    contents.push_back(interpreter::toBytes(arguments.back()));
    operands.push_back(memoryFor(arguments.back(), contents.back().size()));
  }
  const absl::StatusOr<std::vector<interpreter::Array>> expected = interpreter::interpret(func, arguments);
  EXPECT_TRUE(expected.ok()) << expected.status();
  if (!expected.ok()) return {};
  for (const interpreter::Array& result : *expected)
    operands.push_back(memoryFor(result, interpreter::toBytes(result).size()));

  auto loaded = LoadedUnit::load(*built, unit.code());
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  if (!loaded.ok()) return {};
  for (const auto [pieces, end] : {std::pair(1, End::kBack), {3, End::kFront}, {3, End::kBack}, {1, End::kFront}}) {
    for (size_t i = 0; i < operands.size(); ++i) {
      operands[i].setWritable(true);
      operands[i].place(end, end == End::kBack ? GuardedMemory::kPoison : 0x7f);
      if (i >= arguments.size()) continue;
      std::memcpy(operands[i].data(), contents[i].data(), contents[i].size());
      operands[i].setWritable(false);
    }
    const std::string what = std::to_string(pieces) + " pieces, " + (end == End::kBack ? "back" : "front") + " guarded";
    const std::string left = (*loaded)->runGuarded(operands, pieces, end);
    EXPECT_EQ(left, "") << what;
    if (!left.empty()) break;
    for (size_t i = 0; i < expected->size(); ++i) {
      const interpreter::Array& result = (*expected)[i];
      const GuardedMemory& operand = operands[arguments.size() + i];
      const interpreter::Difference difference = interpreter::compare(
          result, interpreter::fromBytes(result.storage->element, result.shape,
                                         {reinterpret_cast<const char*>(operand.data()), operand.size()}));
      EXPECT_TRUE(difference.isWithin()) << "result " << i << " in " << what << ": "
                                         << interpreter::describe(difference, result.storage->element);
    }
  }
  if (auto over = func.getResultAttrOfType<mlir::IntegerAttr>(0, kMayAlias))
    checkInPlace(**loaded, static_cast<int>(over.getInt()), contents, *expected);
  if (::testing::Test::HasFailure()) ADD_FAILURE() << "workload:\n" << ir;
  return built->info();
}

}  // namespace tessera::compiler::codegen::testing
