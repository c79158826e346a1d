// Contractions and convolutions over random shapes, layouts, strides and dilations, against the oracle.
#include <gtest/gtest.h>

#include <random>

#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/workload_text.h"

namespace tessera::compiler::codegen::testing {
namespace {

constexpr char kMultiplyAdd[] = "%m = arith.mulf %i0, %i1 : f32\n    %r = arith.addf %o, %m : f32";

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int64_t pick(std::initializer_list<int64_t> values) { return values.begin()[engine_() % values.size()]; }
  bool coin() { return engine_() % 2 == 0; }

 private:
  std::mt19937 engine_;
};

class Contraction : public ::testing::TestWithParam<unsigned> {};

TEST_P(Contraction, MatmulInAnyLayout) {
  Random random(GetParam());
  const int64_t batch = random.pick({1, 1, 2, 3}), m = random.pick({1, 2, 7, 13, 14, 28, 31}),
                n = random.pick({1, 3, 8, 16, 17, 40, 64, 100}), k = random.pick({1, 2, 5, 16, 33, 64});
  const bool transpose_a = random.coin(), transpose_b = random.coin(), transpose_c = GetParam() % 5 == 0;
  WorkloadText text;
  const Tensor a = text.argument(transpose_a ? std::vector{batch, k, m} : std::vector{batch, m, k});
  const Tensor b = text.argument(transpose_b ? std::vector{batch, n, k} : std::vector{batch, k, n});
  const std::vector<int64_t> shape = transpose_c ? std::vector{batch, n, m} : std::vector{batch, m, n};
  // Every third case accumulates into an argument instead of starting from a constant.
  const Tensor start = GetParam() % 3 == 0 ? text.argument(shape) : text.fill(shape, random.coin() ? "0.0" : "2.5");
  Tensor c = text.generic({a, b},
                          {transpose_a ? "d0, d3, d1" : "d0, d1, d3", transpose_b ? "d0, d2, d3" : "d0, d3, d2",
                           transpose_c ? "d0, d2, d1" : "d0, d1, d2"},
                          start, 4, "pppr", kMultiplyAdd);
  if (random.coin()) {
    const Tensor bias = text.argument({shape[2]});
    c = text.generic({c, bias}, {"d0, d1, d2", "d2", "d0, d1, d2"}, text.empty(shape), 3, "",
                     "%z = arith.constant 0.0 : f32\n    %s = arith.addf %i0, %i1 : f32\n"
                     "    %r = arith.maximumf %s, %z : f32");
  }
  checkWorkload(text.finish({c}), {.seed = GetParam()});
}

TEST_P(Contraction, BlockedConvolution) {
  Random random(GetParam() + 1000);
  const int64_t n = random.pick({1, 2}), kb = random.pick({1, 2, 3}), cb = random.pick({1, 2}),
                k = random.pick({3, 8, 16, 16, 32}), c = random.pick({1, 3, 4, 16}), kh = random.pick({1, 2, 3}),
                kw = random.pick({1, 3, 5}), stride = random.pick({1, 1, 2}), dilation = random.pick({1, 1, 2}),
                oh = random.pick({1, 2, 3, 7}), ow = random.pick({1, 2, 5, 7, 14, 15});
  const int64_t h = (oh - 1) * stride + (kh - 1) * dilation + 1, w = (ow - 1) * stride + (kw - 1) * dilation + 1;
  WorkloadText text;
  const Tensor input = text.argument({n, cb, h, w, c});
  const Tensor filter = text.argument({kb, cb, kh, kw, c, k});
  const std::vector<int64_t> shape{n, kb, oh, ow, k};
  const std::string s = std::to_string(stride), d = std::to_string(dilation);
  Tensor out = text.generic({input, filter},
                            {"d0, d5, d2 * " + s + " + d6 * " + d + ", d3 * " + s + " + d7 * " + d + ", d8",
                             "d1, d5, d6, d7, d8, d4", "d0, d1, d2, d3, d4"},
                            text.fill(shape, "0.0"), 9, "ppppprrrr", kMultiplyAdd);
  if (random.coin()) {
    const Tensor bias = text.argument({kb, k}), residual = text.argument(shape);
    out = text.generic({out, bias, residual},
                       {"d0, d1, d2, d3, d4", "d1, d4", "d0, d1, d2, d3, d4", "d0, d1, d2, d3, d4"}, text.empty(shape),
                       5, "",
                       "%z = arith.constant 0.0 : f32\n    %s = arith.addf %i0, %i1 : f32\n"
                       "    %t = arith.addf %s, %i2 : f32\n    %r = arith.maximumf %t, %z : f32");
  }
  if (random.coin()) out = text.pad(out, {0, 0, 1, 2, 0}, {0, 0, 1, 0, 0}, "0.0");
  const v1::KernelInfo info = checkWorkload(text.finish({out}), {.seed = GetParam()});
  // Blocks of a few channels may instead be summed along the input's channels, over a copy of the filter.
  if (k >= 8) EXPECT_EQ(info.workspace_bytes(), 0);
}

TEST_P(Contraction, NamedConvolutions) {
  Random random(GetParam() + 2000);
  const int64_t n = random.pick({1, 2}), c = random.pick({1, 3, 8, 20}), f = random.pick({1, 4, 19}),
                kh = random.pick({1, 3}), kw = random.pick({1, 2, 3}), stride = random.pick({1, 2}),
                dilation = random.pick({1, 2}), oh = random.pick({1, 4, 5}), ow = random.pick({1, 3, 17, 20});
  const int64_t h = (oh - 1) * stride + (kh - 1) * dilation + 1, w = (ow - 1) * stride + (kw - 1) * dilation + 1;
  const std::string attributes = "{strides = dense<" + std::to_string(stride) +
                                 "> : tensor<2xi64>, dilations = dense<" + std::to_string(dilation) +
                                 "> : tensor<2xi64>}";
  WorkloadText text;
  Tensor out;
  switch (GetParam() % 5) {
    case 0:
      out = text.named("conv_2d_nchw_fchw", {text.argument({n, c, h, w}), text.argument({f, c, kh, kw})},
                       text.fill({n, f, oh, ow}, "0.0"), attributes);
      break;
    case 1:
      out = text.named("conv_2d_nhwc_hwcf", {text.argument({n, h, w, c}), text.argument({kh, kw, c, f})},
                       text.fill({n, oh, ow, f}, "0.0"), attributes);
      break;
    case 2:
      out = text.named("depthwise_conv_2d_nhwc_hwc", {text.argument({n, h, w, c}), text.argument({kh, kw, c})},
                       text.fill({n, oh, ow, c}, "0.0"), attributes);
      break;
    case 3:
      out = text.named("pooling_nchw_max", {text.argument({n, c, h, w}), text.empty({kh, kw})},
                       text.fill({n, c, oh, ow}, "0xFF800000"), attributes);
      break;
    default:
      out = text.named("pooling_nhwc_sum", {text.argument({n, h, w, c}), text.empty({kh, kw})},
                       text.fill({n, oh, ow, c}, "0.0"), attributes);
  }
  checkWorkload(text.finish({out}), {.seed = GetParam()});
}

TEST_P(Contraction, BlockedDepthwise) {
  Random random(GetParam() + 3000);
  const int64_t cb = random.pick({1, 2}), c = random.pick({16, 32, 7}), k = random.pick({3, 5}),
                stride = random.pick({1, 2}), oh = random.pick({1, 3, 7}), ow = random.pick({1, 7, 14});
  WorkloadText text;
  const Tensor input = text.argument({1, cb, (oh - 1) * stride + k, (ow - 1) * stride + k, c});
  const Tensor filter = text.argument({cb, k, k, c});
  const std::string s = std::to_string(stride);
  const Tensor out = text.generic(
      {input, filter}, {"d0, d1, d2 * " + s + " + d5, d3 * " + s + " + d6, d4", "d1, d5, d6, d4", "d0, d1, d2, d3, d4"},
      text.fill({1, cb, oh, ow, c}, "0.0"), 7, "ppppprr", kMultiplyAdd);
  checkWorkload(text.finish({out}), {.seed = GetParam()});
}

TEST_P(Contraction, IntegersAndDoubles) {
  Random random(GetParam() + 4000);
  const int64_t m = random.pick({1, 5, 16}), n = random.pick({1, 9, 16, 70}), k = random.pick({1, 6, 40});
  WorkloadText text;
  Tensor out;
  switch (GetParam() % 3) {
    case 0:
      out = text.generic({text.argument({m, k}, "i8"), text.argument({k, n}, "i8")}, {"d0, d2", "d2, d1", "d0, d1"},
                         text.fill({m, n}, "0", "i32"), 3, "ppr",
                         "%a = arith.extsi %i0 : i8 to i32\n    %b = arith.extsi %i1 : i8 to i32\n"
                         "    %m = arith.muli %a, %b : i32\n    %r = arith.addi %o, %m : i32");
      break;
    case 1:
      out = text.generic({text.argument({m, k}, "f64"), text.argument({k, n}, "f64")}, {"d0, d2", "d2, d1", "d0, d1"},
                         text.fill({m, n}, "0.0", "f64"), 3, "ppr",
                         "%m = arith.mulf %i0, %i1 : f64\n    %r = arith.addf %m, %o : f64");
      break;
    default:
      out = text.generic({text.argument({m, k}, "f16"), text.argument({k, n}, "f16")}, {"d0, d2", "d2, d1", "d0, d1"},
                         text.fill({m, n}, "0.0", "f32"), 3, "ppr",
                         "%a = arith.extf %i0 : f16 to f32\n    %b = arith.extf %i1 : f16 to f32\n"
                         "    %m = arith.mulf %a, %b : f32\n    %r = arith.addf %o, %m : f32");
  }
  checkWorkload(text.finish({out}), {.seed = GetParam()});
}

// Rows of the results lie in separate pages, as do the operands read with them: columns run within tiles of rows, in
// blocks for a small L2.
TEST_P(Contraction, RowsInManyPages) {
  Random random(GetParam() + 5000);
  const int64_t m = random.pick({33, 65, 70, 97}), n = random.pick({1024, 1031, 1040, 2053}),
                k = random.pick({1, 3, 16, 31, 64}), planes = random.pick({1, 1, 2});
  WorkloadText text;
  const Tensor a = text.argument({m, k}), b = text.argument({planes, k, n}), residual = text.argument({planes, m, n});
  Tensor c = text.generic({a, b}, {"d1, d3", "d0, d3, d2", "d0, d1, d2"}, text.fill({planes, m, n}, "0.0"), 4, "pppr",
                          kMultiplyAdd);
  if (random.coin())
    c = text.generic({c, residual}, {"d0, d1, d2", "d0, d1, d2", "d0, d1, d2"}, text.empty({planes, m, n}), 3, "",
                     "%r = arith.addf %i0, %i1 : f32");
  checkWorkload(text.finish({c}), {.seed = GetParam(), .adjust = [](v1::BuildUnit& unit) {
                                     if (unit.memory_size() > 1) unit.mutable_memory(1)->set_capacity_bytes(64 << 10);
                                   }});
}

// Every loop has a remainder, and the follower is long: the variants of the tile must not multiply the code size.
TEST(ContractionCode, StaysSmall) {
  constexpr int64_t kPrimes[][4] = {{17, 19, 24, 5}, {37, 41, 97, 7}, {101, 103, 1, 11}};  // oh, ow, k, c
  for (const auto& [oh, ow, k, c] : kPrimes) {
    WorkloadText text;
    const std::vector<int64_t> shape{3, 5, oh, ow, k};
    Tensor out = text.generic({text.argument({3, 2, oh + 2, ow + 4, c}), text.argument({5, 2, 3, 5, c, k})},
                              {"d0, d5, d2 + d6, d3 + d7, d8", "d1, d5, d6, d7, d8, d4", "d0, d1, d2, d3, d4"},
                              text.fill(shape, "0.0"), 9, "ppppprrrr", kMultiplyAdd);
    out = text.generic({out}, {"d0, d1, d2, d3, d4", "d0, d1, d2, d3, d4"}, text.empty(shape), 5, "",
                       "%e = math.erf %i0 : f32\n    %r = arith.mulf %e, %i0 : f32");
    auto built = buildByDefault(hostUnit(text.finish({out})));
    ASSERT_TRUE(built.ok()) << built.status().message();
    EXPECT_LT(built->object().size(), 256U << 10) << join(shape);
    EXPECT_LE(built->info().phases_size(), 2);  // the weights may be packed first
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Contraction, ::testing::Range(0U, 60U));

}  // namespace
}  // namespace tessera::compiler::codegen::testing
