// Losses over class scores. Evaluation graphs contain them too, not only training graphs.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/import/ops/coordinates.h"
#include "compiler/import/ops/statistics.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;

enum class LossReduction { kNone, kMean, kSum };

struct LossOptions {
  LossReduction reduction = LossReduction::kMean;
  std::optional<int64_t> ignored;  ///< the target with weight 0
};

absl::StatusOr<LossOptions> readOptions(Node& n) {
  LossOptions options;
  TESSERA_ASSIGN_OR_RETURN(const std::string reduction, n.text("reduction", "mean"));
  if (reduction == "none") {
    options.reduction = LossReduction::kNone;
  } else if (reduction == "sum") {
    options.reduction = LossReduction::kSum;
  } else if (reduction != "mean") {
    return n.invalid("unknown reduction",
                     {.attribute = "reduction", .found = reduction, .accepted = "none, mean, sum"});
  }
  if (n.hasAttribute("ignore_index")) {
    TESSERA_ASSIGN_OR_RETURN(options.ignored, n.integer("ignore_index"));
  }
  return options;
}

/// Checks scores N x C x d..., targets N x d..., weights C.
absl::Status checkOperands(const Node& n) {
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 2));
  const Shape& scores = n.in(0).shape;
  Shape expected = scores;
  expected.erase(expected.begin() + 1);
  const Tensor& target = n.in(1);
  if (target.shape != expected) {
    return n.invalid("the targets do not fit the scores",
                     {.attribute = "input 1", .found = shapeText(target.shape), .accepted = shapeText(expected)});
  }
  if (target.dtype != v1::DATA_TYPE_I32 && target.dtype != v1::DATA_TYPE_I64) {
    return n.invalid("the targets are not classes",
                     {.attribute = "input 1", .found = typeName(target.dtype), .accepted = "i32, i64"});
  }
  if (scores[1] == 0) {
    return n.invalid("there are no classes",
                     {.attribute = "input 0", .found = shapeText(scores), .accepted = "at least one class"});
  }
  if (!n.has(2)) return absl::OkStatus();
  if (n.in(2).shape != Shape{scores[1]} || n.in(2).dtype != n.in(0).dtype) {
    return n.invalid("the class weights do not fit",
                     {.attribute = "input 2",
                      .found = absl::StrCat(typeName(n.in(2).dtype), " ", shapeText(n.in(2).shape)),
                      .accepted = absl::StrCat(typeName(n.in(0).dtype), " ", scores[1])});
  }
  return absl::OkStatus();
}

/// Returns the weight of each target (its class's, or 1; 0 if ignored), in the targets' shape.
Tensor targetWeights(Emitter& e, const Tensor& target, const Tensor* weights, int64_t classes, v1::DataType dtype,
                     std::optional<int64_t> ignored) {
  Value table = weights ? e.value(*weights) : Value();
  return e.elementwise(dtype, {target}, [&](const Scalars& s, ValueRange v) -> Value {
    const Scalars wide = s.as(v1::DATA_TYPE_I64), real = s.as(dtype);
    Value at = s.cast(v[0], v1::DATA_TYPE_I64);
    Value weight = table ? e.extract(s, table, {clampedCoordinate(s, at, classes)}) : real.constant(1);
    if (!ignored) return weight;
    return real.select(wide.compare(Relation::kEqual, at, wide.integer(*ignored)), real.constant(0), weight);
  });
}

/// Returns -scores[n, target[n, d...], d...] * weight, reduced. A target outside the classes reads the nearest one.
Tensor negativeLogLikelihood(Emitter& e, const Tensor& scores, const Tensor& target, const Tensor* weights,
                             const LossOptions& options) {
  const int64_t classes = scores.shape[1];
  const bool weighted = weights || options.ignored;
  Value source = e.value(scores);
  Tensor picked = e.elementwise(scores.dtype, {target}, [&](const Scalars& s, ValueRange v) {
    llvm::SmallVector<Value> from;
    for (unsigned d = 0; d < target.shape.size(); ++d) {
      from.push_back(mlir::linalg::IndexOp::create(s.b, s.loc, d));
    }
    from.insert(from.begin() + 1, clampedCoordinate(s, s.cast(v[0], v1::DATA_TYPE_I64), classes));
    return s.as(scores.dtype).neg(e.extract(s, source, from));
  });
  Tensor loss = picked, weight;
  if (weighted) {
    weight = targetWeights(e, target, weights, classes, scores.dtype, options.ignored);
    // An ignored score may be infinite; with weight 0 it must give 0, not NaN.
    loss = e.elementwise(scores.dtype, {picked, weight}, [](const Scalars& s, ValueRange v) {
      Value none = s.compare(Relation::kEqual, v[1], s.constant(0));
      return s.select(none, s.constant(0), s.mul(v[0], v[1]));
    });
  }
  if (options.reduction == LossReduction::kNone) return loss;
  std::vector<int64_t> dims(target.rank());
  std::iota(dims.begin(), dims.end(), 0);
  const bool mean = options.reduction == LossReduction::kMean;
  Tensor sum = reduceKeepingDims(e, loss, dims, mean && !weighted ? Reduction::kMean : Reduction::kSum);
  if (mean && weighted) {
    Tensor total = reduceKeepingDims(e, weight, dims, Reduction::kSum);
    sum = e.elementwise(sum.dtype, {sum, total}, [](const Scalars& s, ValueRange v) { return s.div(v[0], v[1]); });
  }
  return e.reshape(sum, {});
}

Results lowerNegativeLogLikelihoodLoss(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const LossOptions options, readOptions(n));
  TESSERA_RETURN_IF_ERROR(checkOperands(n));
  return {{negativeLogLikelihood(e, n.in(0), n.in(1), n.has(2) ? &n.in(2) : nullptr, options)}};
}

Results lowerSoftmaxCrossEntropyLoss(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const LossOptions options, readOptions(n));
  TESSERA_RETURN_IF_ERROR(checkOperands(n));
  Tensor logs = logSoftmax(e, n.in(0), {1});
  Tensor loss = negativeLogLikelihood(e, logs, n.in(1), n.has(2) ? &n.in(2) : nullptr, options);
  return {{std::move(loss), std::move(logs)}};
}

}  // namespace

std::vector<Operator> lossOperators() {
  return {
      {"NegativeLogLikelihoodLoss", 12, 2, 3, lowerNegativeLogLikelihoodLoss, kFloats},
      {"SoftmaxCrossEntropyLoss", 12, 2, 3, lowerSoftmaxCrossEntropyLoss, kFloats},
  };
}

}  // namespace tessera::compiler
