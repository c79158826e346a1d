// Linear estimators and support vectors of ai.onnx.ml: products with coefficients from attributes.
#include "absl/strings/str_cat.h"
#include "compiler/import/data_types.h"
#include "compiler/import/ops/machine_learning.h"
#include "compiler/import/ops/matmul.h"
#include "compiler/import/ops/statistics.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;
namespace math = mlir::math;

/// Returns x times the transposed matrix of `values` (rows x features) plus `offsets`, one per row of the matrix.
absl::StatusOr<Tensor> linear(Node& n, Emitter& e, const Tensor& x, const std::string& attribute,
                              const std::vector<double>& values, const std::vector<double>& offsets, int64_t rows) {
  const int64_t features = x.shape[1];
  // 128 bits: both factors come from a file.
  if (static_cast<__int128>(rows) * features != static_cast<__int128>(values.size())) {
    return differentCounts(n, attribute, values.size(), static_cast<size_t>(rows) * features);
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult({x.shape[0], rows}, x.dtype));
  // Features become the first dimension, so that the product reads its second operand in order.
  std::vector<double> columns(values.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < features; ++k) columns[k * rows + row] = values[row * features + k];
  }
  Tensor scores = product(e, x, Emitter::wrap(realConstant(x.dtype, {features, rows}, columns)), false, false);
  if (offsets.empty()) return scores;
  return e.elementwise(x.dtype, {scores, Emitter::wrap(realConstant(x.dtype, {rows}, offsets))},
                       [](const Scalars& s, ValueRange v) { return s.add(v[0], v[1]); });
}

Results lowerLinearRegressor(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const Tensor x, featureRows(n, e));
  TESSERA_ASSIGN_OR_RETURN(const int64_t targets, n.integer("targets", 1));
  if (targets < 1 || targets > INT32_MAX) {
    return n.invalid("no number of targets",
                     {.attribute = "targets", .found = absl::StrCat(targets), .accepted = "1 or more"});
  }
  TESSERA_ASSIGN_OR_RETURN(const auto coefficients, n.reals("coefficients"));
  TESSERA_ASSIGN_OR_RETURN(const auto intercepts, n.reals("intercepts", std::vector<double>{}));
  TESSERA_ASSIGN_OR_RETURN(const PostTransform transform, postTransform(n));
  if (!intercepts.empty() && static_cast<int64_t>(intercepts.size()) != targets) {
    return differentCounts(n, "intercepts", intercepts.size(), targets);
  }
  TESSERA_ASSIGN_OR_RETURN(Tensor scores, linear(n, e, x, "coefficients", coefficients, intercepts, targets));
  // As in ONNX Runtime, a single score is transformed only by probit.
  if (targets > 1 || transform == PostTransform::kProbit) scores = transformed(e, scores, transform);
  return {{e.cast(scores, kF32)}};
}

Results lowerLinearClassifier(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const Tensor x, featureRows(n, e));
  TESSERA_ASSIGN_OR_RETURN(const ClassLabels labels, classLabels(n, "classlabels_ints", "classlabels_strings"));
  TESSERA_ASSIGN_OR_RETURN(const auto coefficients, n.reals("coefficients"));
  TESSERA_ASSIGN_OR_RETURN(const auto intercepts, n.reals("intercepts"));
  TESSERA_ASSIGN_OR_RETURN(const PostTransform transform, postTransform(n));
  n.ignore("multi_class");  // describes the training
  const size_t scored = intercepts.size(), classes = labels.values.size();
  // Two classes may share one score, whose sign decides.
  if (scored != classes && !(scored == 1 && classes == 2)) return differentCounts(n, "intercepts", scored, classes);
  TESSERA_ASSIGN_OR_RETURN(const Tensor scores,
                           linear(n, e, x, "coefficients", coefficients, intercepts, static_cast<int64_t>(scored)));
  if (scored == classes) {
    return {{labelOf(e, labels, greatest(e, scores)), e.cast(transformed(e, scores, transform), kF32)}};
  }
  if (transform == PostTransform::kProbit) {
    return n.unsupported("probit of two classes with a single score",
                         {.attribute = "post_transform", .found = "PROBIT", .accepted = "NONE or LOGISTIC"});
  }
  const Tensor chosen =
      e.elementwise(v1::DATA_TYPE_BOOL, {e.reshape(scores, {x.shape[0]})},
                    [](const Scalars& s, ValueRange v) { return s.compare(Relation::kGreater, v[0], s.constant(0)); });
  return {{labelOf(e, labels, chosen), e.cast(scoresOfBoth(e, scores, true, transform), kF32)}};
}

/// Returns the kernel of each row of x with each support vector: rows x vectors.
absl::StatusOr<Tensor> kernels(Node& n, Emitter& e, const Tensor& x, int64_t vectors) {
  TESSERA_ASSIGN_OR_RETURN(const std::string kernel, n.text("kernel_type", "LINEAR"));
  TESSERA_ASSIGN_OR_RETURN(const auto parameters, n.reals("kernel_params", std::vector<double>{}));
  TESSERA_ASSIGN_OR_RETURN(const auto support, n.reals("support_vectors"));
  if (!parameters.empty() && parameters.size() != 3) {
    return differentCounts(n, "kernel_params", parameters.size(), 3);
  }
  const double gamma = parameters.empty() ? 0 : parameters[0], offset = parameters.empty() ? 0 : parameters[1];
  const double degree = parameters.empty() ? 0 : parameters[2];
  // All kernels but RBF start from the dot product.
  TESSERA_ASSIGN_OR_RETURN(Tensor dots, linear(n, e, x, "support_vectors", support, {}, vectors));
  if (kernel == "LINEAR") return dots;
  if (kernel == "RBF") {
    // x - v|^2 element by element: computed by products, the difference of close vectors would cancel.
    TESSERA_RETURN_IF_ERROR(n.checkResult({x.shape[0], vectors, x.shape[1]}, x.dtype));
    const Tensor table = Emitter::wrap(realConstant(x.dtype, {1, vectors, x.shape[1]}, support));
    const Tensor differences = e.elementwise(x.dtype, {e.reshape(x, {x.shape[0], 1, x.shape[1]}), table},
                                             [](const Scalars& s, ValueRange v) { return s.sub(v[0], v[1]); });
    const Tensor squares = reduceKeepingDims(e, differences, {2}, Reduction::kSumSquare);
    return e.elementwise(x.dtype, {e.reshape(squares, {x.shape[0], vectors})}, [&](const Scalars& s, ValueRange v) {
      return s.math<math::ExpOp>(s.mul(v[0], s.constant(-gamma)));
    });
  }
  if (kernel != "POLY" && kernel != "SIGMOID") {
    return n.invalid(absl::StrCat("no such kernel: '", kernel, "'"),
                     {.attribute = "kernel_type", .found = kernel, .accepted = "LINEAR, POLY, RBF or SIGMOID"});
  }
  return e.elementwise(x.dtype, {dots}, [&](const Scalars& s, ValueRange v) -> Value {
    const Value inner = s.add(s.mul(v[0], s.constant(gamma)), s.constant(offset));
    if (kernel == "SIGMOID") return s.math<math::TanhOp>(inner);
    return s.math<math::PowFOp>(inner, s.constant(degree));
  });
}

Results lowerSvmRegressor(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const Tensor x, featureRows(n, e));
  TESSERA_ASSIGN_OR_RETURN(const int64_t vectors, n.integer("n_supports"));
  TESSERA_ASSIGN_OR_RETURN(const auto coefficients, n.reals("coefficients"));
  TESSERA_ASSIGN_OR_RETURN(const auto rho, n.reals("rho"));
  TESSERA_ASSIGN_OR_RETURN(const bool one_class, n.flag("one_class", false));
  TESSERA_ASSIGN_OR_RETURN(const PostTransform transform, postTransform(n));
  if (vectors < 1 || static_cast<size_t>(vectors) != coefficients.size()) {
    return differentCounts(n, "coefficients", coefficients.size(), std::max<int64_t>(vectors, 1));
  }
  if (rho.size() != 1) return differentCounts(n, "rho", rho.size(), 1);
  TESSERA_ASSIGN_OR_RETURN(const Tensor kernel, kernels(n, e, x, vectors));
  TESSERA_ASSIGN_OR_RETURN(Tensor score, linear(n, e, kernel, "coefficients", coefficients, rho, 1));
  if (one_class) {
    score = e.elementwise(x.dtype, {score}, [](const Scalars& s, ValueRange v) {
      return s.select(s.compare(Relation::kGreater, v[0], s.constant(0)), s.constant(1), s.constant(-1));
    });
  } else if (transform == PostTransform::kProbit) {
    score = transformed(e, score, transform);
  }
  return {{e.cast(score, kF32)}};
}

}  // namespace

std::vector<Operator> estimatorOperators() {
  return ofRows({
      {"LinearClassifier", 1, 1, 1, lowerLinearClassifier, kFeatures},
      {"LinearRegressor", 1, 1, 1, lowerLinearRegressor, kFeatures},
      {"SVMRegressor", 1, 1, 1, lowerSvmRegressor, kFeatures},
  });
}

}  // namespace tessera::compiler
