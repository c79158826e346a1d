// Operators that ONNX Runtime's optimizer fuses: a product or convolution with the operators after it.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/convolution.h"
#include "compiler/import/ops/matmul.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;
namespace math = mlir::math;

Tensor lastTwoExchanged(Emitter& e, const Tensor& x) {
  std::vector<int64_t> order(x.rank());
  for (int64_t d = 0; d < x.rank(); ++d) order[d] = d;
  std::swap(order[x.rank() - 1], order[x.rank() - 2]);
  return e.transpose(x, order);
}

/// Moves the first dimension before the last, the layout of a batch of columns.
Tensor batchMoved(Emitter& e, const Tensor& x) {
  std::vector<int64_t> order;
  for (int64_t d = 1; d + 1 < x.rank(); ++d) order.push_back(d);
  order.push_back(0);
  order.push_back(x.rank() - 1);
  return e.transpose(x, order);
}

/// Computes alpha * A' B'. ' exchanges the last two dimensions, or first rotates the dimensions before the last.
Results lowerFusedMatMul(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const double alpha, n.real("alpha", 1.0));
  std::vector<Tensor> factors;
  for (int i : {0, 1}) {
    const char side = i == 0 ? 'A' : 'B';
    TESSERA_ASSIGN_OR_RETURN(const bool exchanged, n.flag(absl::StrCat("trans", std::string(1, side)), false));
    TESSERA_ASSIGN_OR_RETURN(const bool batch, n.flag(absl::StrCat("transBatch", std::string(1, side)), false));
    Tensor x = n.in(i);
    if (batch) TESSERA_RETURN_IF_ERROR(n.requireRank(i, 3));
    if (batch) x = batchMoved(e, x);
    if (exchanged && x.rank() > 1) x = lastTwoExchanged(e, x);
    factors.push_back(std::move(x));
  }
  TESSERA_ASSIGN_OR_RETURN(Tensor product, matmul(n, e, factors[0], factors[1]));
  if (alpha == 1) return {{std::move(product)}};
  return {{e.elementwise(product.dtype, {product},
                         [alpha](const Scalars& s, ValueRange v) { return s.mul(v[0], s.constant(alpha)); })}};
}

using Function = Value (*)(const Scalars& s, Value x, double alpha, double beta);

struct NamedFunction {
  const char* name;
  double alpha, beta;  ///< defaults
  Function function;
};

const NamedFunction kFunctions[] = {
    {"", 0, 0, [](const Scalars&, Value x, double, double) { return x; }},
    {"Relu", 0, 0, [](const Scalars& s, Value x, double, double) { return s.max(x, s.constant(0)); }},
    {"Tanh", 0, 0, [](const Scalars& s, Value x, double, double) { return s.math<math::TanhOp>(x); }},
    {"Sigmoid", 0, 0,
     [](const Scalars& s, Value x, double, double) {
       return s.div(s.constant(1), s.add(s.constant(1), s.math<math::ExpOp>(s.neg(x))));
     }},
    {"LeakyRelu", 0.01, 0,
     [](const Scalars& s, Value x, double alpha, double) {
       return s.select(s.compare(Relation::kLess, x, s.constant(0)), s.mul(x, s.constant(alpha)), x);
     }},
    {"Clip", -INFINITY, INFINITY,
     [](const Scalars& s, Value x, double low, double high) {
       return s.min(s.max(x, s.constant(low)), s.constant(high));
     }},
    {"HardSigmoid", 0.2, 0.5,
     [](const Scalars& s, Value x, double alpha, double beta) {
       Value line = s.fma(x, s.constant(alpha), s.constant(beta));
       return s.min(s.max(line, s.constant(0)), s.constant(1));
     }},
};

/// Applies the attributes `activation` and `activation_params` to x (plus an addend).
Results activated(Node& n, Emitter& e, std::vector<Tensor> operands) {
  TESSERA_ASSIGN_OR_RETURN(const std::string name, n.text("activation", ""));
  TESSERA_ASSIGN_OR_RETURN(auto parameters, n.reals("activation_params", std::vector<double>{}));
  TESSERA_ASSIGN_OR_RETURN(const double alpha, n.real("activation_alpha", 0.0));
  TESSERA_ASSIGN_OR_RETURN(const double beta, n.real("activation_beta", 0.0));
  if (n.hasAttribute("activation_alpha")) parameters = {alpha, beta};
  for (const NamedFunction& f : kFunctions) {
    if (name != f.name) continue;
    parameters.push_back(f.alpha);
    if (parameters.size() < 2) parameters.push_back(f.beta);
    return {{e.elementwise(operands[0].dtype, operands, [&](const Scalars& s, ValueRange v) {
      return f.function(s, v.size() == 2 ? s.add(v[0], v[1]) : v[0], parameters[0], parameters[1]);
    })}};
  }
  return n.unsupported(
      "the activation",
      {.attribute = "activation", .found = name, .accepted = "Relu, Tanh, Sigmoid, LeakyRelu, Clip, HardSigmoid"});
}

/// activation(convolution + bias + Z)
Results lowerFusedConv(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const Tensor product, convolution(n, e, n.in(0), n.in(1)));
  TESSERA_ASSIGN_OR_RETURN(const Tensor sum, addBias(n, e, product, 2));
  std::vector<Tensor> operands = {sum};
  if (n.has(3)) operands.push_back(n.in(3));
  if (n.has(3) && n.in(3).shape != sum.shape) {
    return n.invalid("Z does not fit",
                     {.attribute = "Z", .found = shapeText(n.in(3).shape), .accepted = shapeText(sum.shape)});
  }
  return activated(n, e, std::move(operands));
}

/// activation(alpha * A' B' + beta * C)
Results lowerFusedGemm(Node& n, Emitter& e) {
  n.ignore("activation_gamma");
  TESSERA_ASSIGN_OR_RETURN(std::vector<Tensor> product, lowerGemm(n, e));
  return activated(n, e, std::move(product));
}

}  // namespace

std::vector<Operator> microsoftOperators() {
  return {
      {"FusedGemm", 1, 2, 3, lowerFusedGemm, kFloats, 3, INT_MAX, kMicrosoft},
      {"FusedMatMul", 1, 2, 2, lowerFusedMatMul, kFloats, 2, INT_MAX, kMicrosoft},
      {"TransposeMatMul", 1, 2, 2, lowerFusedMatMul, kFloats, 2, INT_MAX, kMicrosoft},
      {"FusedConv", 1, 2, 4, lowerFusedConv, kFloats, 4, INT_MAX, kMicrosoft},
  };
}

}  // namespace tessera::compiler
