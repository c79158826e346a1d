#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/search/features.h"

namespace tessera::compiler::search {

/// How fast a tree will be, learned from trees that were measured: gradient-boosted trees of XGBoost over featuresOf().
/// Deterministic: one thread, a fixed seed.
class CostModel {
 public:
  struct Example {
    Features features;
    double log_speed = 0;  ///< natural logarithm of the speed against the default of the workload
  };

  /// INTERNAL with XGBoost's message; INVALID_ARGUMENT without examples.
  static absl::StatusOr<CostModel> fit(const std::vector<Example>& examples);
  CostModel(CostModel&& other) noexcept;
  CostModel& operator=(CostModel&& other) noexcept;
  ~CostModel();

  /// log_speed expected of each.
  absl::StatusOr<std::vector<float>> predict(const std::vector<const Features*>& trees) const;

 private:
  explicit CostModel(void* booster) : booster_(booster) {}
  void* booster_ = nullptr;
};

}  // namespace tessera::compiler::search
