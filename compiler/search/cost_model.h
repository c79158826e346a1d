#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/search/features.h"

namespace tessera::compiler::search {

/// How fast a tree will be, learned from trees that were measured: gradient-boosted trees of XGBoost over featuresOf().
/// Each of them is grown on a part of the examples that the seed draws (Friedman 2002, stochastic gradient boosting): a
/// model of the same examples and another seed differs where examples are few, so that who asks one after another does
/// not stay with one model's mistake. Deterministic: one thread.
class CostModel {
 public:
  struct Example {
    Features features;
    double log_speed = 0;  ///< natural logarithm of the speed against the default of the workload
  };

  /// INTERNAL with XGBoost's message; INVALID_ARGUMENT without examples.
  static absl::StatusOr<CostModel> fit(const std::vector<Example>& examples, int seed = 1);
  CostModel(CostModel&& other) noexcept;
  CostModel& operator=(CostModel&& other) noexcept;
  ~CostModel();

  /// log_speed expected of each.
  absl::StatusOr<std::vector<float>> predict(const std::vector<const Features*>& trees) const;

 private:
  CostModel(void* booster, std::vector<size_t> columns) : booster_(booster), columns_(std::move(columns)) {}
  void* booster_ = nullptr;
  std::vector<size_t> columns_;  ///< the features that it was grown over
};

}  // namespace tessera::compiler::search
