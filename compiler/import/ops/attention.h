#pragma once

#include <cmath>
#include <functional>
#include <optional>

#include "compiler/import/bounded_dimensions.h"

/// Scaled dot product attention, shared by ONNX's and Microsoft's operators. Batch, queries and keys may be bounded
/// dimensions: rows beyond their extent have unspecified results, and keys beyond theirs are masked. B: batch, H: heads
/// of the query, G: heads of key and value (a divisor of H), S: queries, T: keys, D: head size.
namespace tessera::compiler {

struct AttentionOptions {
  double scale = 1, softcap = 0;
  v1::DataType precision = v1::DATA_TYPE_UNSPECIFIED;  ///< of the softmax; unspecified: the query's type
  std::optional<Tensor> bias = {};                     ///< added to the scores; broadcasts to B x H x S x T
  std::optional<Tensor> keep = {};                     ///< bool, same shape: false masks
  std::optional<Tensor> lengths = {};                  ///< i64, B: keys from there on are masked
  bool causal = false;                                 ///< a query sees keys up to its own position
  std::optional<int64_t> left = {}, right = {};        ///< distance from its own position that a query sees
  std::optional<Tensor> offset = {};                   ///< i64: position of the first query among the keys; none: 0
  bool offset_by_length = false;                       ///< the first query is at length - S instead, per batch
  bool keys_counted = false;                           ///< `lengths` already masks keys beyond their extent
  std::optional<Tensor> sink = {};  ///< an extra score for each row, without a value; broadcasts to B x H x S x 1
  using Change = std::function<absl::StatusOr<Tensor>(const Tensor&)>;
  Change change_scores = {}, change_weights = {};  ///< applied before and after the softmax, in its type; null:
                                                   ///< identity
  double disallowed = -INFINITY;                   ///< added to masked scores; a row of -infinity gives zeros
};

struct AttentionResult {
  Tensor y;                                ///< B x H x S x Dv
  Tensor scores, capped, masked, weights;  ///< B x H x S x T, after each step
};

/// q: B x H x S x D, k: B x G x T x D, v: B x G x T x Dv.
absl::StatusOr<AttentionResult> attend(Node& n, Emitter& e, const Tensor& q, const Tensor& k, const Tensor& v,
                                       const AttentionOptions& options);

/// Concatenates past keys or values (B x G x P x D, input `past`) and the new ones.
absl::StatusOr<Tensor> withPast(Node& n, Emitter& e, const Tensor& past, const Tensor& now);

/// Dimensions of an input that may be bounded.
struct BoundedDims {
  int input = 0;
  std::vector<int64_t> dims;
};
/// Returns UNSUPPORTED_OPERATOR about the first other bounded dimension; inputs that are not listed must have none.
absl::Status refuseOtherExtents(const Node& n, const std::vector<BoundedDims>& allowed);
/// Returns UNSUPPORTED_OPERATOR unless dimension `of_x` of x and `of_y` of y have the same extent in every run. `what`
/// names the dimensions in the error.
absl::Status requireSameExtent(const Node& n, const Tensor& x, int64_t of_x, const Tensor& y, int64_t of_y,
                               const char* what);
/// Returns the extents of a result whose dimension i is dimension from[i] of `x`, or -1 for one without an extent.
std::map<int64_t, mlir::Value> permuteExtents(const Tensor& x, const std::vector<int64_t>& from);

/// Reshapes B x S x (H D) to B x H x S x D and back.
Tensor splitHeads(Emitter& e, const Tensor& x, int64_t heads);
Tensor joinHeads(Emitter& e, const Tensor& x);

/// Checks that one of attention's dimensions divides another.
absl::Status checkHeads(Node& n, const char* what, int64_t size, int64_t heads);

}  // namespace tessera::compiler
