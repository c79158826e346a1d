#include "compiler/fusion/testing/thesis_chains.h"

namespace tessera::compiler::fusion {

Chain gemmChain(int64_t batch, int64_t m, int64_t n, int64_t k, int64_t l, int64_t min_tile) {
  Chain chain{"gemm-chain",
              {{"m", m, min_tile}, {"l", l, min_tile}, {"k", k, min_tile}, {"n", n, min_tile}},
              {{"A", {{{0}}, {{2}}}},
               {"B", {{{2}}, {{1}}}},
               {"C", {{{0}}, {{1}}}},
               {"D", {{{1}}, {{3}}}},
               {"E", {{{0}}, {{3}}}}},
              {{"gemm1", {0, 1, 2}, {0, 1}, 2}, {"gemm2", {0, 1, 3}, {2, 3}, 4}}};
  if (batch > 1) {
    chain.loops.push_back({"b", batch});
    for (Tensor& tensor : chain.tensors) tensor.subscripts.insert(tensor.subscripts.begin(), Subscript{{4}});
    for (Member& member : chain.members) member.loops.push_back(4);
  }
  return chain;
}

Chain convolutionChain(const ConvolutionChainShape& shape) {
  const int64_t h1 = (shape.height - shape.window1) / shape.stride1 + 1;
  const int64_t w1 = (shape.width - shape.window1) / shape.stride1 + 1;
  const int64_t h2 = (h1 - shape.window2) / shape.stride2 + 1, w2 = (w1 - shape.window2) / shape.stride2 + 1;
  enum { o, h, w, c, i, r, s, p, q };
  const int64_t st1 = shape.stride1, st2 = shape.stride2;
  return {"convolution-chain",
          {{"o", shape.output_channels},
           {"h", h2},
           {"w", w2},
           {"c", shape.middle_channels},
           {"i", shape.input_channels},
           {"r", shape.window2, 1, true},
           {"s", shape.window2, 1, true},
           {"p", shape.window1, 1, true},
           {"q", shape.window1, 1, true}},
          {{"X", {{{i}}, {{h, st1 * st2}, {r, st1}, {p, 1}}, {{w, st1 * st2}, {s, st1}, {q, 1}}}},
           {"F", {{{c}}, {{i}}, {{p}}, {{q}}}},
           {"Y", {{{c}}, {{h, st2}, {r, 1}}, {{w, st2}, {s, 1}}}},
           {"G", {{{o}}, {{c}}, {{r}}, {{s}}}},
           {"Z", {{{o}}, {{h}}, {{w}}}}},
          {{"conv1", {h, w, c, i, r, s, p, q}, {0, 1}, 2}, {"conv2", {o, h, w, c, r, s}, {2, 3}, 4}}};
}

}  // namespace tessera::compiler::fusion
