#include "compiler/fusion/testing/thesis_chains.h"

#include "compiler/loopnest/body.h"

namespace tessera::compiler::fusion {
namespace {

Subscript sumOf(std::vector<Term> terms) { return {.terms = std::move(terms)}; }

/// The sum of products of two tensors.
Statement productOf(const char* name, std::vector<int> loops, std::vector<int> inputs, int output) {
  return {.name = name,
          .loops = std::move(loops),
          .inputs = std::move(inputs),
          .output = output,
          .body = {.combine = loopnest::Combine::kSum, .operations = loopnest::productOf(2)}};
}

}  // namespace

Chain gemmChain(int64_t batch, int64_t m, int64_t n, int64_t k, int64_t l, int64_t min_tile) {
  const auto matrix = [](const char* name, int rows, int columns) {
    return Access{.name = name, .subscripts = {sumOf({{rows}}), sumOf({{columns}})}};
  };
  Chain chain{
      .name = "gemm-chain",
      .loops = {{"m", m, min_tile}, {"l", l, min_tile}, {"k", k, min_tile}, {"n", n, min_tile}},
      .accesses = {matrix("A", 0, 2), matrix("B", 2, 1), matrix("C", 0, 1), matrix("D", 1, 3), matrix("E", 0, 3)},
      .statements = {productOf("gemm1", {0, 1, 2}, {0, 1}, 2), productOf("gemm2", {0, 1, 3}, {2, 3}, 4)}};
  if (batch > 1) {
    chain.loops.push_back({"b", batch});
    for (Access& tensor : chain.accesses) tensor.subscripts.insert(tensor.subscripts.begin(), sumOf({{4}}));
    for (Statement& member : chain.statements) member.loops.push_back(4);
  }
  return chain;
}

Chain convolutionChain(const ConvolutionChainShape& shape) {
  const int64_t h1 = (shape.height - shape.window1) / shape.stride1 + 1;
  const int64_t w1 = (shape.width - shape.window1) / shape.stride1 + 1;
  const int64_t h2 = (h1 - shape.window2) / shape.stride2 + 1, w2 = (w1 - shape.window2) / shape.stride2 + 1;
  enum { o, h, w, c, i, r, s, p, q };
  const int64_t st1 = shape.stride1, st2 = shape.stride2;
  return {.name = "convolution-chain",
          .loops = {{"o", shape.output_channels},
                    {"h", h2},
                    {"w", w2},
                    {"c", shape.middle_channels},
                    {"i", shape.input_channels},
                    {"r", shape.window2, 1, true},
                    {"s", shape.window2, 1, true},
                    {"p", shape.window1, 1, true},
                    {"q", shape.window1, 1, true}},
          .accesses = {{"X",
                        {sumOf({{i}}), sumOf({{h, st1 * st2}, {r, st1}, {p, 1}}),
                         sumOf({{w, st1 * st2}, {s, st1}, {q, 1}})}},
                       {"F", {sumOf({{c}}), sumOf({{i}}), sumOf({{p}}), sumOf({{q}})}},
                       {"Y", {sumOf({{c}}), sumOf({{h, st2}, {r, 1}}), sumOf({{w, st2}, {s, 1}})}},
                       {"G", {sumOf({{o}}), sumOf({{c}}), sumOf({{r}}), sumOf({{s}})}},
                       {"Z", {sumOf({{o}}), sumOf({{h}}), sumOf({{w}})}}},
          .statements = {productOf("conv1", {h, w, c, i, r, s, p, q}, {0, 1}, 2),
                         productOf("conv2", {o, h, w, c, r, s}, {2, 3}, 4)}};
}

}  // namespace tessera::compiler::fusion
