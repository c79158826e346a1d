#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// Weights of several plans in one section: equal ones, by content, are stored once.
class WeightSection {
 public:
  /// The weight's offset, a multiple of 64.
  int64_t place(Weight weight);
  int64_t bytes() const { return bytes_; }
  /// Ascending offsets; nothing can be placed afterwards.
  std::vector<PlannedGraph::PlacedWeight> take() { return std::move(weights_); }

 private:
  std::vector<PlannedGraph::PlacedWeight> weights_;
  std::unordered_multimap<size_t, size_t> by_hash_;  // of the bytes -> position in weights_
  int64_t bytes_ = 0;
};

/// One plan out of the variants of a model, which are added in order: the first is the outer plan, the others its
/// `variants`. Workloads that are equal by hash, weights that are equal by content and prepared weights that are
/// computed alike appear once.
class VariantMerger {
 public:
  /// `bindings`, for errors, says what the variant binds. Fails with INVALID_INPUT when a variant before has the same
  /// input shapes, and when inputs or outputs are not those of the first by name and element type.
  absl::Status add(PlannedGraph planned, const std::string& bindings);

  v1::Plan& plan() { return plan_; }
  WeightSection& weights() { return section_; }

 private:
  absl::Status check(const v1::Plan& plan, const std::string& bindings) const;
  /// Lets a plan's buffers and steps name weights and workloads of the merged plan.
  absl::Status adopt(v1::Plan& plan, std::vector<PlannedGraph::PlacedWeight> weights);
  /// Appends the steps of a prepared weight unless they are there. Its position among the merged plan's.
  absl::StatusOr<int> addPrepared(PlannedGraph::PreparedWeight prepared);

  v1::Plan plan_;
  WeightSection section_;
  std::map<std::string, int> workload_of_;  // by hash
  std::map<std::string, int> prepared_of_;  // by the plan that computes it
  std::vector<std::string> bindings_;
};

}  // namespace tessera::compiler
