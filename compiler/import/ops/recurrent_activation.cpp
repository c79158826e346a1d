#include "compiler/import/ops/recurrent_activation.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import/ops/scalar_functions.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
namespace math = mlir::math;

using Body = Value (*)(const Scalars& s, Value x, Value alpha, Value beta);

/// A function of the specification's list. A parameter that it does not have has default NaN.
struct Entry {
  const char* name;
  double alpha, beta;
  Body body;
};

constexpr double kNone = NAN;

const Entry kActivations[] = {
    {"relu", kNone, kNone, [](const Scalars& s, Value x, Value, Value) { return atLeast(s, x, s.constant(0)); }},
    {"tanh", kNone, kNone, [](const Scalars& s, Value x, Value, Value) { return s.math<math::TanhOp>(x); }},
    {"sigmoid", kNone, kNone,
     [](const Scalars& s, Value x, Value, Value) {
       return s.div(s.constant(1), s.add(s.constant(1), s.math<math::ExpOp>(s.neg(x))));
     }},
    {"affine", 1.0, 0.0, [](const Scalars& s, Value x, Value alpha, Value beta) { return s.fma(alpha, x, beta); }},
    {"leakyrelu", 0.01, kNone,
     [](const Scalars& s, Value x, Value alpha, Value) {
       return s.select(s.compare(Relation::kLess, x, s.constant(0)), s.mul(alpha, x), x);
     }},
    {"thresholdedrelu", 1.0, kNone,
     [](const Scalars& s, Value x, Value alpha, Value) {
       return s.select(s.compare(Relation::kGreaterOrEqual, x, alpha), x, s.constant(0));
     }},
    {"scaledtanh", 1.0, 1.0,
     [](const Scalars& s, Value x, Value alpha, Value beta) {
       return s.mul(alpha, s.math<math::TanhOp>(s.mul(beta, x)));
     }},
    {"hardsigmoid", 0.2, 0.5,
     [](const Scalars& s, Value x, Value alpha, Value beta) {
       return atMost(s, atLeast(s, s.fma(alpha, x, beta), s.constant(0)), s.constant(1));
     }},
    {"elu", 1.0, kNone,
     [](const Scalars& s, Value x, Value alpha, Value) {
       Value below = s.mul(alpha, s.math<math::ExpM1Op>(x));
       return s.select(s.compare(Relation::kLess, x, s.constant(0)), below, x);
     }},
    {"softsign", kNone, kNone,
     [](const Scalars& s, Value x, Value, Value) { return s.div(x, s.add(s.constant(1), s.abs(x))); }},
    {"softplus", kNone, kNone,
     [](const Scalars& s, Value x, Value, Value) {
       Value tail = s.math<math::Log1pOp>(s.math<math::ExpOp>(s.neg(s.abs(x))));
       return s.add(s.max(x, s.constant(0)), tail);
     }},
};

}  // namespace

absl::StatusOr<std::vector<Activation>> readActivations(Node& n, const std::vector<std::string>& defaults,
                                                        int64_t directions) {
  std::vector<std::string> names;
  // Each direction has its own functions.
  for (int64_t d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  const size_t count = names.size();
  TESSERA_ASSIGN_OR_RETURN(names, n.texts("activations", names));
  TESSERA_ASSIGN_OR_RETURN(const auto alphas, n.reals("activation_alpha", std::vector<double>{}));
  TESSERA_ASSIGN_OR_RETURN(const auto betas, n.reals("activation_beta", std::vector<double>{}));
  TESSERA_ASSIGN_OR_RETURN(const double clip, n.real("clip", INFINITY));
  if (names.size() != count) {
    return n.invalid(absl::StrCat("names ", names.size(), " activations"),
                     {.attribute = "activations",
                      .found = absl::StrCat(names.size()),
                      .accepted = absl::StrCat(count, ": ", defaults.size(), " for each direction")});
  }
  if (!(clip > 0)) {
    return n.invalid("the bound is not positive",
                     {.attribute = "clip", .found = absl::StrCat(clip), .accepted = "more than 0"});
  }
  // Parameters are listed only for functions that have them, in order.
  size_t next_alpha = 0, next_beta = 0;
  std::vector<Activation> activations;
  for (const std::string& name : names) {
    const std::string lower = absl::AsciiStrToLower(name);
    const auto* entry = std::find_if(std::begin(kActivations), std::end(kActivations),
                                     [&](const Entry& known) { return lower == known.name; });
    if (entry == std::end(kActivations)) {
      std::vector<std::string> known;
      for (const Entry& each : kActivations) known.emplace_back(each.name);
      return n.unsupported(absl::StrCat("activation '", printable(name), "'"),
                           {.attribute = "activations", .found = name, .accepted = absl::StrJoin(known, ", ")});
    }
    double alpha = entry->alpha, beta = entry->beta;
    if (!std::isnan(alpha) && next_alpha < alphas.size()) alpha = alphas[next_alpha++];
    if (!std::isnan(beta) && next_beta < betas.size()) beta = betas[next_beta++];
    activations.emplace_back([body = entry->body, alpha, beta, clip](const Scalars& s, Value x) {
      // The clip applies to the function's input.
      if (std::isfinite(clip)) x = atMost(s, atLeast(s, x, s.constant(-clip)), s.constant(clip));
      return body(s, x, s.constant(std::isnan(alpha) ? 0 : alpha), s.constant(std::isnan(beta) ? 0 : beta));
    });
  }
  return activations;
}

}  // namespace tessera::compiler
