#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/verification/model_run.h"

namespace tessera::compiler::verification {

/// What a check may spend, in operations evaluated (those of a body at every point; about 5 ns each).
struct Budget {
  int64_t step = 4'000'000'000;    ///< of one step
  int64_t model = 40'000'000'000;  ///< of all steps of one model
};

/// Interprets a model after import and after each step that follows, on seeded inputs, and compares its outputs with
/// those after import. The first step that changes one beyond its bound ends planning with INTERNAL: the failure names
/// the step, the output with its largest error and the bound, and as its node the operation whose result is the first
/// that nothing computed before and that the wrong output depends on.
/// What cannot be interpreted within the budget is skipped, and the report says so.
class GraphCheck final : public GraphObserver {
 public:
  explicit GraphCheck(uint64_t seed = 1, const Budget& budget = {}) : seed_(seed), budget_(budget) {}

  absl::Status imported(const ImportedModel& model) override;
  absl::Status rewritten(const std::string& rewrite, const ImportedModel& model) override;
  absl::Status rounded(const std::string& rewrite, const ImportedModel& model) override;
  absl::Status planned(const PlannedGraph& planned) override;

  /// Of a rewrite that rounds: by how much outputs differ from the model's, as a part of the largest value of the same
  /// output; nothing where there was no such rewrite, or it was not interpreted.
  std::optional<double> lost() const { return lost_; }
  const std::vector<v1::VerifiedStep>& steps() const { return steps_; }

 private:
  /// What a value looks like wherever its elements lie: layouts move them, and pad with zeros.
  struct Trace {
    std::string place;  // operation and nodes
    std::string node;
    mlir::Operation* op = nullptr;  // of the present module
    double sum = 0, magnitude = 0, squares = 0;
    bool resembles(const Trace& other) const;
  };
  static Trace traceOf(const interpreter::Array& array);
  bool isKnown(const Trace& trace) const;

  /// What the model computes now, with the traces of its values; nothing, noted as a step that is skipped, where it
  /// cannot be interpreted.
  absl::StatusOr<std::optional<std::vector<interpreter::Array>>> runAfter(const std::string& rewrite,
                                                                          const ImportedModel& model,
                                                                          std::vector<Trace>& traces);
  /// How to run a step, taking what it costs out of `left`.
  interpreter::Options optionsFor(std::vector<Trace>& traces, int64_t& left);
  int64_t allowance() const { return std::min(budget_.step, budget_.model); }
  void skip(const std::string& step, const absl::Status& why);
  absl::Status compareOutputs(const std::string& step, const std::vector<interpreter::Array>& found,
                              std::vector<Trace> traces, mlir::func::FuncOp main);
  absl::Status failure(const std::string& step, int output, const std::string& difference, const Trace* fault) const;
  std::string outputName(int output) const;

  uint64_t seed_;
  Budget budget_;
  std::string unavailable_;  // why nothing is compared
  mlir::MLIRContext* context_ = nullptr;
  std::vector<v1::TensorSpec> outputs_;
  std::vector<interpreter::Array> inputs_, expected_;
  WeightArrays weights_;
  interpreter::ResultCache cache_;
  std::vector<Trace> known_;  // of the latest step that was right
  std::vector<v1::VerifiedStep> steps_;
  std::optional<double> lost_;
};

}  // namespace tessera::compiler::verification
