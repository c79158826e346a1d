#pragma once

#include <cmath>
#include <optional>

#include "compiler/import/node.h"

/// Scaled dot product attention, shared by ONNX's and Microsoft's operators.
/// B: batch, H: heads of the query, G: heads of key and value (a divisor of H), S: queries, T: keys, D: head size.
namespace tessera::compiler {

struct AttentionOptions {
  double scale = 1, softcap = 0;
  v1::DataType precision = v1::DATA_TYPE_UNSPECIFIED;  ///< of the softmax; none: the query's
  std::optional<Tensor> bias = {};                     ///< added to the scores; broadcasts to B x H x S x T
  std::optional<Tensor> keep = {};                     ///< bool, likewise: false disallows
  std::optional<Tensor> lengths = {};                  ///< i64, B: keys from there on are disallowed
  bool causal = false;                                 ///< a query sees keys up to its own position
  std::optional<int64_t> left = {}, right = {};        ///< how far from its own position a query sees
  int64_t offset = 0;                                  ///< position of the first query among the keys
  bool offset_by_length = false;                       ///< it is the length less S instead, of each batch
  std::optional<Tensor> sink = {};  ///< a score more for each row, of no value; broadcasts to B x H x S x 1
  double disallowed = -INFINITY;    ///< added to a score that is; a row of nothing but -infinity gives zeros
};

struct AttentionResult {
  Tensor y;                                ///< B x H x S x Dv
  Tensor scores, capped, masked, weights;  ///< B x H x S x T, after each step
};

/// q: B x H x S x D, k: B x G x T x D, v: B x G x T x Dv.
absl::StatusOr<AttentionResult> attend(Node& n, Emitter& e, const Tensor& q, const Tensor& k, const Tensor& v,
                                       const AttentionOptions& options);

/// B x S x (H D) to B x H x S x D and back.
Tensor splitHeads(Emitter& e, const Tensor& x, int64_t heads);
Tensor joinHeads(Emitter& e, const Tensor& x);

/// One of attention's dimensions must divide another.
absl::Status checkHeads(Node& n, const char* what, int64_t size, int64_t heads);

}  // namespace tessera::compiler
