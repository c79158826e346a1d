#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/v1/task.pb.h"

namespace tessera::server {

/// Does a task without a compiler, for tests. A model is the text "model <name>: <unit> <unit> ..."; its
/// plan names those units, an object is made of its unit, an artifact of its objects. Like the real steps,
/// equal inputs give equal bytes. An analysis reports one problem for each unit named "bad". A search proposes trees
/// that are told apart by their `vector_bits`, 1, 2, 3 and so on; `trial` says what measuring one finds.
class FakeWork {
 public:
  using Get = std::function<std::string(const v1::Digest&)>;
  using Put = std::function<v1::Digest(const std::string&)>;
  FakeWork(Get get, Put put) : get_(std::move(get)), put_(std::move(put)) {}

  v1::TaskResult run(const v1::TaskSpec& task) const;

  /// Whether a plan of at most one unit is built and assembled in the same attempt, where that is wanted.
  bool finishes_small = false;

  /// Fills the result of measuring tree `number` of a workload, whose default takes 1 ms; unless set, it takes 1 ms
  /// too.
  std::function<void(const std::string& workload, int number, v1::MeasureTaskResult& result)> trial;

  /// Of every plan without pins.
  std::vector<v1::OpenChoice> open_choices;

  /// Of plans with pins, in place of the model's own; unset: those.
  std::function<std::string(const std::string& pins)> pinned_units;

  /// Fills the result of measuring the whole model as it is with these pins; unless set, it is twice as fast as by
  /// default. Each step takes 1 ms.
  std::function<void(const std::string& pins, v1::MeasureTaskResult& result)> model;

  /// Changes what the steps take that two artifacts do not share; unless set, as much as the whole model.
  std::function<void(v1::MeasureTaskResult& result)> own;

 private:
  v1::TaskResult plan(const v1::PlanTask& task) const;
  v1::TaskResult assemble(const v1::AssembleTask& task) const;
  void finish(const v1::PlanTask& task, v1::TaskResult& result) const;
  v1::TaskResult analyze(const v1::AnalyzeTask& task) const;
  v1::TaskResult search(const v1::SearchTask& task) const;
  std::string build(const v1::BuildTask& task) const;
  v1::TaskResult measure(const v1::MeasureTask& task) const;
  /// Puts `bytes` and lists them as an output file of that name.
  void addFile(v1::TaskResult& result, const std::string& name, const std::string& bytes) const;

  Get get_;
  Put put_;
};

v1::TaskResult failedResult(v1::Failure::Reason reason);

}  // namespace tessera::server
