#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/v1/task.pb.h"

namespace tessera::server {

/// Runs tasks without a compiler, for tests. A model is the text "model <name>: <unit> <unit> ..."; its plan has these
/// units, an object is derived from its unit, an artifact from its objects. Like the real steps, equal inputs give
/// equal bytes. An analysis reports one problem for each unit named "bad". A search proposes trees that differ in
/// `vector_bits`: 1, 2, 3 and so on; `trial` sets the outcome of measuring one.
class FakeWork {
 public:
  using Get = std::function<std::string(const v1::Digest&)>;
  using Put = std::function<v1::Digest(const std::string&)>;
  FakeWork(Get get, Put put) : get_(std::move(get)), put_(std::move(put)) {}

  v1::TaskResult run(const v1::TaskSpec& task) const;

  /// Whether a plan of at most one unit is built and assembled in the same attempt, if the task permits it.
  bool finishes_small = false;

  /// Fills the result of measuring tree `number` of a workload whose default takes 1 ms. If unset, it takes 1 ms too.
  std::function<void(const std::string& workload, int number, v1::MeasureTaskResult& result)> trial;

  /// Open choices of every plan without pins.
  std::vector<v1::AmbiguousChoice> ambiguous_choices;

  /// Units of plans with pins, instead of the model's; unset: the model's.
  std::function<std::string(const std::string& pins)> pinned_units;

  /// Fills the result of measuring the whole model with these pins. If unset, it is twice as fast as the default. Each
  /// step takes 1 ms.
  std::function<void(const std::string& pins, v1::MeasureTaskResult& result)> model;

  /// Sets the time of the steps that differ between two artifacts. If unset, that of the whole model.
  std::function<void(v1::MeasureTaskResult& result)> own;

 private:
  v1::TaskResult plan(const v1::PlanTask& task) const;
  v1::TaskResult assemble(const v1::AssembleTask& task) const;
  void finish(const v1::PlanTask& task, v1::TaskResult& result) const;
  v1::TaskResult analyze(const v1::AnalyzeTask& task) const;
  v1::TaskResult search(const v1::SearchTask& task) const;
  std::string build(const v1::BuildTask& task) const;
  v1::TaskResult measure(const v1::MeasureTask& task) const;
  /// Stores `bytes` and adds them as an output file of that name.
  void addFile(v1::TaskResult& result, const std::string& name, const std::string& bytes) const;

  Get get_;
  Put put_;
};

v1::TaskResult failedResult(v1::Failure::Reason reason);

}  // namespace tessera::server
