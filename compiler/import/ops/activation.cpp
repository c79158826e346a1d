// Activation functions.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/import/ops/elementwise.h"
#include "compiler/import/ops/scalar_functions.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;
namespace math = mlir::math;

Value expMinusOne(const Scalars& s, Value x) { return s.math<math::ExpM1Op>(x); }

/// Lowers an operator with one attribute `alpha` and a body of (s, x, alpha).
template <auto kBody, double kDefault>
Results withAlpha(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const double alpha, n.real("alpha", kDefault));
  return {{e.elementwise(n.in(0).dtype, {n.in(0)},
                         [alpha](const Scalars& s, ValueRange v) { return kBody(s, v[0], s.constant(alpha)); })}};
}

Results lowerRelu(Node& n, Emitter& e) {
  return unary<[](const Scalars& s, ValueRange v) { return atLeast(s, v[0], s.constant(0)); }>(n, e);
}

Results lowerClip(Node& n, Emitter& e) {
  std::vector<Tensor> operands = {n.in(0)};
  std::optional<double> lo, hi;
  if (n.opset() < 11) {
    if (n.hasAttribute("min")) {
      TESSERA_ASSIGN_OR_RETURN(lo, n.real("min"));
    }
    if (n.hasAttribute("max")) {
      TESSERA_ASSIGN_OR_RETURN(hi, n.real("max"));
    }
    return {{e.elementwise(n.in(0).dtype, operands, [&](const Scalars& s, ValueRange v) {
      Value x = v[0];
      if (lo) x = atLeast(s, x, s.constant(*lo));
      if (hi) x = atMost(s, x, s.constant(*hi));
      return x;
    })}};
  }
  for (int i : {1, 2}) {
    if (!n.has(i)) continue;
    if (n.in(i).elements() != 1) {
      return n.invalid(
          "a bound is not a scalar",
          {.attribute = i == 1 ? "min" : "max", .found = shapeText(n.in(i).shape), .accepted = "one element"});
    }
    operands.push_back(e.reshape(n.in(i), {}));
  }
  return {{e.elementwise(n.in(0).dtype, operands, [&](const Scalars& s, ValueRange v) {
    Value x = v[0];
    if (n.has(1)) x = atLeast(s, x, v[1]);
    if (n.has(2)) x = atMost(s, x, v.back());
    return x;
  })}};
}

Results lowerPRelu(Node& n, Emitter& e) {
  std::vector<Tensor> operands = {n.in(0), n.in(1)};
  // Versions up to 6: one slope per channel, whatever the rank.
  if (n.opset() < 7 && n.in(1).rank() == 1 && n.in(0).rank() > 1 && n.in(1).elements() != 1) {
    Shape shape(n.in(0).rank() - 1, 1);
    shape[0] = n.in(1).shape[0];
    operands[1] = e.reshape(n.in(1), std::move(shape));
  }
  auto shape = broadcastShape(operands[0].shape, operands[1].shape);
  if (!shape || *shape != operands[0].shape) {
    return n.invalid("the slope does not broadcast to the input",
                     {.attribute = "slope", .found = shapeText(n.in(1).shape), .accepted = shapeText(n.in(0).shape)});
  }
  return {{e.elementwise(n.in(0).dtype, operands, [](const Scalars& s, ValueRange v) {
    return s.select(s.compare(Relation::kLess, v[0], s.constant(0)), s.mul(v[0], v[1]), v[0]);
  })}};
}

Results lowerHardSigmoid(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const double alpha, n.real("alpha", 0.2));
  TESSERA_ASSIGN_OR_RETURN(const double beta, n.real("beta", 0.5));
  return {{e.elementwise(n.in(0).dtype, {n.in(0)}, [=](const Scalars& s, ValueRange v) {
    Value line = s.fma(v[0], s.constant(alpha), s.constant(beta));
    return atMost(s, atLeast(s, line, s.constant(0)), s.constant(1));
  })}};
}

Value hardSwish(const Scalars& s, ValueRange v) {
  Value line = s.fma(v[0], s.constant(1.0 / 6), s.constant(0.5));
  return s.mul(v[0], atMost(s, atLeast(s, line, s.constant(0)), s.constant(1)));
}

Results lowerSelu(Node& n, Emitter& e) {
  const bool old = n.opset() < 6;
  TESSERA_ASSIGN_OR_RETURN(const double alpha, n.real("alpha", old ? 1.6732 : 1.67326319217681884765625));
  TESSERA_ASSIGN_OR_RETURN(const double gamma, n.real("gamma", old ? 1.0507 : 1.05070102214813232421875));
  return {{e.elementwise(n.in(0).dtype, {n.in(0)}, [=](const Scalars& s, ValueRange v) {
    Value below = s.mul(s.constant(alpha), expMinusOne(s, v[0]));
    Value x = s.select(s.compare(Relation::kLessOrEqual, v[0], s.constant(0)), below, v[0]);
    return s.mul(s.constant(gamma), x);
  })}};
}

/// log(1 + exp(x)) without overflow: max(x, 0) + log1p(exp(-|x|)).
Value softplus(const Scalars& s, Value x) {
  Value tail = s.math<math::Log1pOp>(s.math<math::ExpOp>(s.neg(s.abs(x))));
  return s.add(s.max(x, s.constant(0)), tail);
}

/// alpha * x + beta
Results lowerAffine(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const double alpha, n.real("alpha", 1));
  TESSERA_ASSIGN_OR_RETURN(const double beta, n.real("beta", 0));
  return {{e.elementwise(n.in(0).dtype, {n.in(0)}, [=](const Scalars& s, ValueRange v) {
    return s.add(s.mul(v[0], s.constant(alpha)), s.constant(beta));
  })}};
}

Results lowerScale(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const double scale, n.real("scale", 1));
  return {{e.elementwise(n.in(0).dtype, {n.in(0)},
                         [=](const Scalars& s, ValueRange v) { return s.mul(v[0], s.constant(scale)); })}};
}

/// scale * x + bias, one for each channel
Results lowerImageScaler(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 4, 4));
  TESSERA_ASSIGN_OR_RETURN(const double scale, n.real("scale", 1));
  TESSERA_ASSIGN_OR_RETURN(const std::vector<double> bias, n.reals("bias"));
  if (static_cast<int64_t>(bias.size()) != x.shape[1]) {
    return n.invalid("there is not one bias for each channel",
                     {.attribute = "bias", .found = absl::StrCat(bias.size()), .accepted = absl::StrCat(x.shape[1])});
  }
  const std::vector<float> values(bias.begin(), bias.end());
  std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  const Tensor of_channels =
      e.cast(Emitter::wrap(makeConstant(v1::DATA_TYPE_F32, {x.shape[1], 1, 1}, std::move(bytes))), x.dtype);
  return {{e.elementwise(x.dtype, {x, of_channels},
                         [=](const Scalars& s, ValueRange v) { return s.add(s.mul(v[0], s.constant(scale)), v[1]); })}};
}

/// ONNX Runtime requires both attributes.
Results lowerScaledTanh(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const double alpha, n.real("alpha"));
  TESSERA_ASSIGN_OR_RETURN(const double beta, n.real("beta"));
  return {{e.elementwise(n.in(0).dtype, {n.in(0)}, [=](const Scalars& s, ValueRange v) {
    return s.mul(s.constant(alpha), s.math<math::TanhOp>(s.mul(v[0], s.constant(beta))));
  })}};
}

Results lowerParametricSoftplus(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const double alpha, n.real("alpha"));
  TESSERA_ASSIGN_OR_RETURN(const double beta, n.real("beta"));
  return {{e.elementwise(n.in(0).dtype, {n.in(0)}, [=](const Scalars& s, ValueRange v) {
    return s.mul(s.constant(alpha), softplus(s, s.mul(v[0], s.constant(beta))));
  })}};
}

Results lowerShrink(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const double lambd, n.real("lambd", 0.5));
  TESSERA_ASSIGN_OR_RETURN(const double bias, n.real("bias", 0.0));
  const v1::DataType dtype = n.in(0).dtype;
  // Integers are clamped in f64: the bounds may be fractions, and comparing an unsigned number with a negative one must
  // work.
  const v1::DataType wide = isFloat(dtype) ? dtype : v1::DATA_TYPE_F64;
  return {{e.elementwise(dtype, {n.in(0)}, [=](const Scalars& scalars, ValueRange v) {
    const Scalars s = scalars.as(wide);
    Value x = scalars.cast(v[0], wide);
    Value high =
        s.select(s.compare(Relation::kGreater, x, s.constant(lambd)), s.sub(x, s.constant(bias)), s.constant(0));
    return s.cast(s.select(s.compare(Relation::kLess, x, s.constant(-lambd)), s.add(x, s.constant(bias)), high), dtype);
  })}};
}

Value gelu(const Scalars& s, Value x, bool exact) {
  Value bend;
  if (exact) {
    bend = s.math<math::ErfOp>(s.mul(x, s.constant(std::sqrt(0.5))));
  } else {
    Value cube = s.mul(s.mul(x, x), x);
    Value inner = s.fma(cube, s.constant(0.044715), x);
    bend = s.math<math::TanhOp>(s.mul(inner, s.constant(std::sqrt(2 / M_PI))));
  }
  return s.mul(s.mul(x, s.constant(0.5)), s.add(bend, s.constant(1)));
}

Results lowerGelu(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const std::string approximate, n.text("approximate", "none"));
  if (approximate != "none" && approximate != "tanh") {
    return n.invalid("unknown approximation",
                     {.attribute = "approximate", .found = approximate, .accepted = "none, tanh"});
  }
  const bool exact = approximate == "none";
  return {{e.elementwise(n.in(0).dtype, {n.in(0)},
                         [exact](const Scalars& s, ValueRange v) { return gelu(s, v[0], exact); })}};
}

Value elu(const Scalars& s, Value x, Value alpha) {
  return s.select(s.compare(Relation::kLess, x, s.constant(0)), s.mul(alpha, expMinusOne(s, x)), x);
}

/// max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
Value celu(const Scalars& s, Value x, Value alpha) {
  Value below = s.mul(alpha, expMinusOne(s, s.div(x, alpha)));
  return s.add(s.max(x, s.constant(0)), s.min(below, s.constant(0)));
}

Value leakyRelu(const Scalars& s, Value x, Value alpha) {
  return s.select(s.compare(Relation::kLess, x, s.constant(0)), s.mul(x, alpha), x);
}

Value thresholdedRelu(const Scalars& s, Value x, Value alpha) {
  return s.select(s.compare(Relation::kGreater, x, alpha), x, s.constant(0));
}

/// x * sigmoid(alpha * x)
Value swish(const Scalars& s, Value x, Value alpha) { return s.mul(x, logistic(s, s.mul(x, alpha))); }

/// Microsoft's operator: the tanh form, after an optional bias.
Results lowerFastGelu(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(n.broadcastAll().status());
  return {{e.elementwise(n.in(0).dtype, n.inputs(), [](const Scalars& s, ValueRange v) {
    return gelu(s, v.size() == 2 ? s.add(v[0], v[1]) : v[0], /*exact=*/false);
  })}};
}

Results lowerBiasGelu(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const auto operands, binaryOperands(n, e));
  return {{e.elementwise(n.in(0).dtype, operands,
                         [](const Scalars& s, ValueRange v) { return gelu(s, s.add(v[0], v[1]), /*exact=*/true); })}};
}

}  // namespace

std::vector<Operator> activationOperators() {
  return withExtents(
      broadcastExtents,
      {
          {"Relu", 1, 1, 1, lowerRelu, kNumbers},
          {"LeakyRelu", 1, 1, 1, withAlpha<leakyRelu, 0.01>, kFloats},
          {"ThresholdedRelu", 1, 1, 1, withAlpha<thresholdedRelu, 1.0>, kFloats},
          // In no released operator set, but written by converters of CoreML and Windows ML.
          {"Affine", 1, 1, 1, lowerAffine, kFloats},
          {"Scale", 1, 1, 1, lowerScale, kFloats},
          {"ImageScaler", 1, 1, 1, lowerImageScaler, kFloats},
          {"ScaledTanh", 1, 1, 1, lowerScaledTanh, kFloats},
          {"ParametricSoftplus", 1, 1, 1, lowerParametricSoftplus, kFloats},
          {"Elu", 1, 1, 1, withAlpha<elu, 1.0>, kFloats},
          {"Celu", 12, 1, 1, withAlpha<celu, 1.0>, kFloats},
          {"Selu", 1, 1, 1, lowerSelu, kFloats},
          {"PRelu", 1, 2, 2, lowerPRelu, kNumbers, 2},
          {"Clip", 1, 1, 3, lowerClip, kNumbers, 3},
          {"Sigmoid", 1, 1, 1,
           [](Node& n, Emitter& e) {
             return unary<[](const Scalars& s, ValueRange v) { return logistic(s, v[0]); }>(n, e);
           },
           kFloats},
          {"Tanh", 1, 1, 1,
           [](Node& n, Emitter& e) {
             return unary<[](const Scalars& s, ValueRange v) { return s.math<math::TanhOp>(v[0]); }>(n, e);
           },
           kFloats},
          {"HardSigmoid", 1, 1, 1, lowerHardSigmoid, kFloats},
          {"HardSwish", 14, 1, 1, unary<hardSwish>, kFloats},
          {"Softplus", 1, 1, 1, unary<[](const Scalars& s, ValueRange v) { return softplus(s, v[0]); }>, kFloats},
          {"Softsign", 1, 1, 1,
           unary<[](const Scalars& s, ValueRange v) { return s.div(v[0], s.add(s.constant(1), s.abs(v[0]))); }>,
           kFloats},
          {"Mish", 18, 1, 1,
           unary<[](const Scalars& s, ValueRange v) { return s.mul(v[0], s.math<math::TanhOp>(softplus(s, v[0]))); }>,
           kFloats},
          {"Shrink", 9, 1, 1, lowerShrink, kNumbers},
          {"Gelu", 20, 1, 1, lowerGelu, kFloats},
          {"Swish", 24, 1, 1, withAlpha<swish, 1.0>, kFloats},
          {"Gelu", 1, 1, 1, unary<[](const Scalars& s, ValueRange v) { return gelu(s, v[0], /*exact=*/true); }>,
           kFloats, 1, INT_MAX, kMicrosoft},
          {"QuickGelu", 1, 1, 1, withAlpha<swish, 1.702>, kFloats, 1, INT_MAX, kMicrosoft},
          {"FastGelu", 1, 1, 2, lowerFastGelu, kFloats, 2, INT_MAX, kMicrosoft},
          {"BiasGelu", 1, 2, 2, lowerBiasGelu, kFloats, 2, INT_MAX, kMicrosoft},
      });
}

}  // namespace tessera::compiler
