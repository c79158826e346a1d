#include "compiler/codegen/testing/check_workload.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "compiler/codegen/bufferize.h"
#include "compiler/codegen/codegen.h"
#include "compiler/codegen/loaded_unit.h"
#include "compiler/codegen/testing/reference.h"

namespace tessera::compiler::codegen::testing {
namespace {

constexpr size_t kGuard = 256;  // bytes before and after each operand
constexpr char kGuardByte = 0x5b;

/// An operand between guard bytes, aligned to 64 bytes.
struct Guarded {
  explicit Guarded(const std::vector<char>& content)
      : size(content.size()), storage(size + 2 * kGuard + 64, kGuardByte) {
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
  // Every fourth seed compiles for the previous generation: half as wide vectors, half as many registers.
  if (options.seed % 4 == 3 && unit.registers().vector_bits() == 512) {
    unit.mutable_code()->set_cpu("x86-64-v3");
    unit.mutable_registers()->set_vector_bits(256);
    unit.mutable_registers()->set_vector_count(16);
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
  std::vector<Guarded> operands;
  for (mlir::Type type : func.getArgumentTypes()) {
    arguments.push_back(randomTensor(llvm::cast<mlir::RankedTensorType>(type), random, options));
    operands.emplace_back(toBytes(arguments.back()));
  }
  const std::vector<HostTensor> expected = interpret(func, arguments);
  for (const HostTensor& result : expected) operands.emplace_back(std::vector<char>(toBytes(result).size()));

  auto loaded = LoadedUnit::load(*built);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  if (!loaded.ok()) return {};
  std::vector<void*> pointers;
  for (Guarded& operand : operands) pointers.push_back(operand.data);
  for (int pieces : {1, 3}) {
    for (size_t i = arguments.size(); i < operands.size(); ++i) std::memset(operands[i].data, 0x7f, operands[i].size);
    (*loaded)->poison();
    (*loaded)->run(pointers, pieces);
    for (size_t i = 0; i < expected.size(); ++i) {
      auto type = llvm::cast<mlir::RankedTensorType>(func.getResultTypes()[i]);
      compare(expected[i], fromBytes(type, operands[arguments.size() + i].data), options.tolerance,
              "result " + std::to_string(i) + " in " + std::to_string(pieces) + " pieces");
    }
  }
  for (size_t i = 0; i < operands.size(); ++i) EXPECT_TRUE(operands[i].intact()) << "wrote outside operand " << i;
  for (size_t i = 0; i < arguments.size(); ++i)
    EXPECT_EQ(std::memcmp(operands[i].data, toBytes(arguments[i]).data(), operands[i].size), 0)
        << "argument " << i << " was overwritten";
  if (::testing::Test::HasFailure()) ADD_FAILURE() << "workload:\n" << ir;
  return built->info();
}

}  // namespace tessera::compiler::codegen::testing
