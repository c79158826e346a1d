#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/fusion/decision.h"
#include "compiler/graph/choices.h"
#include "compiler/graph/constants/folded_memory.h"
#include "compiler/ir/canonicalizer.h"
#include "compiler/ir/imported_model.h"
#include "tessera/v1/plan.pb.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// An imported model, cut into workloads. `weights` are final: folded, repacked, in the order in which
/// plan.buffers of kind WEIGHT refer to them by offset.
struct PlannedGraph {
  v1::Plan plan;  ///< all but model_sha256 and compiler_version; schedules still empty
  struct PlacedWeight {
    int64_t offset = 0;
    Weight weight;
  };
  std::vector<PlacedWeight> weights;  ///< ascending offsets, each a multiple of 64
  /// A weight that is computed before the first run: buffers of kind PREPARED name its position here.
  struct PreparedWeight {
    v1::Plan plan;  ///< no inputs, one output; its own workloads
    std::vector<PlacedWeight> weights;
  };
  std::vector<PreparedWeight> prepared = {};
  std::map<std::string, std::vector<v1::Choice>> fused = {};  ///< workload hash -> the choices that its slices came of
};

/// Sees the graph as it was imported, after each rewrite that changed it, and what was planned of it. An error ends
/// planning.
class GraphObserver {
 public:
  virtual ~GraphObserver() = default;
  virtual absl::Status imported(const ImportedModel& model) = 0;
  virtual absl::Status rewritten(const std::string& rewrite, const ImportedModel& model) = 0;
  /// After a rewrite that was asked for and changes results: what follows is held against what it left.
  virtual absl::Status rounded(const std::string& rewrite, const ImportedModel& model) = 0;
  virtual absl::Status planned(const PlannedGraph& planned) = 0;
};

struct GraphOptions {
  bool winograd = true;         ///< whether convolutions may be computed in Winograd's domain, see winograd.h
  bool round_products = false;  ///< whether products of f32 read operands rounded to bf16, see round_products.h
  /// Which chains and regions are merged; code generation runs them slice by slice.
  fusion::Merging chains = fusion::Merging::kWhereItPays;
  GraphObserver* observer = nullptr;
  Canonicalizer* canonicalizer = nullptr;  ///< for the model's context; null: one is made
  FoldedMemory memory = {};                ///< for folded weights
  bool prepare_weights = true;        ///< whether weights may be left to the first run, see plan/prepared_weights.h
  std::vector<v1::Choice> pins = {};  ///< taken over, or INVALID_SCHEDULE with the place
  /// Asked of each choice of chains and regions: those of its workloads that cannot run slice by slice, and why. Groups
  /// are chosen again without them, until none is named. Where nobody answers all can. An error ends planning.
  std::function<absl::StatusOr<std::vector<GraphChoices::Refused>>(const PlannedGraph&)> refused = nullptr;
  std::function<void(const char* step)> finished = nullptr;  ///< called at the end of each rewrite and step, if set
};

/// Simplifies, assigns layouts, fuses, outlines each fused group as a workload, plans memory.
///
/// A workload's IR is one function on tensors: arguments are the group's operands, then nothing else;
/// it holds linalg, tensor, arith and math operations; results are what other groups (or the caller) read.
absl::StatusOr<PlannedGraph> planGraph(ImportedModel model, const v1::Target& target, const GraphOptions& options = {});

}  // namespace tessera::compiler
