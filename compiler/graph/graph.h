#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/fusion/decision.h"
#include "compiler/graph/choices.h"
#include "compiler/graph/code_facts.h"
#include "compiler/graph/constants/folded_memory.h"
#include "compiler/ir/canonicalizer.h"
#include "compiler/ir/imported_model.h"
#include "tessera/v1/plan.pb.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// An imported model, cut into workloads. `weights` are final (folded and repacked), in the order in which plan.buffers
/// of kind WEIGHT refer to them by offset.
struct PlannedGraph {
  v1::Plan plan;  ///< without model_sha256, compiler_version and schedules
  struct PlacedWeight {
    int64_t offset = 0;
    Weight weight;
  };
  std::vector<PlacedWeight> weights;  ///< ascending offsets, each a multiple of 64
  /// A weight that is computed before the first run. Buffers of kind PREPARED name its position here.
  struct PreparedWeight {
    v1::Plan plan;  ///< no inputs, one output; its own workloads
    std::vector<PlacedWeight> weights;
  };
  std::vector<PreparedWeight> prepared = {};
  std::map<std::string, v1::WorkloadShape> shapes = {};       ///< by workload hash; of the main plan's workloads
  std::map<std::string, std::vector<v1::Choice>> fused = {};  ///< workload hash -> the choices that led to its slices
};

/// Observes the graph as imported, after each rewrite that changed it, and as planned. An error ends planning.
class GraphObserver {
 public:
  virtual ~GraphObserver() = default;
  virtual absl::Status imported(const ImportedModel& model) = 0;
  virtual absl::Status rewritten(const std::string& rewrite, const ImportedModel& model) = 0;
  /// Called after a requested rewrite that changes results (round_products.h). Later states are compared with this one.
  virtual absl::Status resultsChanged(const std::string& rewrite, const ImportedModel& model) = 0;
  virtual absl::Status planned(const PlannedGraph& planned) = 0;
};

struct GraphOptions {
  bool winograd = true;         ///< whether convolutions may be computed in Winograd's domain (winograd.h)
  bool round_products = false;  ///< whether f32 products read operands rounded to bf16 (round_products.h)
  /// Policy: which candidate chains and regions are merged, to run slice by slice.
  fusion::FusionPolicy fusion_policy = fusion::FusionPolicy::kWhereItPays;
  GraphObserver* observer = nullptr;
  Canonicalizer* canonicalizer = nullptr;   ///< for the model's context; null: one is constructed
  FoldedWeightStorage folded_weights = {};  ///< allocates the bytes of weights computed at compile time
  CodeFacts code = {};                      ///< of the code that runs the plan
  std::vector<v1::Choice> pins = {};        ///< applied, or INVALID_SCHEDULE with the place
  std::vector<v1::State> states = {};       ///< without append, which the plan adds where it can
  /// Called after each selection of chains and regions. Returns the choices whose workloads cannot run slice by slice,
  /// with the reasons; groups are then selected again without them, until it returns none. If null, all can. An error
  /// ends planning.
  std::function<absl::StatusOr<std::vector<GraphChoices::Refused>>(const PlannedGraph&)> find_refused = nullptr;
  std::function<void(const char* step)> on_step = nullptr;  ///< called at the end of each rewrite and step, unless
                                                            ///< null
};

/// Simplifies the graph, assigns layouts, fuses, outlines each fused group as a workload, and plans memory.
///
/// A workload is one function on tensors. Its arguments are the group's operands, and its results are the values that
/// other groups or the caller read. It contains linalg, tensor, arith and math operations.
absl::StatusOr<PlannedGraph> planGraph(ImportedModel model, const v1::Target& target, const GraphOptions& options = {});

}  // namespace tessera::compiler
