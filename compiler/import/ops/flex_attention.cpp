// FlexAttention of the domain ai.onnx.preview: attention whose scores, and whose weights after the softmax, a subgraph
// may modify.
#include "absl/strings/str_cat.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/attention.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

/// Returns the subgraph of an attribute as a function of one tensor, whose result has the same shape and type; null if
/// absent.
absl::StatusOr<AttentionOptions::Change> readChange(Node& n, const char* attribute) {
  if (!n.hasAttribute(attribute)) return AttentionOptions::Change();
  TESSERA_ASSIGN_OR_RETURN(const onnx::GraphProto* body, n.graph(attribute));
  return AttentionOptions::Change([&n, body, attribute](const Tensor& x) -> absl::StatusOr<Tensor> {
    TESSERA_ASSIGN_OR_RETURN(std::vector<Tensor> results, n.inlineGraph(*body, {x}));
    const bool fits = results.size() == 1 && !results[0].sequence && results[0].dtype == x.dtype &&
                      results[0].shape == x.shape && !isBounded(results[0]);
    if (fits) return results[0];
    const std::string found = results.empty()
                                  ? "nothing"
                                  : absl::StrCat(results.size(), " results, the first ", typeName(results[0].dtype),
                                                 " ", shapeText(results[0].shape));
    return n.invalid(absl::StrCat("the result of '", attribute, "' is not of its input's shape and type"),
                     {.attribute = attribute,
                      .found = found,
                      .accepted = absl::StrCat("one result, ", typeName(x.dtype), " ", shapeText(x.shape))});
  });
}

Results lowerFlexAttention(Node& n, Emitter& e) {
  for (int i = 0; i < 3; ++i) TESSERA_RETURN_IF_ERROR(n.requireRank(i, 4, 4));
  const Tensor& q = n.in(0);
  AttentionOptions o;
  TESSERA_ASSIGN_OR_RETURN(o.scale,
                           n.real("scale", 1 / std::sqrt(static_cast<double>(std::max<int64_t>(q.shape[3], 1)))));
  const v1::DataType precision = q.dtype == v1::DATA_TYPE_F64 ? q.dtype : v1::DATA_TYPE_F32;
  TESSERA_ASSIGN_OR_RETURN(o.precision, n.dataType("softmax_precision", precision));
  if (!isFloat(o.precision)) {
    return n.invalid(
        "the softmax is not of floating point",
        {.attribute = "softmax_precision", .found = typeName(o.precision), .accepted = "a floating-point type"});
  }
  TESSERA_ASSIGN_OR_RETURN(o.change_scores, readChange(n, "score_mod"));
  TESSERA_ASSIGN_OR_RETURN(o.change_weights, readChange(n, "prob_mod"));
  TESSERA_ASSIGN_OR_RETURN(AttentionResult result, attend(n, e, q, n.in(1), n.in(2), o));
  return {{std::move(result.y)}};
}

}  // namespace

std::vector<Operator> flexAttentionOperators() {
  return {
      {"FlexAttention", 1, 3, 3, lowerFlexAttention, kFloats, 3, INT_MAX, "ai.onnx.preview"},
  };
}

}  // namespace tessera::compiler
