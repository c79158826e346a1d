#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/artifact/assemble.h"
#include "compiler/fusion/decision.h"
#include "compiler/step_cache/step_cache.h"
#include "tessera/v1/analysis.pb.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/operator_service.pb.h"
#include "tessera/v1/plan.pb.h"
#include "tessera/v1/target.pb.h"

/// The compiler's interface: two passes and a packaging step, each a function from value to value, without MLIR types.
/// Errors carry a v1::Failure (proto/messages/failure.h).
namespace tessera::compiler {

using ProgressFn = std::function<void(const v1::Progress&)>;

/// A model and the files that it refers to, as local files, with the options of planning.
struct PlanRequest {
  std::string model_path;
  v1::CompileSpec spec;
  v1::Target target;                                 ///< resolved and validated
  std::map<std::string, std::string> external_data;  ///< external-data location -> local file
  std::string weights_path;                          ///< file to write the weights section to; empty: none
  bool describe_model = false;                       ///< whether PlanResult.model and operators are wanted
  fusion::FusionPolicy fusion_policy = fusion::FusionPolicy::kWhereItPays;  ///< of chains and regions
  v1::Pins pins = {};          ///< decisions to reuse; spec.pin_use says how strictly
  StepCache* steps = nullptr;  ///< caches schedules; null: each schedule is computed
  /// Called at the end of each step of planning with the step's name, to measure time and memory of steps.
  std::function<void(const char* step)> finished = nullptr;
};

struct PlanResult {
  v1::Plan plan;
  std::vector<v1::BuildUnit> units;                 ///< one per distinct workload, in the order of Plan.workloads
  std::map<std::string, v1::WorkloadShape> shapes;  ///< by workload hash
  bool has_weights = false;                         ///< whether weights_path was written
  v1::GraphView model;                              ///< the model's own nodes, as the first variant has them
  std::vector<v1::OperatorNest> operators;          ///< loop nests of `model`, likewise
  double import_ms = 0;
  double plan_ms = 0;
};

/// Imports the model and takes every decision: fused groups, layouts, schedules, memory plan. Plans each variant that
/// the specification requests (compiler/driver/specializations.h) and merges them into one plan. Equal requests give
/// equal bytes, also if they list their specializations in another order. Pinned decisions are taken over; the others
/// are decided around them. A suggested tree is taken over where the workload accepts it, and reported as a Decision of
/// kind "schedule". Fails with INVALID_SCHEDULE for a pin that cannot be applied or that names no place of the model;
/// the error names the place, or the workload and the path of its tile.
absl::StatusOr<PlanResult> plan(const PlanRequest& request, const ProgressFn& progress);

/// Lists every node of a model that plan() would refuse, with the reason, without compiling. Faults of the model are
/// part of the report; an error status is about the request. The target is not consulted.
absl::StatusOr<v1::CheckReport> check(const PlanRequest& request);

/// Returns the stages of plan(): the model's graph, the fused groups, and the decisions in between.
absl::StatusOr<v1::Explanation> explain(const PlanRequest& request);

/// Returns the operators of the ONNX importer, sorted by domain, name and version.
std::vector<v1::OperatorInfo> operators();

/// Compiles one workload to a relocatable object. Pure: equal units give equal bytes.
absl::StatusOr<v1::BuiltObject> build(const v1::BuildUnit& unit);
/// Like build() above, but looks the unit up in `steps` first. Sets `known` to whether it was found.
absl::StatusOr<v1::BuiltObject> build(const v1::BuildUnit& unit, StepCache* steps, bool& known);

}  // namespace tessera::compiler
