#pragma once

#include <vector>

#include "absl/status/status.h"
#include "compiler/graph/graph.h"
#include "compiler/graph/graph_pass.h"

namespace tessera::compiler {

/// Writes down what the passes of one graph do: counts their changes for the report, tells GraphOptions.observer of the
/// graph after each pass that changed it, and GraphOptions.on_step of the end of each pass.
class PassRecorder {
 public:
  PassRecorder(const GraphOptions& options, const ImportedModel& model) : options_(options), model_(model) {}

  /// After a pass with so many changes. Returns the observer's error.
  absl::Status ran(const GraphPass& pass, int changes);
  void finished(const char* step) const {
    if (options_.on_step) options_.on_step(step);
  }
  /// In the order of their first change.
  const std::vector<v1::RewriteCount>& rewrites() const { return rewrites_; }

 private:
  const GraphOptions& options_;
  const ImportedModel& model_;
  std::vector<v1::RewriteCount> rewrites_;
};

/// Runs the passes of planGraph() in order (the list, with a reason for each place, is in pipeline.cpp) on state.main.
/// Errors: those of passes and of the observer; INVALID_SCHEDULE for a pin that cannot be applied.
absl::Status runPipeline(PassState& state, const GraphOptions& options, PassRecorder& recorder);

}  // namespace tessera::compiler
