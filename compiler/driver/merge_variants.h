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

/// Builds one weights section for several plans. Weights with equal contents are stored once.
class WeightSection {
 public:
  /// Returns the weight's offset, a multiple of 64.
  int64_t place(Weight weight);
  int64_t bytes() const { return bytes_; }
  /// Returns the weights by ascending offset. No place() may follow.
  std::vector<PlannedGraph::PlacedWeight> take() { return std::move(weights_); }

 private:
  std::vector<PlannedGraph::PlacedWeight> weights_;
  std::unordered_multimap<size_t, size_t> by_hash_;  // hash of the contents -> position in weights_
  int64_t bytes_ = 0;
};

/// Merges the variants of a model into one plan. Variants are added in order: the first is the outer plan, the others
/// its `variants`. Workloads with equal hashes, weights with equal contents and prepared weights with equal plans
/// appear once.
class VariantMerger {
 public:
  /// Adds a variant. `bindings` describes the variant in errors. Fails with INVALID_INPUT if an earlier variant has the
  /// same input shapes, or if inputs or outputs differ from those of the first variant in name or element type.
  absl::Status add(PlannedGraph planned, const std::string& bindings);

  v1::Plan& plan() { return plan_; }
  WeightSection& weights() { return section_; }

 private:
  absl::Status check(const v1::Plan& plan, const std::string& bindings) const;
  /// Redirects a plan's buffers and steps to weights and workloads of the merged plan.
  absl::Status adopt(v1::Plan& plan, std::vector<PlannedGraph::PlacedWeight> weights);
  /// Appends the steps of a prepared weight unless the merged plan has them. Returns its position in the merged plan.
  absl::StatusOr<int> addPrepared(PlannedGraph::PreparedWeight prepared);

  v1::Plan plan_;
  WeightSection section_;
  std::map<std::string, int> workload_of_;  // by hash
  std::map<std::string, int> prepared_of_;  // by the plan that computes the weight
  std::vector<std::string> bindings_;
};

}  // namespace tessera::compiler
