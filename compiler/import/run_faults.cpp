// Errors that a run finds while it computes: it takes a branch of an If that cannot be lowered. @main computes which
// error it is as one more result (import.h), and computes everything else as if the other branch had been taken.
#include <algorithm>

#include "compiler/import/graph_importer.h"

namespace tessera::compiler {

void GraphImporter::rewindTo(const RunFaults& before) {
  fault_ = before.found;
  result_.run_faults.resize(before.messages);
}

absl::StatusOr<std::vector<Tensor>> GraphImporter::inlineWhere(const onnx::GraphProto& graph,
                                                               const std::vector<Tensor>& arguments,
                                                               const Tensor& condition, bool holds,
                                                               const Scope& outer) {
  const bool decided_by_run = condition.value != nullptr;
  const bool never = condition.constant && (condition.constant->integerAt(0) != 0) != holds;
  const RunFaults before = runFaults();
  const int64_t nodes = nodes_;
  ModelCheck* const check = check_;
  if (decided_by_run) {
    reached_.emplace_back(condition, holds);
    check_ = nullptr;  // a problem of one branch is no problem of the model if the other branch works
  }
  auto results = inlineGraph(graph, arguments, outer);
  if (decided_by_run) reached_.pop_back();
  check_ = check;
  if (!results.ok() || never) rewindTo(before);
  if (!results.ok() && check) nodes_ = nodes;  // the check lowers the branch again
  return results;
}

void GraphImporter::refuseRuns(const Tensor& condition, bool holds, const std::string& message) {
  // An unrolled loop reports the same error in each iteration.
  const auto known = std::find(result_.run_faults.begin(), result_.run_faults.end(), message);
  const int64_t number = known - result_.run_faults.begin() + 1;
  if (known == result_.run_faults.end()) result_.run_faults.push_back(message);
  Emitter e = emitter("run fault");
  reached_.emplace_back(condition, holds);
  Tensor found = scalarI64(number);
  for (const auto& [each, wanted] : reached_) {
    const Tensor none = scalarI64(0);
    found = e.elementwise(v1::DATA_TYPE_I64, {e.reshape(each, {}), wanted ? found : none, wanted ? none : found},
                          [](const Scalars& s, mlir::ValueRange v) { return s.select(v[0], v[1], v[2]); });
  }
  reached_.pop_back();
  if (fault_.constant) {  // none before it
    fault_ = found;
    return;
  }
  fault_ = e.elementwise(v1::DATA_TYPE_I64, {fault_, found}, [](const Scalars& s, mlir::ValueRange v) {
    return s.select(s.compare(Relation::kEqual, v[0], s.constant(0)), v[1], v[0]);
  });
}

}  // namespace tessera::compiler
