#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/imported_model.h"
#include "tessera/v1/state.pb.h"
#include "tessera/v1/training.pb.h"

/// Training: an imported model becomes one step of its training.
namespace tessera::compiler::training {

/// Chooses the initializers that training changes, by name. Remembers which patterns found one.
class VariableChoice {
 public:
  explicit VariableChoice(const v1::TrainingOptions& options);

  bool operator()(const std::string& initializer);
  /// INVALID_INPUT if a pattern has found no initializer. Call it after the import.
  absl::Status check() const;

 private:
  struct Pattern {
    std::string text;
    bool found = false;
  };
  std::vector<Pattern> trainable_, frozen_;
};

/// Turns a model into a training step. The model's default inputs are its variables (ImportOptions.is_variable).
///
/// New inputs: "labels", if the loss reads any, "learning_rate" (a scalar of f32), and the states that the optimizer
/// needs. New outputs: "loss", a scalar of f32, before the model's own, and a new value of each state after them.
/// Returns the pairs of inputs and outputs that are states: the variables, named as the initializers, their moments and
/// the number of steps.
/// Fails with UNSUPPORTED_OPERATOR at the first node without a gradient, and with INVALID_INPUT for options that do not
/// fit the model.
absl::StatusOr<std::vector<v1::StatePair>> makeTrainingStep(ImportedModel& model, const v1::TrainingOptions& options);

}  // namespace tessera::compiler::training
