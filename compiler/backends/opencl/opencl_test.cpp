// Kernels as OpenCL C on the first device of the machine, compared with the simulator's evaluator. Tests that need a
// device are skipped where there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/opencl/driver.h"
#include "compiler/backends/opencl/kernel_code.h"
#include "compiler/backends/opencl/kernel_run.h"
#include "compiler/backends/opencl/prelude.h"
#include "compiler/backends/spatial/testing/kernels.h"
#include "compiler/target/target.h"
#include "proto/messages/failure.h"

namespace tessera::compiler::opencl {
namespace {

using namespace simulator::testing;
using ::testing::HasSubstr;
using ::testing::Not;

/// Why there is no device; empty if there is one.
std::string missingDevice() { return std::string(firstDevice().status().message()); }

#define TESSERA_NEEDS_DEVICE() \
  if (const std::string missing = missingDevice(); !missing.empty()) GTEST_SKIP() << missing

const v1::Target& device() { return *findBuiltinTarget("opencl"); }

/// The kernel with a schedule. Unless it states its operands, all buffers are operands; the last `results` of them are
/// results.
v1::SpatialKernel scheduled(v1::SpatialKernel kernel, int results, bool scalar = false) {
  kernel.set_symbol("k");
  if (kernel.operands() == 0) kernel.set_operands(kernel.buffers_size());
  kernel.set_results(results);
  const absl::Status status = scheduleKernel(kernel, device(), scalar);
  EXPECT_EQ(status, absl::OkStatus());
  return kernel;
}

size_t elementsOf(const v1::SpatialKernel::Buffer& buffer) {
  size_t count = 1;
  for (const int64_t extent : buffer.shape()) count *= static_cast<size_t>(extent);
  return count;
}

struct Compared {
  std::vector<Numbers> arguments, device, simulated;
  v1::OpenClKernel written;
};

/// Runs the kernel on the device and on the simulator, with the same arguments.
Compared compare(const v1::SpatialKernel& made, int results, const std::vector<std::pair<int, Numbers>>& given = {},
                 bool scalar = false) {
  Compared compared;
  const v1::SpatialKernel kernel = scheduled(made, results, scalar);
  const absl::StatusOr<v1::OpenClKernel> written = writeKernel(kernel, device());
  EXPECT_EQ(written.status(), absl::OkStatus());
  if (!written.ok()) return compared;
  compared.written = *written;
  std::mt19937 random(7);
  std::vector<std::string> arguments;
  std::vector<std::vector<uint8_t>> simulated;
  for (int b = 0; b < kernel.operands(); ++b) {
    Numbers numbers = randomNumbers(random, kernel.buffers(b).dtype(), elementsOf(kernel.buffers(b)));
    for (const auto& [buffer, chosen] : given)
      if (buffer == b) numbers = chosen;
    simulated.push_back(simulator::testing::bytesOf(kernel.buffers(b).dtype(), numbers));
    if (b >= kernel.operands() - results) continue;
    arguments.emplace_back(simulated.back().begin(), simulated.back().end());
    compared.arguments.push_back(std::move(numbers));
  }
  v1::SpatialKernel other = kernel;
  EXPECT_EQ(simulator::scheduleKernel(other, chip(), {.scalar = true}), absl::OkStatus());
  const auto loaded = simulator::LoadedKernel::load(other, chip());
  EXPECT_EQ(loaded.status(), absl::OkStatus());
  if (!loaded.ok()) return compared;
  std::vector<uint8_t*> pointers;
  for (std::vector<uint8_t>& each : simulated) pointers.push_back(each.data());
  EXPECT_EQ((*loaded)->run(pointers), absl::OkStatus());
  const absl::StatusOr<std::vector<std::string>> ran = runKernel(*written, arguments);
  EXPECT_EQ(ran.status(), absl::OkStatus());
  if (!ran.ok()) return compared;
  for (int r = 0; r < results; ++r) {
    const int b = kernel.operands() - results + r;
    const std::string& bytes = (*ran)[static_cast<size_t>(r)];
    const v1::DataType type = kernel.buffers(b).dtype();
    compared.device.push_back(numbersOf(type, std::vector<uint8_t>(bytes.begin(), bytes.end())));
    compared.simulated.push_back(numbersOf(type, simulated[static_cast<size_t>(b)]));
  }
  return compared;
}

/// `tolerance`: of the larger magnitude; 0: equal, with equal signs of zeros.
void expectSame(const Numbers& found, const Numbers& wanted, double tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(wanted[i]) && std::isnan(found[i])) continue;
    if (found[i] == wanted[i] && (tolerance > 0 || std::signbit(found[i]) == std::signbit(wanted[i]))) continue;
    ASSERT_LE(std::fabs(found[i] - wanted[i]), tolerance * std::max(1.0, std::fabs(wanted[i])))
        << what << ", element " << i << ": " << found[i] << ", not " << wanted[i];
    ASSERT_GT(tolerance, 0) << what << ", element " << i << ": " << found[i] << ", not " << wanted[i];
  }
}

constexpr int64_t kCount = 77;

/// One nest with a result for each operation.
class OperationKernel {
 public:
  explicit OperationKernel(const std::vector<v1::DataType>& inputs) {
    for (const v1::DataType type : inputs) addBuffer(kernel_, type, {kCount});
  }

  void add(const std::string& name, v1::DataType to, const std::vector<int>& inputs) {
    pending_.push_back({name, to, inputs});
  }

  void check(double tolerance, const std::vector<std::pair<int, Numbers>>& given) {
    const int first = kernel_.buffers_size();
    for (const Operation& each : pending_) addBuffer(kernel_, each.to, {kCount});
    // One function, since a driver takes a while to compile each.
    NestMaker nest(kernel_, "operations", {{"i", kCount}});
    for (size_t i = 0; i < pending_.size(); ++i) nest.access(first + static_cast<int>(i), {"i"});
    std::vector<int> elements, results;
    for (int input = 0; input < first; ++input) elements.push_back(nest.access(input, {"i"}));
    for (const Operation& each : pending_) {
      std::vector<int> values;
      for (const int input : each.inputs) values.push_back(elements[static_cast<size_t>(input)]);
      results.push_back(nest.operation(each.name, each.to, values));
    }
    nest.yield(results);
    const Compared compared = compare(kernel_, static_cast<int>(pending_.size()), given);
    ASSERT_EQ(compared.device.size(), pending_.size());
    for (size_t i = 0; i < pending_.size(); ++i)
      expectSame(compared.device[i], compared.simulated[i], tolerance,
                 absl::StrCat(pending_[i].name, " to ", std::string(elementText(pending_[i].to))));
  }

 private:
  struct Operation {
    std::string name;
    v1::DataType to;
    std::vector<int> inputs;
  };
  v1::SpatialKernel kernel_;
  std::vector<Operation> pending_;
};

/// Ordinary numbers and the corners of the type.
Numbers realNumbers(v1::DataType type, unsigned seed) {
  std::mt19937 random(seed);
  Numbers numbers = {0.0, -0.0, 1, -1, 0.5, 2.5, -2.5, 3.5, 65504, 1e-7, -1e-5, INFINITY, -INFINITY, NAN};
  while (numbers.size() < kCount)
    numbers.push_back(
        std::ldexp(static_cast<double>(random() % 20001) / 10000 - 1, static_cast<int>(random() % 24) - 12));
  for (double& number : numbers) number = simulator::rounded(number, type);
  std::shuffle(numbers.begin(), numbers.end(), random);
  return numbers;
}

Numbers wholeNumbers(v1::DataType type, unsigned seed) {
  std::mt19937 random(seed);
  const auto low = static_cast<double>(simulator::least(type)), high = static_cast<double>(simulator::largest(type));
  // Numbers of 64 bits are tests of doubles only up to 2^53.
  Numbers numbers = {0, 1, 2, 3, std::max(low, -0x1p53), std::min(high, 0x1p53), high > 100 ? 100.0 : 1.0};
  while (numbers.size() < kCount)
    numbers.push_back(std::floor(low / 4 + (high - low) / 2 * static_cast<double>(random() % 1000) / 1000));
  for (double& number : numbers) number = std::clamp(number, std::max(low, -0x1p53), std::min(high, 0x1p53));
  std::shuffle(numbers.begin(), numbers.end(), random);
  return numbers;
}

TEST(OpenCl, ArithmeticIsExactInEveryType) {
  TESSERA_NEEDS_DEVICE();
  for (const v1::DataType type : {kF32, kF16, kBF16, kF64}) {
    OperationKernel kernel({type, type, kBool});
    for (const char* name : {"addf", "subf", "mulf", "divf", "maximumf", "minimumf", "maxnumf", "minnumf", "copysign"})
      kernel.add(name, type, {0, 1});
    for (const char* name : {"negf", "absf", "floor", "ceil", "trunc", "round", "roundeven", "sqrt"})
      kernel.add(name, type, {0});
    for (const char* name : {"false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult",
                             "ule", "une", "uno", "true"})
      kernel.add(absl::StrCat("cmpf.", name), kBool, {0, 1});
    kernel.add("fma", type, {0, 1, 0});
    kernel.add("select", type, {2, 0, 1});
    for (const v1::DataType to : {kF32, kF16, kBF16, kF64})
      if (to != type) kernel.add(elementBytes(to) > elementBytes(type) ? "extf" : "truncf", to, {0});
    for (const v1::DataType to : {kI8, kI16, kI32, kI64}) kernel.add("fptosi", to, {0});
    for (const v1::DataType to : {kU8, v1::DATA_TYPE_U32}) kernel.add("fptoui", to, {0});
    kernel.check(0, {{0, realNumbers(type, 1)}, {1, realNumbers(type, 2)}});
  }
}

TEST(OpenCl, LibraryFunctionsAreNearTheReference) {
  TESSERA_NEEDS_DEVICE();
  for (const v1::DataType type : {kF32, kF16, kF64}) {
    OperationKernel kernel({type, type});
    for (const char* name :
         {"exp",  "exp2", "expm1", "sin",  "cos",   "tan",   "atan", "sinh", "cosh",  "tanh",  "asinh", "erf",
          "erfc", "cbrt", "log",   "log2", "log10", "log1p", "asin", "acos", "acosh", "atanh", "rsqrt"})
      kernel.add(name, type, {0});
    for (const char* name : {"powf", "atan2", "remf"}) kernel.add(name, type, {0, 1});
    kernel.check(type == kF16 ? 4e-3 : type == kF64 ? 1e-9 : 4e-6, {});
  }
}

TEST(OpenCl, IntegersWrapShiftAndDivideAsTheEvaluatorDoes) {
  TESSERA_NEEDS_DEVICE();
  for (const v1::DataType type : {kI8, kU8, kI16, kI32, kI64, kBool}) {
    OperationKernel kernel({type, type, kBool});
    for (const char* name : {"addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "andi", "ori", "xori", "shli",
                             "shrsi", "shrui", "maxsi", "minsi", "maxui", "minui"})
      kernel.add(name, type, {0, 1});
    if (type != kBool)
      for (const char* name : {"floordivsi", "ceildivsi", "ceildivui"}) kernel.add(name, type, {0, 1});
    kernel.add("absi", type, {0});
    kernel.add("select", type, {2, 0, 1});
    for (const char* name : {"eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"})
      kernel.add(absl::StrCat("cmpi.", name), kBool, {0, 1});
    for (const v1::DataType to : {kBool, kI8, kI16, kI32, kI64}) {
      const auto wide = [](v1::DataType each) { return each == kBool ? 0 : elementBytes(each); };
      if (wide(to) >= wide(type)) kernel.add("extsi", to, {0});
      if (wide(to) >= wide(type)) kernel.add("extui", to, {0});
      if (wide(to) <= wide(type)) kernel.add("trunci", to, {0});
    }
    for (const v1::DataType to : {kF32, kF16, kBF16, kF64}) {
      kernel.add("sitofp", to, {0});
      kernel.add("uitofp", to, {0});
    }
    kernel.check(0, {{0, wholeNumbers(type, 3)}, {1, wholeNumbers(type, 4)}});
  }
}

/// out[b, m, n] += left[b, m, k] * right[b, k, n].
v1::SpatialKernel productKernel(int64_t b, int64_t m, int64_t n, int64_t k, v1::DataType in, v1::DataType out,
                                bool filled) {
  v1::SpatialKernel kernel;
  const int left_buffer = addBuffer(kernel, in, {b, m, k}), right_buffer = addBuffer(kernel, in, {b, k, n});
  const int to = addBuffer(kernel, out, {b, m, n});
  addFill(kernel, to, filled ? 0 : 3);
  NestMaker nest(kernel, "matmul", {{"b", b}, {"m", m}, {"n", n}, {"k", k}});
  int old = nest.access(to, {"b", "m", "n"});
  int left = nest.access(left_buffer, {"b", "m", "k"}), right = nest.access(right_buffer, {"b", "k", "n"});
  const bool real = isFloatingPoint(out);
  const v1::DataType summed = real ? kF32 : kI32;
  const auto widened = [&](int value, v1::DataType from) {
    if (from == summed) return value;
    return nest.operation(real ? "extf" : from == kU8 ? "extui" : "extsi", summed, {value});
  };
  left = widened(left, in);
  right = widened(right, in);
  old = widened(old, out);
  const int sum = nest.operation(real ? "addf" : "addi", summed,
                                 {old, nest.operation(real ? "mulf" : "muli", summed, {left, right})});
  nest.yield({out == summed ? sum : nest.operation("truncf", out, {sum})});
  return kernel;
}

TEST(OpenCl, ProductsGoThroughLocalMemory) {
  TESSERA_NEEDS_DEVICE();
  struct Case {
    int64_t b = 1, m = 1, n = 1, k = 1;
    v1::DataType in = kF32, out = kF32;
    bool filled = true;
  };
  for (const Case& c :
       {Case{1, 65, 131, 33}, Case{3, 7, 17, 5}, Case{1, 4, 4, 4}, Case{2, 64, 128, 16, kF32, kF32, false},
        Case{1, 70, 19, 50, kF16, kF32}, Case{1, 33, 40, 9, kI8, kI32}, Case{1, 9, 37, 21, kU8, kI32, false}}) {
    const v1::SpatialKernel made = productKernel(c.b, c.m, c.n, c.k, c.in, c.out, c.filled);
    const Compared compared = compare(made, 1);
    ASSERT_EQ(compared.device.size(), 1U);
    EXPECT_THAT(compared.written.source(), HasSubstr("__local")) << c.m;
    EXPECT_EQ(compared.written.launches_size(), c.filled ? 1 : 2);
    expectSame(compared.device[0], compared.simulated[0], c.out == kI32 ? 0 : 1e-5, absl::StrCat(c.m, "x", c.n));
    const Compared plain = compare(made, 1, {}, true);
    EXPECT_THAT(plain.written.source(), Not(HasSubstr("__local")));
    EXPECT_EQ(plain.written.launches_size(), 1) << "work-items start from any constant";
    expectSame(plain.device[0], plain.simulated[0], 0, "plain loops");
  }
}

/// Writing a changed schedule: the message if it is refused, "" otherwise.
std::string refusal(const v1::SpatialKernel& kernel) {
  return std::string(writeKernel(kernel, device()).status().message());
}

/// A nest "out = operation(out, in)" over the loops of the input, of which those named "r..." are summed. `wide`: the
/// type in which it is computed.
struct ReductionCase {
  const char* operation = "";
  v1::DataType type = kF32, wide = kF32;
  std::vector<std::pair<std::string, int64_t>> loops = {};  ///< of the input, row-major
  double start = 0;        ///< of the fill; NaN: another nest writes what the reduction starts from
  const char* group = "";  ///< of the launch
};

v1::SpatialKernel reductionKernel(const ReductionCase& c) {
  v1::SpatialKernel kernel;
  std::vector<int64_t> shape, kept;
  std::vector<std::string> all, parallel;
  for (const auto& [loop, extent] : c.loops) {
    shape.push_back(extent);
    all.push_back(loop);
    if (loop.starts_with("r")) continue;
    kept.push_back(extent);
    parallel.push_back(loop);
  }
  const bool filled = !std::isnan(c.start);
  const int in = addBuffer(kernel, c.type, shape);
  const int initial = filled ? -1 : addBuffer(kernel, c.type, kept);
  const int out = addBuffer(kernel, c.type, kept);
  if (filled) {
    addFill(kernel, out, c.start);
  } else {
    std::vector<std::pair<std::string, int64_t>> loops;
    for (const auto& loop : c.loops)
      if (!loop.first.starts_with("r")) loops.push_back(loop);
    NestMaker copy(kernel, "copy", loops);
    copy.access(out, parallel);
    copy.yield({copy.access(initial, parallel)});
  }
  NestMaker nest(kernel, "reduce", c.loops);
  int old = nest.access(out, parallel);
  int value = nest.access(in, all);
  if (c.wide != c.type) {
    old = nest.operation("extf", c.wide, {old});
    value = nest.operation("extf", c.wide, {value});
  }
  int combined = nest.operation(c.operation, c.wide, {value, old});
  if (c.wide != c.type) combined = nest.operation("truncf", c.type, {combined});
  nest.yield({combined});
  return kernel;
}

TEST(OpenCl, AWorkGroupSharesAReduction) {
  TESSERA_NEEDS_DEVICE();
  const double none = NAN;
  for (const ReductionCase& c : std::vector<ReductionCase>{
           {"addf", kF32, kF32, {{"i", 5}, {"r", 1003}}, 0, "64 1"},
           {"addf", kF32, kF32, {{"r", 131}, {"i", 77}}, 3, "16 4"},
           {"addf", kF32, kF32, {{"r", 4099}}, none, "64"},
           {"addf", kF16, kF32, {{"i", 3}, {"r0", 9}, {"j", 2}, {"r1", 41}}, 0, "64 1 1"},
           {"mulf", kF64, kF64, {{"i", 7}, {"r", 65}}, 1, "16 4"},
           {"addf", kBF16, kBF16, {{"i", 2}, {"r", 97}}, 0, "16 2"},
           {"maximumf", kF32, kF32, {{"a", 3}, {"b", 2}, {"r0", 7}, {"c", 5}, {"r1", 7}}, -INFINITY, "8 4 1"},
           {"minimumf", kF16, kF16, {{"i", 4}, {"r", 640}}, none, "64 1"},
           {"addi", kI32, kI32, {{"i", 9}, {"r", 257}}, 0, "64 1"},
           {"maxsi", kI64, kI64, {{"i", 3}, {"r", 300}}, -0x1p53, "64 1"},
           {"minsi", kI8, kI8, {{"r", 50}, {"i", 33}}, 127, "16 4"},
           {"maxui", kU8, kU8, {{"i", 3}, {"r", 300}}, none, "64 1"},
           {"ori", kBool, kBool, {{"i", 3}, {"r", 300}}, 0, "64 1"},
           {"andi", kI16, kI16, {{"i", 3}, {"r", 34}}, -1, "8 2"}}) {
    const std::string what = absl::StrCat(c.operation, " of ", std::string(elementText(c.type)));
    const v1::SpatialKernel made = reductionKernel(c);
    const Compared compared = compare(made, 1);
    ASSERT_EQ(compared.device.size(), 1U) << what;
    EXPECT_THAT(compared.written.source(), HasSubstr("__local")) << what;
    EXPECT_EQ(compared.written.launches_size(), std::isnan(c.start) ? 2 : 1) << what;
    EXPECT_EQ(absl::StrJoin(compared.written.launches().rbegin()->work_group(), " "), c.group) << what;
    // A tree rounds sums of narrow types less often than the evaluator.
    const bool rounds = std::string_view(c.operation) == "addf" || std::string_view(c.operation) == "mulf";
    const double tolerance = !rounds           ? 0
                             : c.type == kBF16 ? 0.2
                             : c.type == kF16  ? 0.02
                             : c.type == kF64  ? 1e-13
                                               : 2e-5;
    expectSame(compared.device[0], compared.simulated[0], tolerance, what);
    EXPECT_THAT(writeKernel(scheduled(made, 1, true), device())->source(), Not(HasSubstr("__local"))) << what;
  }
}

TEST(OpenCl, ASharedReductionKeepsNaNsInfinitiesAndSignsOfZeros) {
  TESSERA_NEEDS_DEVICE();
  for (const char* operation : {"addf", "maximumf", "minimumf"}) {
    Numbers values(400, -0.0);
    values[77] = NAN;
    values[105] = INFINITY;
    values[199] = 1;
    values[287] = 0.0;
    const v1::SpatialKernel filled = reductionKernel({operation, kF32, kF32, {{"i", 4}, {"r", 100}}, -0.0});
    const Compared started = compare(filled, 1, {{0, values}});
    ASSERT_EQ(started.device.size(), 1U);
    expectSame(started.device[0], started.simulated[0], 0, operation);
  }
}

TEST(OpenClSchedule, OnlyReductionsInAnyOrderAreShared) {
  const ReductionCase sum{"addf", kF32, kF32, {{"i", 5}, {"r", 1000}}};
  const auto variant = [](const v1::SpatialKernel& kernel) {
    const v1::Schedule schedule = scheduled(kernel, 1).schedule();
    return schedule.phases(schedule.phases_size() - 1).children(0).kernel().variant();
  };
  EXPECT_EQ(variant(reductionKernel(sum)), "reduction-tree");
  ReductionCase other = sum;
  other.operation = "subf";
  EXPECT_EQ(variant(reductionKernel(other)), "work-items");
  other = sum;
  other.loops[1].second = 8;
  EXPECT_EQ(variant(reductionKernel(other)), "work-items") << "too few values";
  other = sum;
  other.loops = {{"i", 600}, {"r", 100}};
  EXPECT_EQ(variant(reductionKernel(other)), "work-items") << "too few values for results that keep the device busy";
  other.loops = {{"r", 40}, {"i", 20000}};
  EXPECT_EQ(variant(reductionKernel(other)), "work-items") << "the results fill the device";
  v1::SpatialKernel twice = reductionKernel(sum);  // the old value has another use
  twice.mutable_nests(1)->mutable_body(0)->set_operands(0, 0);
  EXPECT_EQ(variant(twice), "work-items");

  const v1::SpatialKernel kernel = scheduled(reductionKernel(sum), 1);
  v1::SpatialKernel changed = kernel;
  changed.mutable_schedule()->mutable_phases(1)->mutable_loops(1)->set_step(16);
  EXPECT_THAT(writeKernel(changed, device())->source(), HasSubstr("parts[1][16]"));
  changed.mutable_schedule()->mutable_phases(1)->mutable_loops(1)->set_step(24);
  EXPECT_THAT(refusal(changed), HasSubstr("k/24"));
  changed.mutable_schedule()->mutable_phases(1)->mutable_loops(1)->set_step(256);
  changed.mutable_schedule()->mutable_phases(1)->mutable_loops(0)->set_step(2);
  EXPECT_THAT(refusal(changed), HasSubstr("512 work-items"));
  changed = scheduled(reductionKernel({"subf", kF32, kF32, {{"i", 5}, {"r", 1000}}}), 1);
  *changed.mutable_schedule()->mutable_phases(1) = kernel.schedule().phases(1);
  EXPECT_THAT(refusal(changed), HasSubstr("combines no values in any order"));
}

/// A product with a bias for each column and a residual, transposed: out[n, m] = max(0, sum + bias[n]) + other[m, n].
v1::SpatialKernel epilogueKernel() {
  constexpr int64_t kRows = 21, kColumns = 35, kSummed = 19;
  v1::SpatialKernel kernel;
  const int left = addBuffer(kernel, kF32, {kRows, kSummed}), right = addBuffer(kernel, kF32, {kSummed, kColumns});
  const int bias = addBuffer(kernel, kF32, {kColumns}), other = addBuffer(kernel, kF32, {kRows, kColumns});
  const int out = addBuffer(kernel, kF32, {kColumns, kRows});
  kernel.set_operands(kernel.buffers_size());
  const int sums = addBuffer(kernel, kF32, {kRows, kColumns});
  addFill(kernel, sums);
  NestMaker product(kernel, "matmul", {{"m", kRows}, {"n", kColumns}, {"k", kSummed}});
  const int old = product.access(sums, {"m", "n"});
  const int a = product.access(left, {"m", "k"}), b = product.access(right, {"k", "n"});
  product.yield({product.operation("addf", kF32, {old, product.operation("mulf", kF32, {a, b})})});
  NestMaker after(kernel, "add + relu", {{"p", kColumns}, {"q", kRows}});
  after.access(out, {"p", "q"});
  const int sum = after.access(sums, {"q", "p"}), added = after.access(bias, {"p"}),
            residual = after.access(other, {"q", "p"});
  const int zero = after.constant(kF32, 0);
  const int positive = after.operation("maximumf", kF32, {zero, after.operation("addf", kF32, {sum, added})});
  after.yield({after.operation("addf", kF32, {positive, residual})});
  return kernel;
}

TEST(OpenCl, AProductComputesTheNestThatReadsItsResults) {
  TESSERA_NEEDS_DEVICE();
  const Compared compared = compare(epilogueKernel(), 1);
  EXPECT_EQ(compared.written.launches_size(), 1);
  ASSERT_EQ(compared.device.size(), 1U);
  expectSame(compared.device[0], compared.simulated[0], 1e-5, "epilogue");
}

TEST(OpenCl, ADeviceDescribesItselfAsATarget) {
  Device device;
  device.name = "Some GPU (rev. 3), 12 cores";
  device.local_bytes = 65536;
  device.max_group_items = 4096;
  device.compute_units = 12;
  device.vector_lanes = 4;
  device.megahertz = 850;
  const v1::Target target = describedDevice(device);
  EXPECT_TRUE(validateTarget(target).empty());
  EXPECT_EQ(target.name(), "some-gpu-rev-3-12-cores");
  EXPECT_EQ(target.memory(0).capacity_bytes(), 65536);
  EXPECT_EQ(target.units(0).threads(), 1024);
  EXPECT_EQ(target.units(0).lanes(), 4);
  EXPECT_TRUE(validateTarget(describedDevice({})).empty());
  TESSERA_NEEDS_DEVICE();
  EXPECT_TRUE(validateTarget(describedDevice(*firstDevice())).empty());
}

TEST(OpenCl, AnIndexOutsideOfItsBufferIsAnError) {
  TESSERA_NEEDS_DEVICE();
  v1::SpatialKernel kernel;
  const int table = addBuffer(kernel, kF32, {5}), places = addBuffer(kernel, kI64, {3}),
            out = addBuffer(kernel, kF32, {3});
  NestMaker nest(kernel, "gather", {{"i", 3}});
  nest.access(out, {"i"});
  const int place = nest.access(places, {"i"});
  nest.yield({nest.load(table, {place}, {1})});
  const absl::StatusOr<v1::OpenClKernel> written = writeKernel(scheduled(kernel, 1), device());
  ASSERT_EQ(written.status(), absl::OkStatus());
  const auto run = [&](const Numbers& at) {
    const std::vector<uint8_t> values = simulator::testing::bytesOf(kF32, {1, 2, 3, 4, 5}),
                               indices = simulator::testing::bytesOf(kI64, at);
    return runKernel(*written,
                     {std::string(values.begin(), values.end()), std::string(indices.begin(), indices.end())});
  };
  EXPECT_EQ(run({4, 0, 2}).status(), absl::OkStatus());
  for (const double wrong : {5.0, -1.0, 1e15})
    EXPECT_EQ(run({4, wrong, 2}).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(OpenCl, AProgramThatDoesNotCompileNamesTheDeviceAndTheLine) {
  TESSERA_NEEDS_DEVICE();
  absl::StatusOr<v1::OpenClKernel> written =
      writeKernel(scheduled(productKernel(1, 5, 5, 5, kF32, kF32, true), 1), device());
  ASSERT_EQ(written.status(), absl::OkStatus());
  written->set_source("__kernel void k_1() { this is no code; }");
  const absl::Status status = runKernel(*written, {std::string(100, 0), std::string(100, 0)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not compile"));
}

TEST(OpenClSchedule, TreesDecideAndWrongOnesAreRefusedByPath) {
  const v1::SpatialKernel kernel = scheduled(productKernel(1, 64, 128, 64, kF32, kF32, true), 1);
  EXPECT_EQ(kernel.schedule().phases(0).kernel().variant(), "initial");
  EXPECT_EQ(kernel.schedule().phases(1).children(0).kernel().variant(), "outer-product");
  const std::string source = writeKernel(kernel, device())->source();
  EXPECT_EQ(writeKernel(kernel, device())->source(), source) << "equal schedules give equal text";

  v1::SpatialKernel other = kernel;
  other.mutable_schedule()->mutable_phases(1)->mutable_loops(2)->set_step(8);
  EXPECT_THAT(writeKernel(other, device())->source(), AllOf(HasSubstr("rows[8][64]"), Not(HasSubstr("rows[16][64]"))));
  other.mutable_schedule()->mutable_phases(1)->mutable_loops(0)->set_step(12);
  EXPECT_THAT(refusal(other), HasSubstr("m 12/8"));
  other = kernel;
  other.mutable_schedule()->mutable_phases(1)->mutable_loops(2)->set_step(1024);
  EXPECT_THAT(refusal(other), HasSubstr("do not fit the device"));
  other = kernel;
  other.mutable_schedule()->mutable_phases(1)->mutable_children(0)->mutable_kernel()->set_interleaved(true);
  EXPECT_NE(refusal(other), "") << "no field of a tree is ignored";
  other = kernel;
  other.mutable_schedule()->mutable_phases()->RemoveLast();
  EXPECT_THAT(refusal(other), HasSubstr("1 phases"));
  // A product starts from zero, this fill is another number.
  other = scheduled(productKernel(1, 64, 128, 64, kF32, kF32, false), 1);
  *other.mutable_schedule()->mutable_phases(0) = kernel.schedule().phases(0);
  EXPECT_THAT(refusal(other), HasSubstr("no nest starts from"));
}

TEST(OpenClSchedule, AnEpilogueNeedsAProductWhoseOnlyReaderItIs) {
  const auto variant = [](const v1::SpatialKernel& kernel) {
    return scheduled(kernel, 1).schedule().phases(2).kernel().variant();
  };
  const v1::SpatialKernel kernel = epilogueKernel();
  EXPECT_EQ(variant(kernel), "epilogue");
  v1::SpatialKernel other = kernel;  // the sums are a result, too
  other.set_operands(other.buffers_size());
  EXPECT_NE(variant(other), "epilogue");
  other = kernel;  // a later nest reads them
  *other.add_nests() = kernel.nests(2);
  EXPECT_NE(variant(other), "epilogue");
  other = kernel;  // the elements are others
  other.mutable_nests(2)->mutable_accesses(1)->set_offset(1);
  other.mutable_nests(2)->mutable_loops(1)->set_extent(20);
  EXPECT_NE(variant(other), "epilogue");
  other = scheduled(kernel, 1, true);  // each work-item stores its sum
  *other.mutable_schedule()->mutable_phases(2) = scheduled(kernel, 1).schedule().phases(2);
  EXPECT_THAT(refusal(other), HasSubstr("no nest that the product before it can compute"));
}

TEST(OpenClCode, APreludeHasTheFunctionsThatAProgramCalls) {
  EXPECT_THAT(preludeOf("x = a + b;"), Not(HasSubstr("t_")));
  EXPECT_THAT(preludeOf("t_floordiv_short(a, b)"), AllOf(HasSubstr("short t_div_short(short a, short b)"),
                                                         HasSubstr("(ushort)a"), Not(HasSubstr("t_div_int"))));
  EXPECT_THAT(preludeOf("t_round_bf16(x)"),
              AllOf(HasSubstr("ushort t_bf16_bits("), Not(HasSubstr("f16_bits(float x) { ushort"))));
  EXPECT_THAT(preludeOf("double x;"), HasSubstr("cl_khr_fp64"));
}

}  // namespace
}  // namespace tessera::compiler::opencl
