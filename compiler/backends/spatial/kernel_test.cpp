#include "compiler/backends/spatial/kernel.h"

#include <gmock/gmock.h>

#include <cmath>

#include "compiler/backends/spatial/testing/kernels.h"
#include "compiler/schedule/text.h"

namespace tessera::compiler::simulator {
namespace {

using namespace testing;
using ::testing::HasSubstr;

const v1::Kernel& leaf(const v1::SpatialKernel& kernel, int phase) {
  const v1::Tile* tile = &kernel.schedule().phases(phase);
  while (tile->children_size() > 0) tile = &tile->children(0);
  return tile->kernel();
}

/// out[n, f, p, q] += in[n, c, s p + r, s q + t] * w[f, c, r, t], with sums in f32 or i32.
struct Convolution {
  int64_t n = 1, f = 3, c = 5, p = 4, q = 7, r = 3, t = 2, stride = 1;
  v1::DataType in = kF16, weights = kF16, out = kF32, summed = kF32;
};

v1::SpatialKernel kernelOf(const Convolution& c) {
  v1::SpatialKernel kernel;
  const int out = addBuffer(kernel, c.out, {c.n, c.f, c.p, c.q});
  const int in = addBuffer(kernel, c.in, {c.n, c.c, (c.p - 1) * c.stride + c.r, (c.q - 1) * c.stride + c.t});
  const int weights = addBuffer(kernel, c.weights, {c.f, c.c, c.r, c.t});
  addFill(kernel, out);
  NestMaker nest(kernel, "conv2d",
                 {{"n", c.n}, {"f", c.f}, {"p", c.p}, {"q", c.q}, {"c", c.c}, {"r", c.r}, {"t", c.t}});
  const std::string step = c.stride == 1 ? "" : std::to_string(c.stride) + " * ";
  int old = nest.access(out, {"n", "f", "p", "q"});
  int left = nest.access(in, {"n", "c", step + "p + r", step + "q + t"});
  int right = nest.access(weights, {"f", "c", "r", "t"});
  const bool real = isFloatingPoint(c.summed);
  const auto widened = [&](int value, v1::DataType from) {
    if (from == c.summed) return value;
    return nest.operation(real ? "extf" : from == kU8 ? "extui" : "extsi", c.summed, {value});
  };
  left = widened(left, c.in);
  right = widened(right, c.weights);
  if (c.out != c.summed) old = nest.operation("extf", c.summed, {old});
  const int product = nest.operation(real ? "mulf" : "muli", c.summed, {left, right});
  const int sum = nest.operation(real ? "addf" : "addi", c.summed, {product, old});
  nest.yield({c.out == c.summed ? sum : nest.operation("truncf", c.out, {sum})});
  return kernel;
}

/// The sums in double precision, and bounds of their rounding errors.
void expectConvolution(const Convolution& c, const Ran& ran) {
  const int64_t rows = (c.p - 1) * c.stride + c.r, columns = (c.q - 1) * c.stride + c.t;
  const double roundings = static_cast<double>(c.c * c.r * c.t) + 2;
  const double unit = isFloatingPoint(c.out) ? unitRoundoff(kF32) * roundings + unitRoundoff(c.out) : 0;
  size_t at = 0;
  for (int64_t n = 0; n < c.n; ++n) {
    for (int64_t f = 0; f < c.f; ++f) {
      for (int64_t p = 0; p < c.p; ++p) {
        for (int64_t q = 0; q < c.q; ++q, ++at) {
          double sum = 0, magnitudes = 0;
          for (int64_t i = 0; i < c.c; ++i) {
            for (int64_t r = 0; r < c.r; ++r) {
              for (int64_t t = 0; t < c.t; ++t) {
                const int64_t x = ((n * c.c + i) * rows + p * c.stride + r) * columns + q * c.stride + t;
                const double term = ran.before[1][static_cast<size_t>(x)] *
                                    ran.before[2][static_cast<size_t>(((f * c.c + i) * c.r + r) * c.t + t)];
                sum += term;
                magnitudes += std::fabs(term);
              }
            }
          }
          ASSERT_LE(std::fabs(ran.after[0][at] - sum), unit * 1.01 * magnitudes) << at << " is " << ran.after[0][at];
        }
      }
    }
  }
}

TEST(Kernel, ConvolutionsRunOnInstructionsOfTheirTypes) {
  for (const Convolution& c :
       {Convolution{}, Convolution{.n = 2, .f = 6, .c = 13, .p = 3, .q = 5, .r = 3, .t = 3},
        Convolution{.f = 7, .c = 8, .p = 5, .q = 5, .r = 1, .t = 1}, Convolution{.f = 4, .c = 11, .stride = 2},
        Convolution{.out = kF16}, Convolution{.in = kI8, .weights = kU8, .out = kI32, .summed = kI32},
        Convolution{.f = 5, .c = 3, .stride = 3, .in = kU8, .weights = kI8, .out = kI32, .summed = kI32}}) {
    const Ran ran = runKernel(kernelOf(c), chip());
    EXPECT_EQ(leaf(ran.kernel, 0).variant(), "initial") << ran.kernel.refusal();
    EXPECT_EQ(leaf(ran.kernel, 1).variant(), "call") << ran.kernel.refusal();
    EXPECT_EQ(leaf(ran.kernel, 1).instruction(), isFloatingPoint(c.summed) ? "half.4x4x8" : "mul.4x2x4");
    expectConvolution(c, ran);
    EXPECT_EQ(ran.cost.steps_size(), 2);
    EXPECT_GT(ran.cost.steps(1).matrix_cycles(), 0);
    EXPECT_GT(ran.cost.energy_pj(), 0);
    const Ran scalar = runKernel(kernelOf(c), chip(), {.scalar = true});
    EXPECT_EQ(leaf(scalar.kernel, 1).variant(), "vector");
    if (c.out != kF16) expectConvolution(c, scalar);
  }
}

TEST(Kernel, EveryBuiltInDescribedChipRunsConvolutions) {
  int chips = 0, called = 0;
  for (const v1::Target& target : builtinTargets()) {
    if (target.family() != v1::Target::SPATIAL) continue;
    ++chips;
    for (const Convolution& c :
         {Convolution{.n = 2, .f = 33, .c = 19, .p = 7, .q = 9}, Convolution{.p = 1, .q = 1},
          Convolution{.f = 18, .c = 7, .in = kI8, .weights = kI8, .out = kI32, .summed = kI32}}) {
      SCOPED_TRACE(target.name());
      const Ran ran = runKernel(kernelOf(c), target);
      expectConvolution(c, ran);
      called += leaf(ran.kernel, 1).variant() == "call";
      EXPECT_GT(ran.cost.cycles(), 0);
      EXPECT_GT(ran.cost.seconds(), 0);
      EXPECT_GT(ran.cost.energy_pj(), 0);
      for (const auto& level : ran.cost.levels())
        if (level.capacity_bytes() > 0) EXPECT_LE(level.peak_bytes(), level.capacity_bytes()) << level.name();
      for (const auto& unit : ran.cost.units()) EXPECT_LE(unit.utilization(), 1.0 + 1e-9) << unit.name();
    }
  }
  EXPECT_GE(chips, 9);
  EXPECT_GE(called, 6);
}

TEST(Kernel, TypesWithoutAnInstructionRunOnTheVectorUnitAndSayWhy) {
  const Convolution c{.in = kF32, .weights = kF32};
  const Ran ran = runKernel(kernelOf(c), chip());
  EXPECT_EQ(leaf(ran.kernel, 1).variant(), "vector");
  EXPECT_THAT(ran.kernel.refusal(), HasSubstr("conv2d"));
  EXPECT_THAT(ran.kernel.refusal(), HasSubstr("f32"));
  expectConvolution(c, ran);
}

TEST(Kernel, SumsThatAddToOldContentKeepIt) {
  Convolution c;
  v1::SpatialKernel kernel = kernelOf(c);
  kernel.mutable_nests()->DeleteSubrange(0, 1);
  const Ran with_old = runKernel(kernel, chip());
  const Ran from_zero = runKernel(kernelOf(c), chip());
  for (size_t i = 0; i < with_old.after[0].size(); ++i)
    EXPECT_NEAR(with_old.after[0][i], with_old.before[0][i] + from_zero.after[0][i], 1e-4);
}

TEST(Kernel, ViewsOfBuffersAreTensors) {
  // Every second column of the left buffer, the right one transposed, the result within a wider buffer.
  constexpr int64_t kI = 13, kJ = 10, kK = 21, kWide = 2 * kK + 2, kOut = 2 * kJ + 3;
  v1::SpatialKernel kernel;
  const int out = addBuffer(kernel, kF32, {kI, kOut}), left = addBuffer(kernel, kF16, {kI, kWide}),
            right = addBuffer(kernel, kF16, {kJ, kK});
  NestMaker fill(kernel, "fill", {{"i", kI}, {"j", kJ}});
  fill.access(out, {"i", "j"}, {kOut, 2}, 2);
  fill.yield({fill.constant(kF32, 0)});
  NestMaker nest(kernel, "matmul", {{"i", kI}, {"j", kJ}, {"k", kK}});
  const int old = nest.access(out, {"i", "j"}, {kOut, 2}, 2);
  const int a = nest.access(left, {"i", "k"}, {kWide, 2}, 1), b = nest.access(right, {"j", "k"});
  nest.yield({nest.operation(
      "addf", kF32,
      {old, nest.operation("mulf", kF32, {nest.operation("extf", kF32, {a}), nest.operation("extf", kF32, {b})})})});
  const Ran ran = runKernel(kernel, chip());
  EXPECT_EQ(leaf(ran.kernel, 1).variant(), "call") << ran.kernel.refusal();
  std::vector<double> expected = ran.before[0];
  for (size_t i = 0; i < kI; ++i) {
    for (size_t j = 0; j < kJ; ++j) {
      double sum = 0;
      for (size_t k = 0; k < kK; ++k) sum += ran.before[1][i * kWide + 1 + 2 * k] * ran.before[2][j * kK + k];
      expected[i * kOut + 2 + 2 * j] = sum;
    }
  }
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(ran.after[0][i], expected[i], 1e-5) << i;
}

TEST(Kernel, SoftmaxPartsRunOnTheVectorUnit) {
  v1::SpatialKernel kernel;
  constexpr int64_t kRows = 11, kColumns = 131;
  const int in = addBuffer(kernel, kF32, {kRows, kColumns}), top = addBuffer(kernel, kF32, {kRows}),
            sum = addBuffer(kernel, kF32, {kRows}), out = addBuffer(kernel, kF32, {kRows, kColumns});
  const std::vector<std::pair<std::string, int64_t>> loops = {{"i0", kRows}, {"r0", kColumns}};
  addFill(kernel, top, -INFINITY);
  NestMaker largest(kernel, "max", loops);
  const int held = largest.access(top, {"i0"}), x = largest.access(in, {"i0", "r0"});
  largest.yield({largest.operation("maximumf", kF32, {held, x})});
  addFill(kernel, sum);
  NestMaker exponents(kernel, "exp", loops);
  exponents.access(out, {"i0", "r0"});
  const int each = exponents.access(in, {"i0", "r0"}), most = exponents.access(top, {"i0"});
  exponents.yield({exponents.operation("exp", kF32, {exponents.operation("subf", kF32, {each, most})})});
  NestMaker total(kernel, "sum", loops);
  const int before = total.access(sum, {"i0"}), term = total.access(out, {"i0", "r0"});
  total.yield({total.operation("addf", kF32, {before, term})});
  NestMaker divided(kernel, "div", loops);
  const int value = divided.access(out, {"i0", "r0"}), by = divided.access(sum, {"i0"});
  divided.yield({divided.operation("divf", kF32, {value, by})});
  const Ran ran = runKernel(kernel, chip());
  for (size_t i = 0; i < kRows; ++i) {
    float m = -INFINITY, s = 0;
    std::vector<float> e;
    for (size_t j = 0; j < kColumns; ++j) m = std::max(m, static_cast<float>(ran.before[0][i * kColumns + j]));
    for (size_t j = 0; j < kColumns; ++j) {
      e.push_back(std::exp(static_cast<float>(ran.before[0][i * kColumns + j]) - m));
      s += e.back();
    }
    // The same operations in the same order: the same bits.
    for (size_t j = 0; j < kColumns; ++j) ASSERT_EQ(ran.after[3][i * kColumns + j], e[j] / s) << i << " " << j;
  }
  EXPECT_EQ(ran.cost.steps_size(), 6);
  for (const auto& step : ran.cost.steps()) EXPECT_GT(step.vector_cycles(), 0) << step.name();
}

TEST(Kernel, PadsTransposesAndGathers) {
  v1::SpatialKernel kernel;
  const int in = addBuffer(kernel, kI32, {5, 3}), padded = addBuffer(kernel, kI32, {7, 6}),
            turned = addBuffer(kernel, kI32, {6, 7}), rows = addBuffer(kernel, kI64, {4}),
            picked = addBuffer(kernel, kI32, {4, 7});
  addFill(kernel, padded, 9);
  NestMaker pad(kernel, "pad", {{"i", 5}, {"j", 3}});
  pad.access(padded, {"i + 1", "j + 2"});
  pad.yield({pad.access(in, {"i", "j"})});
  NestMaker transpose(kernel, "transpose", {{"i", 6}, {"j", 7}});
  transpose.access(turned, {"i", "j"});
  transpose.yield({transpose.access(padded, {"j", "i"})});
  NestMaker gather(kernel, "gather", {{"i", 4}, {"j", 7}});
  gather.access(picked, {"i", "j"});
  const int row = gather.access(rows, {"i"});
  gather.yield({gather.load(turned, {row, gather.index(1)}, {7, 1})});
  const Numbers wanted = {5, 0, 3, 3};
  const Ran ran = runKernel(kernel, chip(), {}, {{rows, wanted}});
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < 7; ++j) {
      const auto column = static_cast<size_t>(wanted[i]);
      const bool inside = j >= 1 && j < 6 && column >= 2 && column < 5;
      EXPECT_EQ(ran.after[4][i * 7 + j], inside ? ran.before[0][(j - 1) * 3 + column - 2] : 9) << i << " " << j;
    }
  }
}

TEST(Kernel, AGatherOutsideOfItsBufferIsAnError) {
  v1::SpatialKernel kernel;
  const int out = addBuffer(kernel, kF32, {3}), table = addBuffer(kernel, kF32, {4}), at = addBuffer(kernel, kI64, {3});
  kernel.set_operands(3);
  NestMaker gather(kernel, "gather", {{"i", 3}});
  gather.access(out, {"i"});
  const int position = gather.access(at, {"i"});
  gather.yield({gather.load(table, {position}, {1})});
  ASSERT_TRUE(scheduleKernel(kernel, chip()).ok());
  auto loaded = LoadedKernel::load(kernel, chip());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const double bad : {4.0, -1.0, 1e18}) {
    std::vector<uint8_t> o(12), t(16), p = bytesOf(kI64, {1, bad, 0});
    uint8_t* operands[] = {o.data(), t.data(), p.data()};
    const absl::Status status = (*loaded)->run(operands);
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("gather"));
  }
}

TEST(Kernel, LargestElementAndItsIndexAreOneNest) {
  v1::SpatialKernel kernel;
  const int best = addBuffer(kernel, kF32, {3}), where = addBuffer(kernel, kI64, {3}),
            in = addBuffer(kernel, kF32, {3, 17});
  addFill(kernel, best, -INFINITY);
  addFill(kernel, where);
  NestMaker nest(kernel, "argmax", {{"i", 3}, {"r", 17}});
  const int held = nest.access(best, {"i"}), index = nest.access(where, {"i"}), x = nest.access(in, {"i", "r"});
  const int more = nest.operation("cmpf.ogt", kBool, {x, held});
  const int value = nest.operation("select", kF32, {more, x, held});
  nest.yield({value, nest.operation("select", kI64, {more, nest.index(1), index})});
  const Ran ran = runKernel(kernel, chip());
  for (size_t i = 0; i < 3; ++i) {
    size_t top = 0;
    for (size_t r = 1; r < 17; ++r)
      if (ran.before[2][i * 17 + r] > ran.before[2][i * 17 + top]) top = r;
    EXPECT_EQ(ran.after[0][i], ran.before[2][i * 17 + top]);
    EXPECT_EQ(ran.after[1][i], static_cast<double>(top));
  }
}

TEST(Kernel, PointsThatDependOnEachOtherKeepTheirOrder) {
  // A running sum: every point reads what the point before it wrote.
  v1::SpatialKernel kernel;
  const int x = addBuffer(kernel, kI32, {300});
  NestMaker nest(kernel, "scan", {{"i", 299}});
  const int here = nest.access(x, {"i + 1"}), before = nest.access(x, {"i"});
  nest.yield({nest.operation("addi", kI32, {here, before})});
  const Ran ran = runKernel(kernel, chip());
  double sum = ran.before[0][0];
  for (size_t i = 1; i < 300; ++i) EXPECT_EQ(ran.after[0][i], sum += ran.before[0][i]) << i;
}

TEST(Kernel, QuotientsAndRemaindersAreSubscripts) {
  // A reshape of 6 x 10 to 4 x 15 through one flat index, transposed on the way.
  v1::SpatialKernel kernel;
  const int out = addBuffer(kernel, kI32, {15, 4}), in = addBuffer(kernel, kI32, {6, 10});
  NestMaker nest(kernel, "reshape", {{"i", 4}, {"j", 15}});
  nest.access(out, {"j", "i"});
  nest.yield({nest.access(in, {"(i * 15 + j) / 10", "(i * 15 + j) % 10"})});
  const Ran ran = runKernel(kernel, chip());
  for (size_t i = 0; i < 4; ++i)
    for (size_t j = 0; j < 15; ++j) EXPECT_EQ(ran.after[0][j * 4 + i], ran.before[1][i * 15 + j]);
}

TEST(Kernel, ScalarsHaveNoLoops) {
  v1::SpatialKernel kernel;
  const int out = addBuffer(kernel, kF16, {}), in = addBuffer(kernel, kF32, {});
  NestMaker nest(kernel, "narrow", {});
  nest.access(out, {});
  nest.yield({nest.operation("truncf", kF16, {nest.access(in, {})})});
  const Ran ran = runKernel(kernel, chip());
  EXPECT_EQ(ran.after[0][0], rounded(ran.before[1][0], kF16));
}

TEST(Kernel, ChipsWithoutAVectorUnitSayWhatTheyLack) {
  v1::SpatialKernel kernel;
  const int x = addBuffer(kernel, kF32, {4});
  addFill(kernel, x);
  const absl::Status status = scheduleKernel(kernel, chipOf(madeUpChip()));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("fill: made-up describes no unit"));
  v1::Target rated = chip();
  v1::ComputeUnit::Rate* rate = rated.mutable_units(1)->add_rates();
  rate->set_operation("addf");
  rate->set_elements_per_cycle(4);
  EXPECT_THAT(std::string(scheduleKernel(kernel, rated).message()), HasSubstr("no rate of copy of f32"));
}

TEST(Kernel, SchedulesAreTextAndDecideTheProgram) {
  const Ran ran = runKernel(kernelOf({.f = 9, .c = 17, .p = 9, .q = 9}), chip());
  const auto read = parseSchedule(printSchedule(ran.kernel.schedule()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), ran.kernel.schedule().SerializeAsString());
}

}  // namespace
}  // namespace tessera::compiler::simulator
