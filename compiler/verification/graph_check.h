#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/verification/model_run.h"

namespace tessera::compiler::verification {

/// Limits of a check, in evaluated operations (those of a body at every point; about 5 ns each).
struct Budget {
  int64_t step = 4'000'000'000;    ///< of one step
  int64_t model = 40'000'000'000;  ///< of all steps of one model
};

/// Interprets a model after import and after each later step on seeded inputs, and compares its outputs with those
/// after import. The first step that changes an output beyond its bound ends planning with INTERNAL. The failure names
/// the step, the output with its largest error and the bound, and as node the first operation whose result no earlier
/// step computed and on which the wrong output depends. Steps that cannot be interpreted within the budget are skipped
/// and reported as such. Not thread-safe.
class GraphCheck final : public GraphObserver {
 public:
  explicit GraphCheck(uint64_t seed = 1, const Budget& budget = {}) : seed_(seed), budget_(budget) {}

  absl::Status imported(const ImportedModel& model) override;
  absl::Status rewritten(const std::string& rewrite, const ImportedModel& model) override;
  absl::Status resultsChanged(const std::string& rewrite, const ImportedModel& model) override;
  absl::Status planned(const PlannedGraph& planned) override;

  /// For a rewrite that rounds: the largest change of an output relative to the largest value of that output; nothing
  /// if there was no such rewrite, or it was not interpreted.
  std::optional<double> lost() const { return lost_; }
  const std::vector<v1::VerifiedStep>& steps() const { return steps_; }

 private:
  /// Identifies a value independently of its layout: its statistics survive permutations and zero padding.
  struct Trace {
    std::string place;  // operation and nodes
    std::string node;
    mlir::Operation* op = nullptr;  // in the current module
    double sum = 0, magnitude = 0, squares = 0;
    bool resembles(const Trace& other) const;
  };
  static Trace traceOf(const interpreter::Array& array);
  bool isKnown(const Trace& trace) const;

  /// Runs the current model and collects the traces of its values. Nothing, recorded as a skipped step, if it cannot be
  /// interpreted.
  absl::StatusOr<std::optional<std::vector<interpreter::Array>>> runAfter(const std::string& rewrite,
                                                                          const ImportedModel& model,
                                                                          std::vector<Trace>& traces);
  /// Options for running a step; its cost is taken from `left`.
  interpreter::Options optionsFor(std::vector<Trace>& traces, int64_t& left);
  int64_t allowance() const { return std::min(budget_.step, budget_.model); }
  void skip(const std::string& step, const absl::Status& why);
  absl::Status compareOutputs(const std::string& step, const std::vector<interpreter::Array>& found,
                              std::vector<Trace> traces, mlir::func::FuncOp main);
  absl::Status failure(const std::string& step, int output, const std::string& difference, const Trace* fault) const;
  std::string outputName(int output) const;

  uint64_t seed_;
  Budget budget_;
  std::string unavailable_;  // the reason why nothing is compared
  mlir::MLIRContext* context_ = nullptr;
  std::vector<v1::TensorSpec> outputs_;
  std::vector<interpreter::Array> inputs_, expected_;
  WeightArrays weights_;
  interpreter::ResultCache cache_;
  std::vector<Trace> known_;  // of the latest correct step
  std::vector<v1::VerifiedStep> steps_;
  std::optional<double> lost_;
};

}  // namespace tessera::compiler::verification
