#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "compiler/search/features.h"

namespace tessera::compiler::search {

/// One step that was taken: direction `action` from `from`, with `reward`, to `to`, where `open` are the directions
/// there are.
struct Transition {
  Features from, to;
  std::vector<int> open;  ///< empty: the search ends there
  int action = 0;
  double reward = 0;
};

/// Four fully connected layers with ReLU between them, trained by AdaDelta (Zeiler 2012: rho 0.95, epsilon 1e-6) on
/// squared errors; and a copy that is behind, which targets are made of (Mnih 2015). Thesis, 4.4.1.
///
/// The thesis writes the loss as (X(e) - target)^2 with target = alpha max Y(e) + (E_e - E_p) / E_p, e the point that
/// was reached. Taken literally it trains the network on e, while directions are chosen by its answer for p. Say e is a
/// summit that was reached with reward 0.5: X(e) is pulled towards 0.5 + alpha X(e), to 0.5 / (1 - alpha), and its
/// directions look best of all, though each of them loses; p, from where the step did gain, learns nothing. We train
/// X(p) along the direction that was taken, as Q-learning has it.
class QNetwork {
 public:
  /// `expected`: Q of every direction to begin with, about.
  QNetwork(int actions, double expected, uint64_t seed);
  ~QNetwork();
  QNetwork(QNetwork&&) noexcept;

  /// Q of each action.
  std::vector<float> values(const Features& point) const;
  /// A pass over `batch`; the mean squared error before it. Every kSync passes the copy follows.
  double train(const std::vector<const Transition*>& batch);

  static constexpr double kDiscount = 0.3;  ///< alpha
  static constexpr int kSync = 10;

 private:
  struct Layers;
  std::unique_ptr<Layers> layers_;
};

}  // namespace tessera::compiler::search
