#include "compiler/training/optimizer.h"

#include "absl/strings/str_cat.h"
#include "compiler/import/model_error.h"
#include "compiler/training/gradient_norm.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::compiler::training {
namespace {

using mlir::Value;
using mlir::ValueRange;
namespace math = mlir::math;

absl::Status outside(const std::string& name, double value, const std::string& accepted) {
  return fault(v1::Failure::INVALID_INPUT, absl::StrCat("the optimizer's ", name, " is ", value),
               {.attribute = name, .found = absl::StrCat(value), .accepted = accepted});
}

/// Combines tensors of one shape, or scalars, element by element in the first operand's type.
Tensor map(Emitter& e, const std::vector<Tensor>& operands, Emitter::Body body) {
  return e.elementwise(operands[0].dtype, operands, body);
}

Tensor norm(Emitter& e, const Tensor& x) {
  return map(e, {sumOfSquares(e, x)}, [](const Scalars& s, ValueRange v) { return s.math<math::SqrtOp>(v[0]); });
}

Update sgd(Emitter& e, const Optimizer& o, const Tensor& rate, const Tensor& p, const Tensor& gradient,
           const std::vector<Tensor>& moments) {
  Tensor g = gradient;
  if (o.weight_decay != 0)
    g = map(e, {g, p}, [&](const Scalars& s, ValueRange v) { return s.fma(v[1], s.constant(o.weight_decay), v[0]); });
  Update update;
  if (o.momentum != 0) {
    update.moments.push_back(map(
        e, {moments[0], g}, [&](const Scalars& s, ValueRange v) { return s.fma(v[0], s.constant(o.momentum), v[1]); }));
    const Tensor& velocity = update.moments[0];
    g = o.nesterov ? map(e, {velocity, g},
                         [&](const Scalars& s, ValueRange v) { return s.fma(v[0], s.constant(o.momentum), v[1]); })
                   : velocity;
  }
  update.parameter =
      map(e, {p, g, rate}, [](const Scalars& s, ValueRange v) { return s.sub(v[0], s.mul(v[2], v[1])); });
  return update;
}

/// An exponential moving average: moment + (1 - beta) * (x - moment).
Tensor average(Emitter& e, const Tensor& moment, const Tensor& x, double beta, bool squared) {
  return map(e, {moment, x}, [&](const Scalars& s, ValueRange v) {
    const Value value = squared ? s.mul(v[1], v[1]) : v[1];
    return s.add(s.mul(v[0], s.constant(beta)), s.mul(value, s.constant(1 - beta)));
  });
}

}  // namespace

std::vector<std::string> Optimizer::moments() const {
  if (kind != Kind::kSgd) return {"first_moment", "second_moment"};
  return momentum != 0 ? std::vector<std::string>{"momentum"} : std::vector<std::string>{};
}

absl::StatusOr<Optimizer> optimizerOf(const v1::OptimizerOptions& options) {
  Optimizer o;
  const std::string& name = options.name();
  if (name == "adam") {
    o.kind = Optimizer::Kind::kAdam;
  } else if (name == "adamw") {
    o.kind = Optimizer::Kind::kAdamW;
  } else if (name == "lamb") {
    o.kind = Optimizer::Kind::kLamb;
  } else if (!name.empty() && name != "sgd") {
    return fault(v1::Failure::INVALID_INPUT, absl::StrCat("there is no optimizer '", name, "'"),
                 {.attribute = "optimizer", .found = name, .accepted = "sgd, adam, adamw, lamb"});
  }
  const bool is_sgd = o.kind == Optimizer::Kind::kSgd, decays = !is_sgd && o.kind != Optimizer::Kind::kAdam;
  o.momentum = options.momentum();
  o.nesterov = options.nesterov();
  if (options.has_beta1()) o.beta1 = options.beta1();
  if (options.has_beta2()) o.beta2 = options.beta2();
  o.epsilon = options.has_epsilon() ? options.epsilon() : o.kind == Optimizer::Kind::kLamb ? 1e-6 : 1e-8;
  o.weight_decay = options.has_weight_decay() ? options.weight_decay() : decays ? 0.01 : 0;
  if (!is_sgd && o.momentum != 0) return outside("momentum", o.momentum, "0 for this optimizer, which has beta1");
  if (o.nesterov && o.momentum == 0) return outside("momentum", 0, "more than 0 with nesterov");
  if (!(o.momentum >= 0 && o.momentum < 1)) return outside("momentum", o.momentum, "at least 0, less than 1");
  if (!(o.beta1 >= 0 && o.beta1 < 1)) return outside("beta1", o.beta1, "at least 0, less than 1");
  if (!(o.beta2 >= 0 && o.beta2 < 1)) return outside("beta2", o.beta2, "at least 0, less than 1");
  if (!(o.epsilon >= 0)) return outside("epsilon", o.epsilon, "at least 0");
  if (!(o.weight_decay >= 0)) return outside("weight_decay", o.weight_decay, "at least 0");
  return o;
}

StepValues stepValues(Emitter& e, const Optimizer& o, const Tensor& learning_rate, const Tensor& step) {
  StepValues values{.learning_rate = e.cast(learning_rate, v1::DATA_TYPE_F64)};
  if (o.kind == Optimizer::Kind::kSgd) return values;
  // In f64: for the first steps 1 - beta2^t is a small difference.
  const Tensor t = e.cast(step, v1::DATA_TYPE_F64);
  const auto correction = [&](double beta) {
    return map(e, {t}, [&](const Scalars& s, ValueRange v) {
      return s.sub(s.constant(1), s.math<math::PowFOp>(s.constant(beta), v[0]));
    });
  };
  values.correction1 = correction(o.beta1);
  values.correction2 = correction(o.beta2);
  return values;
}

Update emitUpdate(Emitter& e, const Optimizer& o, const StepValues& values, const Tensor& p, const Tensor& gradient,
                  const std::vector<Tensor>& moments) {
  using Kind = Optimizer::Kind;
  const Tensor rate = e.cast(values.learning_rate, p.dtype);
  if (o.kind == Kind::kSgd) return sgd(e, o, rate, p, gradient, moments);
  Tensor g = gradient;
  if (o.kind == Kind::kAdam && o.weight_decay != 0)
    g = map(e, {g, p}, [&](const Scalars& s, ValueRange v) { return s.fma(v[1], s.constant(o.weight_decay), v[0]); });
  Update update;
  update.moments = {average(e, moments[0], g, o.beta1, false), average(e, moments[1], g, o.beta2, true)};
  const Tensor root = e.cast(
      map(e, {values.correction2}, [](const Scalars& s, ValueRange v) { return s.math<math::SqrtOp>(v[0]); }), p.dtype);
  const auto deviation = [&](const Scalars& s, Value second, Value root_of_correction) {
    return s.add(s.div(s.math<math::SqrtOp>(second), root_of_correction), s.constant(o.epsilon));
  };
  if (o.kind != Kind::kLamb) {
    const Tensor size = e.cast(map(e, {values.learning_rate, values.correction1},
                                   [](const Scalars& s, ValueRange v) { return s.div(v[0], v[1]); }),
                               p.dtype);
    const bool decays = o.kind == Kind::kAdamW && o.weight_decay != 0;
    update.parameter =
        map(e, {p, update.moments[0], update.moments[1], size, root, rate}, [&](const Scalars& s, ValueRange v) {
          Value from = v[0];
          if (decays) from = s.mul(from, s.sub(s.constant(1), s.mul(v[5], s.constant(o.weight_decay))));
          return s.sub(from, s.mul(v[3], s.div(v[1], deviation(s, v[2], v[4]))));
        });
    return update;
  }
  const Tensor correction = e.cast(values.correction1, p.dtype);
  const Tensor direction =
      map(e, {p, update.moments[0], update.moments[1], correction, root}, [&](const Scalars& s, ValueRange v) {
        const Value part = s.div(s.div(v[1], v[3]), deviation(s, v[2], v[4]));
        return s.fma(v[0], s.constant(o.weight_decay), part);
      });
  const Tensor trust = map(e, {norm(e, p), norm(e, direction), rate}, [](const Scalars& s, ValueRange v) {
    const Value usable = s.logicalAnd(s.compare(Relation::kGreater, v[0], s.constant(0)),
                                      s.compare(Relation::kGreater, v[1], s.constant(0)));
    return s.mul(v[2], s.select(usable, s.div(v[0], v[1]), s.constant(1)));
  });
  update.parameter =
      map(e, {p, direction, trust}, [](const Scalars& s, ValueRange v) { return s.sub(v[0], s.mul(v[2], v[1])); });
  return update;
}

}  // namespace tessera::compiler::training
