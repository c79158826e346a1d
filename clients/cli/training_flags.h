#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/support/cli11.h"
#include "tessera/v1/training.pb.h"

namespace tessera::client {

/// The flags that make `compile` and `explain` produce a training step in place of the model.
struct TrainingFlags {
  bool train = false;
  std::string loss, output, optimizer;
  std::vector<std::string> trainable, frozen;
  double momentum = 0, max_gradient_norm = 0;
  bool nesterov = false;
  std::optional<double> beta1, beta2, epsilon, weight_decay;

  void addTo(CLI::App* command);
  /// INVALID_ARGUMENT for --train without --loss.
  absl::Status fill(v1::TrainingOptions& options) const;
};

}  // namespace tessera::client
