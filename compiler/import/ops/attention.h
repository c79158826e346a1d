#pragma once

#include <cmath>
#include <functional>
#include <optional>

#include "compiler/import/bounded.h"

/// Scaled dot product attention, shared by ONNX's and Microsoft's operators.
/// Batch, queries and keys may have extents: rows beyond them are computed and mean nothing, keys beyond theirs are
/// disallowed.
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
  std::optional<Tensor> offset = {};                   ///< i64: position of the first query among the keys; none: 0
  bool offset_by_length = false;                       ///< it is the length less S instead, of each batch
  bool keys_counted = false;                           ///< `lengths` disallows what is beyond the extent of the keys
  std::optional<Tensor> sink = {};  ///< a score more for each row, of no value; broadcasts to B x H x S x 1
  using Change = std::function<absl::StatusOr<Tensor>(const Tensor&)>;
  Change change_scores = {}, change_weights = {};  ///< before and after the softmax, in its type; none: nothing changes
  double disallowed = -INFINITY;  ///< added to a score that is; a row of nothing but -infinity gives zeros
};

struct AttentionResult {
  Tensor y;                                ///< B x H x S x Dv
  Tensor scores, capped, masked, weights;  ///< B x H x S x T, after each step
};

/// q: B x H x S x D, k: B x G x T x D, v: B x G x T x Dv.
absl::StatusOr<AttentionResult> attend(Node& n, Emitter& e, const Tensor& q, const Tensor& k, const Tensor& v,
                                       const AttentionOptions& options);

/// What is kept of steps before: past keys or values (B x G x P x D, input `past`), in front of the new ones.
absl::StatusOr<Tensor> withPast(Node& n, Emitter& e, const Tensor& past, const Tensor& now);

/// Dimensions of an input that may have an extent.
struct LiveDims {
  int input = 0;
  std::vector<int64_t> dims;
};
/// UNSUPPORTED_OPERATOR about the first other one that has; inputs that are not listed have none.
absl::Status refuseOtherExtents(const Node& n, const std::vector<LiveDims>& allowed);
/// UNSUPPORTED_OPERATOR unless dimension `of_x` of x and `of_y` of y have the same extent in every run. `what`: what
/// they are.
absl::Status requireSameExtent(const Node& n, const Tensor& x, int64_t of_x, const Tensor& y, int64_t of_y,
                               const char* what);
/// The extents of `x`, of dimension from[i] for dimension i of a result; -1 for one that has none.
std::map<int64_t, mlir::Value> movedExtents(const Tensor& x, const std::vector<int64_t>& from);

/// B x S x (H D) to B x H x S x D and back.
Tensor splitHeads(Emitter& e, const Tensor& x, int64_t heads);
Tensor joinHeads(Emitter& e, const Tensor& x);

/// One of attention's dimensions must divide another.
absl::Status checkHeads(Node& n, const char* what, int64_t size, int64_t heads);

}  // namespace tessera::compiler
