#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/search/features.h"

namespace tessera::compiler::search {

/// Predicts a tree's speed from measured trees: gradient-boosted trees of XGBoost over featuresOf(). Each of them is
/// grown on a seeded random part of the examples (stochastic gradient boosting, Friedman 2002). With few examples,
/// models of different seeds differ, so that a search that refits with new seeds does not repeat one model's mistake.
/// Deterministic: one thread.
class CostModel {
 public:
  struct Example {
    Features features;
    double log_speed = 0;  ///< natural logarithm of the speed relative to the workload's default
  };

  /// Errors: INTERNAL with XGBoost's message; INVALID_ARGUMENT without examples.
  static absl::StatusOr<CostModel> fit(const std::vector<Example>& examples, int seed = 1);
  CostModel(CostModel&& other) noexcept;
  CostModel& operator=(CostModel&& other) noexcept;
  ~CostModel();

  /// The predicted log_speed of each tree.
  absl::StatusOr<std::vector<float>> predict(const std::vector<const Features*>& trees) const;

 private:
  CostModel(void* booster, std::vector<size_t> columns) : booster_(booster), columns_(std::move(columns)) {}
  void* booster_ = nullptr;
  std::vector<size_t> columns_;  ///< the features it was trained on
};

}  // namespace tessera::compiler::search
