#include "compiler/codegen/testing/check_workload.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "compiler/codegen/bufferize.h"
#include "compiler/codegen/codegen.h"
#include "compiler/codegen/testing/loaded_unit.h"
#include "compiler/codegen/testing/reference.h"
#include "compiler/runtime/guarded_memory.h"

namespace tessera::compiler::codegen::testing {
namespace {

using End = GuardedMemory::End;

/// Memory of one operand as a caller may give it: aligned to its element, so that at the back nothing lies between it
/// and what cannot be read.
GuardedMemory memoryFor(const HostTensor& tensor, size_t bytes) {
  GuardedMemory memory;
  const size_t element = std::max(8U, tensor.element.getIntOrFloatBitWidth()) / 8;
  EXPECT_TRUE(memory.allocate(bytes, element));
  return memory;
}

HostTensor randomTensor(mlir::RankedTensorType type, std::mt19937& random, const CheckOptions& options) {
  HostTensor tensor = makeTensor(type);
  std::uniform_real_distribution<double> real(options.low, options.high);
  for (Scalar& value : tensor.values) {
    value.real = static_cast<float>(real(random));
    value.integer = static_cast<int64_t>(random() % (2 * options.integer_range)) - options.integer_range;
  }
  // Through bytes and back: the reference must see what the kernel sees.
  return fromBytes(type, toBytes(tensor).data());
}

void compare(const HostTensor& expected, const HostTensor& actual, double tolerance, const std::string& what) {
  const bool real = llvm::isa<mlir::FloatType>(expected.element);
  double largest = 0;
  for (const Scalar& value : expected.values)
    if (std::isfinite(value.real)) largest = std::max(largest, std::fabs(value.real));
  for (size_t i = 0; i < expected.values.size(); ++i) {
    if (!real) {
      ASSERT_EQ(expected.values[i].integer, actual.values[i].integer) << what << ", element " << i;
      continue;
    }
    const double e = expected.values[i].real, a = actual.values[i].real;
    if (!std::isfinite(e)) {
      ASSERT_TRUE(std::isnan(e) ? std::isnan(a) : a == e) << what << ", element " << i << ": " << a << " for " << e;
    } else {
      ASSERT_LE(std::fabs(e - a), tolerance * std::max(largest, 1e-30))
          << what << ", element " << i << ": " << a << " for " << e;
    }
  }
}

}  // namespace

v1::KernelInfo checkWorkload(const std::string& ir, const CheckOptions& options) {
  v1::BuildUnit unit = hostUnit(ir);
  // Every fourth seed compiles for another generation: the one before with half as wide vectors and half as many
  // registers, or the one after, whose vectors LLVM cuts in two here: its tiles and edges are the same.
  if (options.seed % 4 == 3 && unit.registers().vector_bits() == 512) {
    unit.mutable_code()->set_cpu("x86-64-v3");
    unit.mutable_registers()->set_vector_bits(256);
    unit.mutable_registers()->set_vector_count(16);
  } else if (options.seed % 4 == 3 && unit.registers().vector_bits() == 256) {
    unit.mutable_registers()->set_vector_bits(512);
    unit.mutable_registers()->set_vector_count(32);
  }
  if (options.adjust) options.adjust(unit);
  auto built = buildObject(unit);
  EXPECT_TRUE(built.ok()) << built.status().message() << "\n" << ir;
  if (!built.ok()) return {};

  mlir::DialectRegistry registry;
  registerCodegenDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = parseWorkload(context, ir);
  EXPECT_TRUE(module.ok()) << module.status().message();
  if (!module.ok()) return {};
  mlir::func::FuncOp func = *(*module)->getOps<mlir::func::FuncOp>().begin();

  std::mt19937 random(options.seed);
  std::vector<HostTensor> arguments;
  std::vector<std::vector<char>> contents;
  std::vector<GuardedMemory> operands;
  for (mlir::Type type : func.getArgumentTypes()) {
    arguments.push_back(randomTensor(llvm::cast<mlir::RankedTensorType>(type), random, options));
    contents.push_back(toBytes(arguments.back()));
    operands.push_back(memoryFor(arguments.back(), contents.back().size()));
  }
  const std::vector<HostTensor> expected = interpret(func, arguments);
  for (const HostTensor& result : expected) operands.push_back(memoryFor(result, toBytes(result).size()));

  auto loaded = LoadedUnit::load(*built);
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
    for (size_t i = 0; i < expected.size(); ++i) {
      auto type = llvm::cast<mlir::RankedTensorType>(func.getResultTypes()[i]);
      const auto* bytes = reinterpret_cast<const char*>(operands[arguments.size() + i].data());
      compare(expected[i], fromBytes(type, bytes), options.tolerance, "result " + std::to_string(i) + " in " + what);
    }
  }
  if (::testing::Test::HasFailure()) ADD_FAILURE() << "workload:\n" << ir;
  return built->info();
}

}  // namespace tessera::compiler::codegen::testing
