#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "compiler/backends/spatial/element.h"
#include "compiler/backends/spatial/kernel.h"
#include "compiler/backends/spatial/testing/chips.h"
#include "compiler/target/element_text.h"
#include "proto/messages/element_size.h"

/// Kernels for tests, and their buffers as numbers.
namespace tessera::compiler::simulator::testing {

inline constexpr auto kF16 = v1::DATA_TYPE_F16, kBF16 = v1::DATA_TYPE_BF16, kF32 = v1::DATA_TYPE_F32,
                      kF64 = v1::DATA_TYPE_F64, kI8 = v1::DATA_TYPE_I8, kU8 = v1::DATA_TYPE_U8,
                      kI16 = v1::DATA_TYPE_I16, kI32 = v1::DATA_TYPE_I32, kI64 = v1::DATA_TYPE_I64,
                      kBool = v1::DATA_TYPE_BOOL;

/// The made-up chip with an instruction for f16 products summed in f32, and two vector units.
inline std::string wholeChip() {
  return madeUpChip() + R"(
    units { name: "lanes" count: 2 lanes: 8 frequency_ghz: 1 ops_per_cycle: 16 memory: "far" }
    intrinsics {
      name: "half.4x4x8" emit: "half" latency_cycles: 6 cycles_per_issue: 2 unit: "engine" energy_pj: 10
      iterations { name: "i" extent: 4 } iterations { name: "j" extent: 4 } iterations { name: "r" extent: 8 reduction: true }
      operands { name: "c" dtype: DATA_TYPE_F32 subscripts: "i" subscripts: "j" memory: "sums" }
      operands { name: "a" dtype: DATA_TYPE_F16 subscripts: "i" subscripts: "r" memory: "near" }
      operands { name: "b" dtype: DATA_TYPE_F16 subscripts: "r" subscripts: "j" memory: "near" }
      arithmetic { form: MULTIPLY_ADD rounding: ONCE }
      transfers { operand: "a" from: "memory" to: "far" strides: "free" strides: "1" pads: true }
      transfers { operand: "b" from: "memory" to: "far" strides: "free" strides: "1" pads: true }
      transfers { operand: "a" from: "far" to: "near" strides: "8" strides: "1" block_order: "i" block_order: "r" }
      transfers { operand: "b" from: "far" to: "near" strides: "1" strides: "8" block_order: "r" block_order: "j" }
      transfers { operand: "c" from: "sums" to: "way-out" strides: "4" strides: "1" block_order: "j" block_order: "i" }
      transfers { operand: "c" from: "way-out" to: "memory" strides: "free" strides: "1" }
    })";
}

inline const v1::Target& chip() {
  static const v1::Target kChip = chipOf(wholeChip());
  return kChip;
}

/// A nest under construction: all accesses first, then operations.
class NestMaker {
 public:
  NestMaker(v1::SpatialKernel& kernel, const std::string& name,
            const std::vector<std::pair<std::string, int64_t>>& loops)
      : kernel_(kernel), nest_(*kernel.add_nests()) {
    nest_.set_name(name);
    for (const auto& [loop, extent] : loops) {
      nest_.add_loops()->set_name(loop);
      nest_.mutable_loops(nest_.loops_size() - 1)->set_extent(extent);
    }
  }

  /// An access to a whole row-major buffer; with `strides`, to a view. Returns its value.
  int access(int buffer, const std::vector<std::string>& subscripts, std::vector<int64_t> strides = {},
             int64_t offset = 0) {
    v1::SpatialKernel::Access* access = nest_.add_accesses();
    access->set_buffer(buffer);
    access->set_offset(offset);
    if (strides.empty()) {
      int64_t row = 1;
      const auto& shape = kernel_.buffers(buffer).shape();
      for (int d = shape.size(); d-- > 0; row *= shape[d]) strides.insert(strides.begin(), row);
    }
    for (const std::string& subscript : subscripts) access->add_subscripts(subscript);
    for (const int64_t stride : strides) access->add_strides(stride);
    return nest_.accesses_size() - 1;
  }

  int operation(const std::string& name, v1::DataType type, const std::vector<int>& operands) {
    v1::SpatialKernel::Operation* operation = nest_.add_body();
    operation->set_name(name);
    operation->set_dtype(type);
    for (const int operand : operands) operation->add_operands(operand);
    return nest_.accesses_size() + nest_.body_size() - 1;
  }

  int constant(v1::DataType type, double number) {
    std::string bytes(static_cast<size_t>(elementBytes(type)), 0);
    auto* to = reinterpret_cast<uint8_t*>(bytes.data());
    if (isFloatingPoint(type)) {
      encode(type, &number, 1, to);
    } else {
      const auto whole = static_cast<int64_t>(number);
      encode(type, &whole, 1, to);
    }
    const int value = operation("constant", type, {});
    last().set_constant(bytes);
    return value;
  }

  int index(int loop) {
    const int value = operation("index", v1::DATA_TYPE_I64, {});
    last().set_loop(loop);
    return value;
  }

  int load(int buffer, const std::vector<int>& indices, const std::vector<int64_t>& strides) {
    const int value = operation("load", kernel_.buffers(buffer).dtype(), indices);
    last().mutable_access()->set_buffer(buffer);
    for (const int64_t stride : strides) last().mutable_access()->add_strides(stride);
    return value;
  }

  void yield(const std::vector<int>& values) {
    nest_.set_outputs(static_cast<int>(values.size()));
    for (const int value : values) nest_.add_yields(value);
  }

  v1::SpatialKernel::Nest& nest() { return nest_; }

 private:
  v1::SpatialKernel::Operation& last() { return *nest_.mutable_body(nest_.body_size() - 1); }
  v1::SpatialKernel& kernel_;
  v1::SpatialKernel::Nest& nest_;
};

inline int addBuffer(v1::SpatialKernel& kernel, v1::DataType type, const std::vector<int64_t>& shape) {
  v1::SpatialKernel::Buffer* buffer = kernel.add_buffers();
  buffer->set_dtype(type);
  for (const int64_t extent : shape) buffer->add_shape(extent);
  return kernel.buffers_size() - 1;
}

/// Stores 0 in a whole buffer.
inline void addFill(v1::SpatialKernel& kernel, int buffer, double number = 0) {
  std::vector<std::pair<std::string, int64_t>> loops;
  std::vector<std::string> subscripts;
  for (const int64_t extent : kernel.buffers(buffer).shape()) {
    subscripts.push_back("f" + std::to_string(subscripts.size()));
    loops.emplace_back(subscripts.back(), extent);
  }
  NestMaker fill(kernel, "fill", loops);
  fill.access(buffer, subscripts);
  fill.yield({fill.constant(kernel.buffers(buffer).dtype(), number)});
}

/// Numbers of a buffer: exact in its type.
using Numbers = std::vector<double>;

inline Numbers numbersOf(v1::DataType type, const std::vector<uint8_t>& bytes) {
  Numbers numbers(bytes.size() / static_cast<size_t>(elementBytes(type)));
  if (isFloatingPoint(type)) {
    decode(type, bytes.data(), numbers.size(), numbers.data());
  } else {
    std::vector<int64_t> whole(numbers.size());
    decode(type, bytes.data(), whole.size(), whole.data());
    for (size_t i = 0; i < whole.size(); ++i) numbers[i] = static_cast<double>(whole[i]);
  }
  return numbers;
}

inline std::vector<uint8_t> bytesOf(v1::DataType type, const Numbers& numbers) {
  std::vector<uint8_t> bytes(numbers.size() * static_cast<size_t>(elementBytes(type)));
  if (isFloatingPoint(type)) {
    encode(type, numbers.data(), numbers.size(), bytes.data());
  } else {
    const std::vector<int64_t> whole(numbers.begin(), numbers.end());
    encode(type, whole.data(), whole.size(), bytes.data());
  }
  return bytes;
}

/// Random numbers of small magnitude that the type holds.
inline Numbers randomNumbers(std::mt19937& random, v1::DataType type, size_t count) {
  Numbers numbers(count);
  for (double& number : numbers) {
    const double real = (static_cast<double>(random() % 4097) - 2048) / 1024;
    number = isFloatingPoint(type)        ? rounded(real, type)
             : type == v1::DATA_TYPE_BOOL ? static_cast<double>(random() % 2)
             : type == v1::DATA_TYPE_U8   ? static_cast<double>(random() % 256)
                                          : static_cast<double>(random() % 201) - 100;
  }
  return numbers;
}

/// Schedules, loads and runs a kernel on random arguments. Every buffer is an operand, so that all can be looked at.
struct Ran {
  v1::SpatialKernel kernel;
  std::vector<Numbers> before, after;  ///< per buffer
  KernelCost cost;
};

inline Ran runKernel(v1::SpatialKernel kernel, const v1::Target& target, const KernelScheduleOptions& options = {},
                     const std::vector<std::pair<int, Numbers>>& given = {}) {
  Ran ran;
  kernel.set_operands(kernel.buffers_size());
  kernel.set_results(1);
  const absl::Status scheduled = scheduleKernel(kernel, target, options);
  EXPECT_TRUE(scheduled.ok()) << scheduled;
  auto loaded = LoadedKernel::load(kernel, target);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  if (!loaded.ok()) return ran;
  std::mt19937 random(7);
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<uint8_t*> pointers;
  for (int b = 0; b < kernel.buffers_size(); ++b) {
    size_t count = 1;
    for (const int64_t extent : kernel.buffers(b).shape()) count *= static_cast<size_t>(extent);
    ran.before.push_back(randomNumbers(random, kernel.buffers(b).dtype(), count));
    for (const auto& [buffer, numbers] : given)
      if (buffer == b) ran.before.back() = numbers;
    bytes.push_back(bytesOf(kernel.buffers(b).dtype(), ran.before.back()));
  }
  for (std::vector<uint8_t>& each : bytes) pointers.push_back(each.data());
  const absl::Status done = (*loaded)->run(pointers);
  EXPECT_TRUE(done.ok()) << done;
  for (int b = 0; b < kernel.buffers_size(); ++b)
    ran.after.push_back(numbersOf(kernel.buffers(b).dtype(), bytes[static_cast<size_t>(b)]));
  const auto cost = (*loaded)->cost();
  EXPECT_TRUE(cost.ok()) << cost.status();
  if (cost.ok()) ran.cost = *cost;
  ran.kernel = std::move(kernel);
  return ran;
}

}  // namespace tessera::compiler::simulator::testing
