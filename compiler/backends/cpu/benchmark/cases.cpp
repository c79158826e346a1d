#include "compiler/backends/cpu/benchmark/cases.h"

#include <algorithm>
#include <cstdio>
#include <random>

#include "compiler/backends/cpu/testing/winograd_text.h"
#include "compiler/fusion/ceil_div.h"
#include "compiler/graph/winograd/winograd_algorithm.h"

namespace tessera::compiler::codegen::benchmark {
namespace {

using testing::kBiasRelu;
using testing::kMultiplyAdd;
using testing::Tensor;
using testing::WorkloadText;

template <typename... Values>
std::string nameOf(const char* format, Values... values) {
  char name[128];
  std::snprintf(name, sizeof(name), format, values...);
  return name;
}

size_t count(const std::vector<int64_t>& shape) {
  size_t product = 1;
  for (int64_t extent : shape) product *= extent;
  return product;
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
          {[conv] { return dnnlConvolution(conv); }}};
}

/// The same in NCHW throughout, with weights in a model's layout; oneDNN still chooses its preferred layout.
Case planarCase(const Conv& conv) {
  const int64_t out = conv.size / conv.stride, padded = conv.size + conv.kernel / 2 * 2;
  const bool depthwise = conv.groups > 1;
  const std::vector<int64_t> in{1, conv.c, padded, padded},
      filter{conv.k, depthwise ? 1 : conv.c, conv.kernel, conv.kernel}, result{1, conv.k, out, out};
  WorkloadText text;
  const Tensor x = text.argument(in), w = text.argument(filter), bias = text.argument({conv.k});
  const std::string s = std::to_string(conv.stride),
                    window = ", d2 * " + s + " + d5, d3 * " + s + " + d6";  // after batch, k, h, w, c
  const Tensor y =
      text.generic({x, w}, {(depthwise ? "d0, d1" : "d0, d4") + window, "d1, d4, d5, d6", "d0, d1, d2, d3"},
                   text.fill(result, "0.0"), 7, "pppprrr", kMultiplyAdd);
  const Tensor z =
      text.generic({y, bias}, {"d0, d1, d2, d3", "d1", "d0, d1, d2, d3"}, text.empty(result), 4, "", kBiasRelu);
  return {nameOf("NCHW %s%ldx%ld s%ld %ld->%ld %ldx%ld", depthwise ? "depthwise " : "", conv.kernel, conv.kernel,
                 conv.stride, conv.c, conv.k, conv.size, conv.size),
          2.0 * static_cast<double>(count(result) * filter[1] * conv.kernel * conv.kernel),
          text.finish({z}),
          {count(in), count(filter), static_cast<size_t>(conv.k), count(result)},
          {[conv] { return dnnlConvolution(conv); }}};
}

/// A row-major matrix as a constant of the workload.
Tensor matrixOf(WorkloadText& text, llvm::ArrayRef<float> entries, int64_t rows) {
  const int64_t columns = static_cast<int64_t>(entries.size()) / rows;
  std::string values;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i % columns == 0) values += i == 0 ? "[" : "], [";
    values += (i % columns == 0 ? "" : ", ") + nameOf("%.9e", entries[i]);
  }
  return text.raw("arith.constant dense<[" + values + "]]> : tensor<" + std::to_string(rows) + "x" +
                      std::to_string(columns) + "xf32>",
                  {rows, columns});
}

/// The stages that graph/winograd creates for a 3x3 convolution; GFLOP/s count the direct convolution's operations.
Case winogradCase(const Conv& conv, const WinogradAlgorithm& algorithm, int64_t block) {
  const int64_t m = algorithm.results, blocks = ceilDiv(conv.size, m);
  const testing::WinogradText stages{m, conv.c / block, conv.k / block, blocks, blocks, block};
  WorkloadText text;
  const Tensor to_input = matrixOf(text, algorithm.input, stages.side()),
               to_output = matrixOf(text, algorithm.output, m);
  return {nameOf("%s %ld->%ld %ldx%ld", algorithm.name, conv.c, conv.k, conv.size, conv.size),
          18.0 * static_cast<double>(conv.k * conv.c * conv.size * conv.size),
          text.finish({stages.write(text, to_input, to_output)}),
          {count(stages.input()), count(stages.filters()), count(stages.bias()), count(stages.result())},
          {[conv] { return dnnlConvolution(conv); }}};
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
          {[=] { return dnnlConvolution({channels, size, channels, 3, stride, channels}); }}};
}

/// C = A B with B in panels [n / block][k][block].
Case packedCase(int64_t m, int64_t n, int64_t k, int64_t block) {
  WorkloadText text;
  const Tensor c = text.generic({text.argument({m, k}), text.argument({n / block, k, block})},
                                {"d0, d3", "d1, d3, d2", "d0, d1, d2"}, text.fill({m, n / block, block}, "0.0"), 4,
                                "pppr", kMultiplyAdd);
  return {nameOf("matmul %ldx%ldx%ld packed", m, n, k),
          2.0 * static_cast<double>(m * n * k),
          text.finish({c}),
          {count({m, k}), count({k, n}), count({m, n})},
          {[=] { return dnnlMatmul({m, n, k}, true); }}};
}

/// y[rows, columns] = f(x), elementwise or row-wise; `flops` is the number of bytes moved here.
Case transposeCase(int64_t rows, int64_t columns) {
  WorkloadText text;
  const Tensor y = text.generic({text.argument({columns, rows})}, {"d1, d0", "d0, d1"}, text.empty({rows, columns}), 2,
                                "", "%r = arith.addf %i0, %i0 : f32");
  return {nameOf("transpose %ldx%ld (bytes)", rows, columns),
          8.0 * static_cast<double>(rows * columns),
          text.finish({y}),
          {count({rows, columns}), count({rows, columns})},
          {}};
}

}  // namespace

Case gemmCase(const Gemm& gemm) {
  const auto [m, n, k, batch, ta, tb] = gemm;
  const std::vector<int64_t> a = ta ? std::vector{batch, k, m} : std::vector{batch, m, k},
                             b = tb ? std::vector{batch, n, k} : std::vector{batch, k, n};
  WorkloadText text;
  const Tensor c = text.generic({text.argument(a), text.argument(b)},
                                {ta ? "d0, d3, d1" : "d0, d1, d3", tb ? "d0, d2, d3" : "d0, d3, d2", "d0, d1, d2"},
                                text.fill({batch, m, n}, "0.0"), 4, "pppr", kMultiplyAdd);
  return {(batch > 1 ? std::to_string(batch) + " x " : "") + nameOf("gemm %ldx%ldx%ld ", m, n, k) + (ta ? "T" : "N") +
              (tb ? "T" : "N"),
          2.0 * static_cast<double>(batch * m * n * k),
          text.finish({c}),
          {count(a), count(b), count({batch, m, n})},
          {[=] { return dnnlMatmul(gemm, false); }, [=] { return blasMatmul(gemm); }}};
}

std::vector<Case> allCases(int64_t block) {
  std::vector<Case> cases;
  for (int64_t size : {512, 1024, 2048}) {
    cases.push_back(packedCase(size, size, size, block));
    for (bool ta : {false, true})
      for (bool tb : {false, true}) cases.push_back(gemmCase({size, size, size, 1, ta, tb}));
  }
  cases.push_back(
      packedCase(128, 768, 768, block));  // BERT-base at 128 tokens, with weights packed as the graph level packs them
  cases.push_back(packedCase(128, 3072, 768, block));
  cases.push_back(packedCase(128, 768, 3072, block));
  cases.push_back(packedCase(197, 768, 768, block));  // ViT-B/16: 196 patches and the class token
  cases.push_back(packedCase(197, 3072, 768, block));
  cases.push_back(packedCase(197, 768, 3072, block));
  cases.push_back(gemmCase({128, 768, 3072}));
  cases.push_back(packedCase(1, 1000, 2048, 8));
  cases.push_back(gemmCase({1, 1000, 2048}));
  cases.push_back(gemmCase({1, 4096, 1024}));
  cases.push_back(gemmCase({1, 4096, 1024, 1, false, true}));
  cases.push_back(gemmCase({4096, 1, 1024}));
  cases.push_back(gemmCase({128, 128, 64, 12, false, true}));  // scores Q K^T of twelve heads
  cases.push_back(gemmCase({128, 64, 128, 12}));               // and their context
  cases.push_back(gemmCase({512, 512, 64, 12, false, true}));
  cases.push_back(gemmCase({512, 64, 512, 12}));
  cases.push_back(transposeCase(1024, 768));
  // The distinct convolutions of ResNet-50.
  static constexpr Conv kLayers[] = {
      {3, 224, 64, 7, 2},     {64, 56, 64, 1, 1},   {64, 56, 64, 3, 1},    {64, 56, 256, 1, 1},   {256, 56, 64, 1, 1},
      {256, 56, 128, 1, 1},   {128, 56, 128, 3, 2}, {128, 28, 512, 1, 1},  {256, 56, 512, 1, 2},  {512, 28, 128, 1, 1},
      {128, 28, 128, 3, 1},   {512, 28, 256, 1, 1}, {256, 28, 256, 3, 2},  {256, 14, 1024, 1, 1}, {512, 28, 1024, 1, 2},
      {1024, 14, 256, 1, 1},  {256, 14, 256, 3, 1}, {1024, 14, 512, 1, 1}, {512, 14, 512, 3, 2},  {512, 7, 2048, 1, 1},
      {1024, 14, 2048, 1, 2}, {2048, 7, 512, 1, 1}, {512, 7, 512, 3, 1}};
  for (const Conv& layer : kLayers) cases.push_back(convCase(layer, block));
  for (const Conv& layer : std::initializer_list<Conv>{{3, 224, 64, 7, 2},
                                                       {192, 56, 128, 1, 1},
                                                       {512, 28, 256, 1, 1},
                                                       {64, 56, 128, 1, 2},
                                                       {64, 56, 128, 3, 2},
                                                       {64, 56, 64, 3, 1},
                                                       {64, 112, 64, 3, 1, 64},
                                                       {128, 56, 128, 3, 2, 128},
                                                       {512, 14, 512, 3, 1, 512}})
    cases.push_back(planarCase(layer));
  for (const Conv& layer : std::initializer_list<Conv>{{64, 56, 64, 3, 1},
                                                       {128, 28, 128, 3, 1},
                                                       {256, 14, 256, 3, 1},
                                                       {512, 7, 512, 3, 1},
                                                       {128, 56, 256, 3, 1},
                                                       {64, 224, 64, 3, 1}})
    for (const WinogradAlgorithm& algorithm : winogradAlgorithms())
      cases.push_back(winogradCase(layer, algorithm, block));
  cases.push_back(depthwiseCase(64, 112, 1));
  cases.push_back(depthwiseCase(1024, 7, 1));
  cases.push_back(depthwiseCase(128, 56, 1));
  cases.push_back(depthwiseCase(512, 14, 1));
  cases.push_back(depthwiseCase(256, 28, 2));
  return cases;
}

std::vector<Case> gemmSweep(int count, unsigned seed) {
  static constexpr int64_t kExtents[] = {1,   2,   3,    5,    7,    8,    13,   16,   17,   31,   32,
                                         48,  64,  97,   100,  127,  128,  197,  251,  256,  384,  509,
                                         512, 768, 1000, 1021, 1024, 1536, 2039, 2048, 3072, 4093, 4096};
  std::mt19937 random(seed);
  auto pick = [&] { return kExtents[random() % std::size(kExtents)]; };
  std::vector<Case> cases;
  while (static_cast<int>(cases.size()) < count) {
    const Gemm gemm{pick(), pick(), pick()};
    if (gemm.m * gemm.n * gemm.k <= int64_t{1} << 33) cases.push_back(gemmCase(gemm));
  }
  return cases;
}

}  // namespace tessera::compiler::codegen::benchmark
