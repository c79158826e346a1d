#include "compiler/codegen/testing/check_workload.h"

#include <gtest/gtest.h>

#include <cstring>

#include "compiler/codegen/bufferize.h"
#include "compiler/codegen/codegen.h"
#include "compiler/codegen/loaded_unit.h"
#include "compiler/interpreter/compare.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/interpreter/random_array.h"
#include "compiler/schedule/text.h"

namespace tessera::compiler::codegen::testing {
namespace {

constexpr size_t kGuard = 256;  // bytes before and after each operand
constexpr char kGuardByte = 0x5b;

/// An operand between guard bytes, aligned to 64 bytes.
struct Guarded {
  explicit Guarded(const std::string& content) : size(content.size()), storage(size + 2 * kGuard + 64, kGuardByte) {
    data = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(storage.data()) + kGuard + 63) / 64 * 64);
    std::memcpy(data, content.data(), size);
  }
  bool intact() const {
    for (const char* p = storage.data(); p < data; ++p)
      if (*p != kGuardByte) return false;
    for (const char* p = data + size; p < storage.data() + storage.size(); ++p)
      if (*p != kGuardByte) return false;
    return true;
  }
  size_t size;
  std::vector<char> storage;
  char* data = nullptr;
};

}  // namespace

absl::StatusOr<v1::BuiltObject> buildByDefault(v1::BuildUnit unit, const ScheduleRequest& request) {
  auto schedule = defaultSchedule(unit, request);
  if (!schedule.ok()) return schedule.status();
  *unit.mutable_schedule() = std::move(*schedule);
  return buildObject(unit);
}

v1::KernelInfo checkWorkload(const std::string& ir, const CheckOptions& options) {
  v1::BuildUnit unit = hostUnit(ir);
  // Every fourth seed compiles for the previous generation: half as wide vectors, half as many registers.
  if (options.seed % 4 == 3 && unit.registers().vector_bits() == 512) {
    unit.mutable_code()->set_cpu("x86-64-v3");
    unit.mutable_registers()->set_vector_bits(256);
    unit.mutable_registers()->set_vector_count(16);
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
  std::vector<Guarded> operands;
  for (mlir::Type type : func.getArgumentTypes()) {
    auto tensor = llvm::cast<mlir::RankedTensorType>(type);
    ++range.seed;
    arguments.push_back(
        interpreter::randomArray(interpreter::elementOf(tensor.getElementType()), tensor.getShape(), range));
    operands.emplace_back(interpreter::toBytes(arguments.back()));
  }
  const absl::StatusOr<std::vector<interpreter::Array>> expected = interpreter::interpret(func, arguments);
  EXPECT_TRUE(expected.ok()) << expected.status();
  if (!expected.ok()) return {};
  for (const interpreter::Array& result : *expected) operands.emplace_back(interpreter::toBytes(result));

  auto loaded = LoadedUnit::load(*built);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  if (!loaded.ok()) return {};
  std::vector<void*> pointers;
  for (Guarded& operand : operands) pointers.push_back(operand.data);
  for (int pieces : {1, 3}) {
    for (size_t i = arguments.size(); i < operands.size(); ++i) std::memset(operands[i].data, 0x7f, operands[i].size);
    (*loaded)->poison();
    (*loaded)->run(pointers, pieces);
    for (size_t i = 0; i < expected->size(); ++i) {
      const interpreter::Array& result = (*expected)[i];
      const Guarded& operand = operands[arguments.size() + i];
      const interpreter::Difference difference = interpreter::compare(
          result, interpreter::fromBytes(result.storage->element, result.shape, {operand.data, operand.size}));
      EXPECT_TRUE(difference.isWithin()) << "result " << i << " in " << pieces
                                         << " pieces: " << interpreter::describe(difference, result.storage->element);
    }
  }
  for (size_t i = 0; i < operands.size(); ++i) EXPECT_TRUE(operands[i].intact()) << "wrote outside operand " << i;
  for (size_t i = 0; i < arguments.size(); ++i)
    EXPECT_EQ(std::memcmp(operands[i].data, interpreter::toBytes(arguments[i]).data(), operands[i].size), 0)
        << "argument " << i << " was overwritten";
  if (::testing::Test::HasFailure()) ADD_FAILURE() << "workload:\n" << ir;
  return built->info();
}

}  // namespace tessera::compiler::codegen::testing
