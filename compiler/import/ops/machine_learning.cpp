#include "compiler/import/ops/machine_learning.h"

#include <limits>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "compiler/import/data_types.h"
#include "compiler/import/ops/scalar_functions.h"
#include "compiler/import/ops/statistics.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;
namespace math = mlir::math;

/// sqrt(2) erfinv(2 p - 1), with the approximation of erfinv that ONNX's reference and ONNX Runtime use (Winitzki
/// 2008). Its error is 2e-3, so a more exact formula would differ from both.
Value probit(const Scalars& s, Value p) {
  const double a = 0.147;
  const Value x = s.sub(s.mul(s.constant(2), p), s.constant(1));
  const Value log = s.math<math::LogOp>(s.mul(s.sub(s.constant(1), x), s.add(s.constant(1), x)));
  const Value v = s.add(s.constant(2 / (std::numbers::pi * a)), s.mul(s.constant(0.5), log));
  const Value root = s.math<math::SqrtOp>(s.sub(s.mul(v, v), s.mul(s.constant(1 / a), log)));
  const Value magnitude = s.mul(s.constant(std::numbers::sqrt2), s.math<math::SqrtOp>(s.sub(root, v)));
  return s.select(s.compare(Relation::kLess, x, s.constant(0)), s.neg(magnitude), magnitude);
}

/// Softmax of each row. `keep_zeros`: scores close to 0 stay 0.
Tensor softmax(Emitter& e, const Tensor& x, bool keep_zeros) {
  const Tensor most = reduceKeepingDims(e, x, {1}, Reduction::kMax);
  const Tensor powers = e.elementwise(x.dtype, {x, most}, [&](const Scalars& s, ValueRange v) {
    const Value power = s.math<math::ExpOp>(s.sub(v[0], v[1]));
    if (!keep_zeros) return power;
    return s.select(s.compare(Relation::kGreater, s.abs(v[0]), s.constant(1e-7)), power, s.constant(0));
  });
  const Tensor sum = reduceKeepingDims(e, powers, {1}, Reduction::kSum);
  return e.elementwise(x.dtype, {powers, sum}, [](const Scalars& s, ValueRange v) { return s.div(v[0], v[1]); });
}

absl::Status rowExtents(Node& n, Emitter&, std::vector<Tensor>& results) {
  for (int i = 0; i < n.numInputs(); ++i) {
    for (const auto& [dim, extent] : n.in(i).extents) {
      if (dim != 0 || n.in(i).rank() < 2) return refuseExtent(n, i, dim, "an estimator needs all features of a row");
      const auto rows = n.in(0).extents.find(0);
      if (rows == n.in(0).extents.end() || !n.sameExtent(rows->second, extent)) {
        return refuseExtent(n, i, dim, "input 0 may have another number of rows");
      }
    }
  }
  for (Tensor& result : results) {
    result.extents.clear();
    if (const auto rows = n.in(0).extents.find(0); rows != n.in(0).extents.end()) result.extents[0] = rows->second;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status differentCounts(const Node& n, const std::string& attribute, size_t found, size_t wanted) {
  return n.invalid(absl::StrCat("attribute '", attribute, "' has ", found, " elements"),
                   {.attribute = attribute, .found = absl::StrCat(found), .accepted = absl::StrCat(wanted)});
}

absl::StatusOr<ClassLabels> classLabels(Node& n, const std::string& integers, const std::string& strings) {
  if (n.hasAttribute(strings)) {
    TESSERA_ASSIGN_OR_RETURN(const auto names, n.texts(strings));
    if (!names.empty()) {
      return n.unsupported("labels that are strings",
                           {.attribute = strings,
                            .found = absl::StrCat("'", names[0], "'"),
                            .accepted = absl::StrCat("integers (", integers, ")"),
                            .remedy = "train with integer labels, and look up their names in the client"});
    }
  }
  TESSERA_ASSIGN_OR_RETURN(auto values, n.integers(integers));
  if (values.empty()) return n.invalid("there are no classes", {.attribute = integers, .accepted = "1 label or more"});
  return ClassLabels{std::move(values)};
}

Tensor labelOf(Emitter& e, const ClassLabels& labels, const Tensor& chosen) {
  if (chosen.dtype == v1::DATA_TYPE_BOOL) {
    return e.elementwise(kI64, {chosen}, [&](const Scalars& s, ValueRange v) {
      return s.select(v[0], s.as(kI64).integer(labels.values[1]), s.as(kI64).integer(labels.values[0]));
    });
  }
  bool counted = true;
  for (size_t i = 0; i < labels.values.size(); ++i) counted &= labels.values[i] == static_cast<int64_t>(i);
  if (counted) return chosen;
  const Value table = e.value(Emitter::wrap(integerConstant(labels.values)));
  return e.elementwise(kI64, {chosen}, [&](const Scalars& s, ValueRange v) {
    const Value at = mlir::arith::IndexCastOp::create(s.b, s.loc, s.b.getIndexType(), v[0]);
    return e.extract(s, table, {at});
  });
}

Tensor greatest(Emitter& e, const Tensor& scores) { return argMax(e, scores, 1, /*maximum=*/true, /*last=*/false); }

absl::StatusOr<PostTransform> postTransform(Node& n) {
  TESSERA_ASSIGN_OR_RETURN(const std::string word, n.text("post_transform", "NONE"));
  constexpr std::pair<const char*, PostTransform> kWords[] = {{"NONE", PostTransform::kNone},
                                                              {"LOGISTIC", PostTransform::kLogistic},
                                                              {"SOFTMAX", PostTransform::kSoftmax},
                                                              {"SOFTMAX_ZERO", PostTransform::kSoftmaxZero},
                                                              {"PROBIT", PostTransform::kProbit}};
  for (const auto& [name, transform] : kWords) {
    if (word == name) return transform;
  }
  return n.invalid(
      absl::StrCat("no such transform: '", word, "'"),
      {.attribute = "post_transform", .found = word, .accepted = "NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or PROBIT"});
}

Tensor transformed(Emitter& e, const Tensor& scores, PostTransform transform) {
  switch (transform) {
    case PostTransform::kNone:
      return scores;
    case PostTransform::kLogistic:
      return e.elementwise(scores.dtype, {scores}, [](const Scalars& s, ValueRange v) { return logistic(s, v[0]); });
    case PostTransform::kProbit:
      return e.elementwise(scores.dtype, {scores}, [](const Scalars& s, ValueRange v) { return probit(s, v[0]); });
    case PostTransform::kSoftmax:
    case PostTransform::kSoftmaxZero:
      return softmax(e, scores, transform == PostTransform::kSoftmaxZero);
  }
  return scores;
}

Tensor scoresOfBoth(Emitter& e, const Tensor& second, bool probabilities, PostTransform transform) {
  const bool to_logistic = transform == PostTransform::kLogistic;
  const Tensor first = e.elementwise(second.dtype, {second}, [&](const Scalars& s, ValueRange v) {
    return probabilities && !to_logistic ? s.sub(s.constant(1), v[0]) : s.neg(v[0]);
  });
  const Tensor scores = e.concat({first, second}, 1);
  return to_logistic ? transformed(e, scores, transform) : scores;
}

absl::StatusOr<Tensor> featureRows(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 1, 2));
  const Tensor& given = n.in(0);
  if (given.elements() == 0) return n.unsupported("no rows or no features", {.found = shapeText(given.shape)});
  const Tensor x = e.cast(given, given.dtype == v1::DATA_TYPE_F64 ? given.dtype : v1::DATA_TYPE_F32);
  return x.rank() == 1 ? e.reshape(x, {1, x.shape[0]}) : x;
}

std::vector<Operator> ofRows(std::vector<Operator> operators) {
  for (Operator& op : operators) op.domain = kMachineLearning;
  return withExtents(rowExtents, std::move(operators));
}

}  // namespace tessera::compiler
