#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/emitter.h"
#include "tessera/v1/training.pb.h"

/// Optimizers: the new value of a parameter and of its moments. The formulas are those of PyTorch's optimizers of the
/// same names, LAMB's those of its paper (You et al., 2020) without limits on norms.
namespace tessera::compiler::training {

/// OptimizerOptions with the defaults filled in.
struct Optimizer {
  enum class Kind { kSgd, kAdam, kAdamW, kLamb };
  Kind kind = Kind::kSgd;
  double momentum = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  bool nesterov = false;

  /// Suffixes of the names of a parameter's moments: states of the parameter's shape and type, zeros at first.
  std::vector<std::string> moments() const;
};

/// INVALID_INPUT for an unknown name, or a number outside of its range.
absl::StatusOr<Optimizer> optimizerOf(const v1::OptimizerOptions& options);

/// Values that all parameters share, in f64.
struct StepValues {
  Tensor learning_rate;
  /// 1 - beta^t for step t, counted from 1; absent for SGD.
  Tensor correction1 = {}, correction2 = {};
};

StepValues stepValues(Emitter& e, const Optimizer& optimizer, const Tensor& learning_rate, const Tensor& step);

struct Update {
  Tensor parameter;
  std::vector<Tensor> moments = {};  ///< in the order of Optimizer::moments()
};

/// Emits the update of one parameter.
Update emitUpdate(Emitter& e, const Optimizer& optimizer, const StepValues& values, const Tensor& parameter,
                  const Tensor& gradient, const std::vector<Tensor>& moments);

}  // namespace tessera::compiler::training
