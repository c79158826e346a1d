#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "compiler/search/features.h"

namespace tessera::compiler::search {

/// An observed step: direction `action` from `from` led to `to` with `reward`; `open` are the directions available at
/// `to`.
struct Transition {
  Features from, to;
  std::vector<int> open;  ///< empty: the search ends there
  int action = 0;
  double reward = 0;
};

/// Four fully connected layers with ReLU between them, trained by AdaDelta (Zeiler 2012: rho 0.95, epsilon 1e-6) on
/// squared errors, and a delayed copy (target network) from which targets are computed (Mnih 2015). Thesis, 4.4.1.
///
/// The thesis writes the loss as (X(e) - target)^2 with target = alpha max Y(e) + (E_e - E_p) / E_p, where e is the
/// point that was reached. Taken literally, this trains the network at e, while directions are chosen by its output at
/// p. For example, let e be an optimum reached with reward 0.5: X(e) is pulled towards 0.5 + alpha X(e), that is to 0.5
/// / (1 - alpha), so that its directions look best although each of them loses; p, from which the step gained, learns
/// nothing. This implementation trains X(p) for the direction that was taken, as in Q-learning.
class QNetwork {
 public:
  /// `expected`: approximate initial Q of every direction.
  QNetwork(int actions, double expected, uint64_t seed);
  ~QNetwork();
  QNetwork(QNetwork&&) noexcept;

  /// Q of each action.
  std::vector<float> values(const Features& point) const;
  /// One training pass over `batch`; returns the mean squared error before it. Every kSync passes the copy is updated.
  double train(const std::vector<const Transition*>& batch);

  static constexpr double kDiscount = 0.3;  ///< alpha
  static constexpr int kSync = 10;

 private:
  struct Layers;
  std::unique_ptr<Layers> layers_;
};

}  // namespace tessera::compiler::search
