// GFLOP/s of generated kernels beside the machine's FMA peak and oneDNN, single thread, measured in turns so
// that a busy machine slows all of them alike. Not a test.
//   codegen_benchmark [name part] [--rounds N] [--emit FILE] [--block K]
#include <immintrin.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "compiler/codegen/codegen.h"
#include "compiler/codegen/testing/loaded_unit.h"
#include "compiler/codegen/testing/workload_text.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace {

using tessera::compiler::codegen::testing::LoadedUnit;
using tessera::compiler::codegen::testing::Tensor;
using tessera::compiler::codegen::testing::WorkloadText;
using Clock = std::chrono::steady_clock;

constexpr char kMultiplyAdd[] = "%m = arith.mulf %i0, %i1 : f32\n    %r = arith.addf %o, %m : f32";
constexpr char kBiasRelu[] =
    "%z = arith.constant 0.0 : f32\n    %s = arith.addf %i0, %i1 : f32\n    %r = arith.maximumf %s, %z : f32";

/// Processor time of this thread, so that being preempted does not count.
double seconds(const std::function<void()>& work) {
  auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

/// Independent multiply-adds in registers: the most a core can do.
__attribute__((target("avx512f"))) double peak512(long iterations) {
  __m512 sum[20];
  for (auto& s : sum) s = _mm512_set1_ps(1.0F);
  const __m512 a = _mm512_set1_ps(0.999999F), b = _mm512_set1_ps(1e-7F);
  for (long i = 0; i < iterations; ++i)
#pragma clang loop unroll(full)
    for (int j = 0; j < 20; ++j) sum[j] = _mm512_fmadd_ps(sum[j], a, b);
  __m512 total = sum[0];
  for (int j = 1; j < 20; ++j) total = _mm512_add_ps(total, sum[j]);
  volatile float keep = _mm512_reduce_add_ps(total);
  (void)keep;
  return 20.0 * 32 * static_cast<double>(iterations);
}

struct AlignedBuffer {
  explicit AlignedBuffer(size_t floats) : storage(floats + 16) {
    data = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(storage.data()) + 63) / 64 * 64);
    for (size_t i = 0; i < floats; ++i) data[i] = static_cast<float>(i % 17) * 0.0625F - 0.5F;
  }
  std::vector<float> storage;
  float* data;
};

struct Case {
  std::string name;
  double flops;
  std::string ir;
  std::vector<size_t> operands;  ///< floats
  std::function<std::function<void()>()> peer;
};

size_t count(const std::vector<int64_t>& shape) {
  size_t product = 1;
  for (int64_t extent : shape) product *= extent;
  return product;
}

struct Conv {
  int64_t c, size, k, kernel, stride;
};

std::function<void()> dnnlConvolution(const Conv& conv) {
  using dnnl::memory;
  const int64_t out = conv.size / conv.stride, pad = conv.kernel / 2;
  auto engine = std::make_shared<dnnl::engine>(dnnl::engine::kind::cpu, 0);
  auto stream = std::make_shared<dnnl::stream>(*engine);
  auto any = [](const memory::dims& dims) {
    return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
  };
  auto desc = dnnl::convolution_forward::desc(
      dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, any({1, conv.c, conv.size, conv.size}),
      any({conv.k, conv.c, conv.kernel, conv.kernel}), any({conv.k}), any({1, conv.k, out, out}),
      {conv.stride, conv.stride}, {pad, pad}, {pad, pad});
  dnnl::post_ops post;
  post.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(post);
  auto primitive = dnnl::convolution_forward::primitive_desc(desc, attributes, *engine);
  auto run = std::make_shared<dnnl::convolution_forward>(primitive);
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, memory(primitive.src_desc(), *engine)},
                                            {DNNL_ARG_WEIGHTS, memory(primitive.weights_desc(), *engine)},
                                            {DNNL_ARG_BIAS, memory(primitive.bias_desc(), *engine)},
                                            {DNNL_ARG_DST, memory(primitive.dst_desc(), *engine)}};
  for (auto& [id, value] : arguments) std::memset(value.get_data_handle(), 0, value.get_desc().get_size());
  return [=] {
    run->execute(*stream, arguments);
    stream->wait();
  };
}

std::function<void()> dnnlMatmul(int64_t m, int64_t n, int64_t k, bool packed) {
  using dnnl::memory;
  auto engine = std::make_shared<dnnl::engine>(dnnl::engine::kind::cpu, 0);
  auto stream = std::make_shared<dnnl::stream>(*engine);
  using tag = memory::format_tag;
  auto desc = dnnl::matmul::desc(memory::desc({m, k}, memory::data_type::f32, tag::ab),
                                 memory::desc({k, n}, memory::data_type::f32, packed ? tag::any : tag::ab),
                                 memory::desc({m, n}, memory::data_type::f32, tag::ab));
  auto primitive = dnnl::matmul::primitive_desc(desc, *engine);
  auto run = std::make_shared<dnnl::matmul>(primitive);
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, memory(primitive.src_desc(), *engine)},
                                            {DNNL_ARG_WEIGHTS, memory(primitive.weights_desc(), *engine)},
                                            {DNNL_ARG_DST, memory(primitive.dst_desc(), *engine)}};
  for (auto& [id, value] : arguments) std::memset(value.get_data_handle(), 0, value.get_desc().get_size());
  return [=] {
    run->execute(*stream, arguments);
    stream->wait();
  };
}

Case convCase(const Conv& conv, int64_t block) {
  const int64_t out = conv.size / conv.stride, halo = conv.kernel / 2 * 2;
  const int64_t c = std::min<int64_t>(conv.c, block), cb = conv.c / c, kb = conv.k / block;
  const int64_t padded = conv.size + (conv.stride == 2 && conv.kernel == 1 ? 0 : halo);
  const std::vector<int64_t> in{1, cb, padded, padded, c}, filter{kb, cb, conv.kernel, conv.kernel, c, block},
      result{1, kb, out, out, block};
  WorkloadText text;
  const Tensor x = text.argument(in), w = text.argument(filter), bias = text.argument({kb, block});
  const std::string s = std::to_string(conv.stride);
  const Tensor y = text.generic(
      {x, w}, {"d0, d5, d2 * " + s + " + d6, d3 * " + s + " + d7, d8", "d1, d5, d6, d7, d8, d4", "d0, d1, d2, d3, d4"},
      text.fill(result, "0.0"), 9, "ppppprrrr", kMultiplyAdd);
  const Tensor z = text.generic({y, bias}, {"d0, d1, d2, d3, d4", "d1, d4", "d0, d1, d2, d3, d4"}, text.empty(result),
                                5, "", kBiasRelu);
  char name[64];
  std::snprintf(name, sizeof(name), "conv %ldx%ld s%ld %ld->%ld %ldx%ld", conv.kernel, conv.kernel, conv.stride, conv.c,
                conv.k, conv.size, conv.size);
  return {name,
          2.0 * static_cast<double>(conv.k * conv.c * conv.kernel * conv.kernel * out * out),
          text.finish({z}),
          {count(in), count(filter), count({kb, block}), count(result)},
          [conv] { return dnnlConvolution(conv); }};
}

Case depthwiseCase(int64_t channels, int64_t size, int64_t stride) {
  const int64_t cb = channels / 16, out = size / stride;
  const std::vector<int64_t> in{1, cb, size + 2, size + 2, 16}, filter{cb, 3, 3, 16}, result{1, cb, out, out, 16};
  WorkloadText text;
  const std::string s = std::to_string(stride);
  const Tensor y =
      text.generic({text.argument(in), text.argument(filter)},
                   {"d0, d1, d2 * " + s + " + d5, d3 * " + s + " + d6, d4", "d1, d5, d6, d4", "d0, d1, d2, d3, d4"},
                   text.fill(result, "0.0"), 7, "ppppprr", kMultiplyAdd);
  return {"depthwise " + std::to_string(channels) + " " + std::to_string(size) + " s" + s,
          18.0 * static_cast<double>(count(result)),
          text.finish({y}),
          {count(in), count(filter), count(result)},
          nullptr};
}

/// C = A B with B as rows, or as [n / block][k][block].
Case matmulCase(int64_t m, int64_t n, int64_t k, int64_t block) {
  WorkloadText text;
  std::vector<size_t> operands{count({m, k}), count({k, n}), count({m, n})};
  Tensor c;
  if (block == 0) {
    c = text.generic({text.argument({m, k}), text.argument({k, n})}, {"d0, d2", "d2, d1", "d0, d1"},
                     text.fill({m, n}, "0.0"), 3, "ppr", kMultiplyAdd);
  } else {
    c = text.generic({text.argument({m, k}), text.argument({n / block, k, block})},
                     {"d0, d3", "d1, d3, d2", "d0, d1, d2"}, text.fill({m, n / block, block}, "0.0"), 4, "pppr",
                     kMultiplyAdd);
  }
  char name[64];
  std::snprintf(name, sizeof(name), "matmul %ldx%ldx%ld %s", m, n, k, block ? "packed" : "rows");
  return {name, 2.0 * static_cast<double>(m * n * k), text.finish({c}), operands,
          [=] { return dnnlMatmul(m, n, k, block != 0); }};
}

/// scores = Q K^T for each head: neither operand is contiguous along the columns.
Case scoresCase(int64_t heads, int64_t rows, int64_t depth) {
  WorkloadText text;
  const Tensor c = text.generic({text.argument({heads, rows, depth}), text.argument({heads, rows, depth})},
                                {"d0, d1, d3", "d0, d2, d3", "d0, d1, d2"}, text.fill({heads, rows, rows}, "0.0"), 4,
                                "pppr", kMultiplyAdd);
  return {"scores " + std::to_string(heads) + "x" + std::to_string(rows) + "x" + std::to_string(depth),
          2.0 * static_cast<double>(heads * rows * rows * depth),
          text.finish({c}),
          {count({heads, rows, depth}), count({heads, rows, depth}), count({heads, rows, rows})},
          nullptr};
}

std::vector<Case> allCases(int64_t block) {
  std::vector<Case> cases;
  for (int64_t size : {512, 1024}) {
    cases.push_back(matmulCase(size, size, size, 32));
    cases.push_back(matmulCase(size, size, size, 0));
  }
  cases.push_back(matmulCase(128, 768, 768, 32));
  cases.push_back(matmulCase(128, 3072, 768, 32));
  cases.push_back(matmulCase(128, 768, 3072, 32));
  cases.push_back(matmulCase(1, 1000, 2048, 8));
  cases.push_back(scoresCase(12, 128, 64));
  // The distinct convolutions of ResNet-50.
  static constexpr Conv kLayers[] = {
      {3, 224, 64, 7, 2},     {64, 56, 64, 1, 1},   {64, 56, 64, 3, 1},    {64, 56, 256, 1, 1},   {256, 56, 64, 1, 1},
      {256, 56, 128, 1, 1},   {128, 56, 128, 3, 2}, {128, 28, 512, 1, 1},  {256, 56, 512, 1, 2},  {512, 28, 128, 1, 1},
      {128, 28, 128, 3, 1},   {512, 28, 256, 1, 1}, {256, 28, 256, 3, 2},  {256, 14, 1024, 1, 1}, {512, 28, 1024, 1, 2},
      {1024, 14, 256, 1, 1},  {256, 14, 256, 3, 1}, {1024, 14, 512, 1, 1}, {512, 14, 512, 3, 2},  {512, 7, 2048, 1, 1},
      {1024, 14, 2048, 1, 2}, {2048, 7, 512, 1, 1}, {512, 7, 512, 3, 1}};
  for (const Conv& layer : kLayers) cases.push_back(convCase(layer, block));
  cases.push_back(depthwiseCase(128, 56, 1));
  cases.push_back(depthwiseCase(512, 14, 1));
  cases.push_back(depthwiseCase(256, 28, 2));
  return cases;
}

}  // namespace

int main(int argc, char** argv) {
  if (!getenv("OMP_NUM_THREADS")) {  // read when the program is loaded, therefore start again
    setenv("OMP_NUM_THREADS", "1", 1);
    execv("/proc/self/exe", argv);
  }
  std::string only, emit;
  int rounds = 9;
  int64_t block = 16;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--rounds" && i + 1 < argc) {
      rounds = std::atoi(argv[++i]);
    } else if (argument == "--emit" && i + 1 < argc) {
      emit = argv[++i];
    } else if (argument == "--block" && i + 1 < argc) {
      block = std::atoi(argv[++i]);
    } else {
      only = argument;
    }
  }
  std::printf("%-30s %8s %8s %8s %7s %7s  %s\n", "case", "GFLOP/s", "peak", "oneDNN", "of peak", "/oneDNN",
              "compile, tile");
  for (const Case& each : allCases(block)) {
    if (each.name.find(only) == std::string::npos) continue;
    auto unit = tessera::compiler::codegen::testing::hostUnit(each.ir);
    const auto start = Clock::now();
    auto built = tessera::compiler::buildObject(unit);
    const double compile_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    if (!built.ok()) {
      std::printf("%-30s %s\n", each.name.c_str(), std::string(built.status().message()).c_str());
      continue;
    }
    if (!emit.empty()) std::ofstream(emit, std::ios::binary) << built->object();
    auto schedule = tessera::compiler::chooseSchedule(unit);
    auto loaded = LoadedUnit::load(*built);
    if (!loaded.ok()) return 1;
    std::vector<AlignedBuffer> buffers;
    std::vector<void*> pointers;
    for (size_t floats : each.operands) buffers.emplace_back(floats);
    for (AlignedBuffer& buffer : buffers) pointers.push_back(buffer.data);
    auto peer = each.peer ? each.peer() : nullptr;
    const int repeats = std::max(1, static_cast<int>(2e9 / each.flops / 4));
    std::vector<double> ours, peers, peaks;
    (*loaded)->run(pointers, 1);
    if (peer) peer();
    for (int round = 0; round < rounds; ++round) {
      double flops = 0;
      const double peak = seconds([&] { flops = peak512(200000); });
      peaks.push_back(flops / peak * 1e-9);
      ours.push_back(each.flops * repeats * 1e-9 / seconds([&] {
                       for (int i = 0; i < repeats; ++i) (*loaded)->run(pointers, 1);
                     }));
      if (peer)
        peers.push_back(each.flops * repeats * 1e-9 / seconds([&] {
                          for (int i = 0; i < repeats; ++i) peer();
                        }));
    }
    const double mine = median(ours), peak = median(peaks), theirs = peers.empty() ? 0 : median(peers);
    std::string tile;
    if (schedule.ok() && schedule->register_tile_size() == 2)
      tile = std::to_string(schedule->register_tile(0)) + "x" + std::to_string(schedule->register_tile(1)) + " " +
             built->info().strategy() + " grid " + std::to_string(built->info().phases(0).grid());
    std::printf("%-30s %8.1f %8.1f %8.1f %6.0f%% %7.2f  %.0f ms, %s\n", each.name.c_str(), mine, peak, theirs,
                100 * mine / peak, theirs > 0 ? mine / theirs : 0.0, compile_ms, tile.c_str());
    std::fflush(stdout);
  }
  return 0;
}
