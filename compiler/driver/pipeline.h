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

/// The compiler as its users see it: two passes and a packaging step, each a value in, a value out.
/// No MLIR type appears here. Errors carry a v1::Failure (proto/messages/failure.h).
namespace tessera::compiler {

using ProgressFn = std::function<void(const v1::Progress&)>;

/// A model and everything it refers to, as local files.
struct PlanRequest {
  std::string model_path;
  v1::CompileSpec spec;
  v1::Target target;                                        ///< resolved and validated
  std::map<std::string, std::string> external_data;         ///< external-data location -> local file
  std::string weights_path;                                 ///< where the weights section is written; empty: nowhere
  bool describe_model = false;                              ///< whether PlanResult.model and operators are wanted
  fusion::Merging merging = fusion::Merging::kWhereItPays;  ///< of chains and regions
  v1::Pins pins = {};          ///< decisions to take over; spec.pin_use says what is made of them
  StepCache* steps = nullptr;  ///< of schedules; null: each is decided anew
  /// Called at the end of each step of planning with the step's name, to measure time and memory of steps.
  std::function<void(const char* step)> finished = nullptr;
};

struct PlanResult {
  v1::Plan plan;
  std::vector<v1::BuildUnit> units;         ///< one per distinct workload, in Plan.workloads' order
  bool has_weights = false;                 ///< whether weights_path was written
  v1::GraphView model;                      ///< the model's own nodes, as the first variant has them
  std::vector<v1::OperatorNest> operators;  ///< loop nests of `model`, likewise
  double import_ms = 0;
  double plan_ms = 0;
};

/// Imports the model and takes every decision: fused groups, layouts, schedules, memory plan; for each variant that the
/// specification asks for (compiler/driver/specializations.h), in one plan. Equal requests give equal bytes, also when
/// they name their specializations in another order. Pinned decisions are followed, the others decided around them.
/// Errors: INVALID_SCHEDULE that names the place, or the workload and the path of its tile, for a pin that cannot be
/// followed or that nothing of the model asks for. Trees that are suggested only are followed where they can be: a
/// Decision of kind "schedule" for each.
absl::StatusOr<PlanResult> plan(const PlanRequest& request, const ProgressFn& progress);

/// Every node of a model that plan() would refuse, and why, without compiling it. What the model lacks is the answer,
/// not an error; an error is about the request. The target has no part in it.
absl::StatusOr<v1::CheckReport> check(const PlanRequest& request);

/// What plan() makes of a model: its graph, the fused groups, and the decisions in between.
absl::StatusOr<v1::Explanation> explain(const PlanRequest& request);

/// What the ONNX importer knows, sorted by domain, name and version.
std::vector<v1::OperatorInfo> operators();

/// Compiles one workload to a relocatable object. Pure: equal units give equal bytes.
absl::StatusOr<v1::BuiltObject> build(const v1::BuildUnit& unit);
/// The same, or what was built of this very unit before; `known` says which.
absl::StatusOr<v1::BuiltObject> build(const v1::BuildUnit& unit, StepCache* steps, bool& known);

}  // namespace tessera::compiler
