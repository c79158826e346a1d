#include "compiler/graph/graph.h"

#include <optional>

#include "compiler/graph/analysis/used_rows.h"
#include "compiler/graph/pipeline.h"
#include "compiler/graph/plan/groups.h"
#include "compiler/graph/plan/loop_bodies.h"
#include "compiler/graph/plan/plan_writer.h"
#include "compiler/graph/plan/prepared_weights.h"
#include "compiler/graph/slices/choose_fusions.h"
#include "compiler/graph/slices/repeat_groups.h"
#include "compiler/ir/loop_op.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/SymbolTable.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

/// Forms groups and selects fusions, again without those that code generation refuses, until it refuses none. Does not
/// change `main`. `choices` holds earlier choices and receives the new ones.
absl::StatusOr<PlannedGraph> planGroups(mlir::func::FuncOp main, const ImportedModel& model, const Chip& chip,
                                        const GraphOptions& options, const LoopPlans& loops, GraphChoices& choices,
                                        std::vector<v1::Decision>& decisions) {
  std::vector<GraphChoices::Refused> refused;
  auto finished = [&](const char* step) {
    if (options.on_step) options.on_step(step);
  };
  const UsedRowAnalysis rows(model, main);
  finished("row-facts");
  while (true) {
    GraphChoices these = choices;
    these.exclude(refused);
    decisions.clear();
    std::vector<Group> groups = formGroups(main);
    finished("form-groups");
    if (options.fusion_policy != fusion::FusionPolicy::kNever) {
      decisions = chooseFusions(groups, chip, these, options.fusion_policy, &rows);
      for (v1::Decision& decision : repeatGroups(groups, chip, these)) decisions.push_back(std::move(decision));
    }
    finished("choose-fusions");
    TESSERA_RETURN_IF_ERROR(these.finish());
    TESSERA_ASSIGN_OR_RETURN(PlannedGraph planned, writePlan(model, std::move(groups), chip, loops, options.states));
    finished("write-plan");
    TESSERA_ASSIGN_OR_RETURN(
        auto more, options.find_refused ? options.find_refused(planned) : std::vector<GraphChoices::Refused>());
    finished("slices-refused");
    if (more.empty()) {
      choices = std::move(these);
      return planned;
    }
    refused.insert(refused.end(), more.begin(), more.end());
  }
}

}  // namespace

absl::StatusOr<PlannedGraph> planGraph(ImportedModel model, const v1::Target& target, const GraphOptions& options) {
  model.module->getContext()
      ->loadDialect<mlir::arith::ArithDialect, mlir::linalg::LinalgDialect, mlir::math::MathDialect,
                    mlir::tensor::TensorDialect, mlir::func::FuncDialect, LoopDialect>();
  auto main = mlir::dyn_cast_or_null<mlir::func::FuncOp>(mlir::SymbolTable::lookupSymbolIn(*model.module, "main"));
  if (!main) return failureStatus(v1::Failure::INTERNAL, "the imported module has no function @main");

  if (options.observer) TESSERA_RETURN_IF_ERROR(options.observer->imported(model));
  std::optional<Canonicalizer> own;
  Canonicalizer& canonicalizer =
      options.canonicalizer ? *options.canonicalizer : own.emplace(*model.module->getContext());
  const Chip chip(target);
  PassState state{.main = main,
                  .chip = chip,
                  .canonicalizer = canonicalizer,
                  .model = &model,
                  .weights = &model.weights,
                  .pins = &options.pins,
                  .folded_weights = options.folded_weights,
                  .code = options.code,
                  .compute_derived = options.observer != nullptr,
                  .fusion_policy = options.fusion_policy};
  PassRecorder recorder(options, model);
  TESSERA_RETURN_IF_ERROR(runPipeline(state, options, recorder));
  TESSERA_ASSIGN_OR_RETURN(LoopPlans loops, planLoopBodies(main, model, target, options));
  TESSERA_ASSIGN_OR_RETURN(auto prepared, selectPreparedWeights(main, model.weights, chip, options.folded_weights,
                                                                options.code.prepares_weights));

  std::vector<v1::Decision> chains;
  TESSERA_ASSIGN_OR_RETURN(PlannedGraph planned, planGroups(main, model, chip, options, loops, state.choices, chains));
  // Prepared weights of loop bodies follow those of main.
  for (PlannedGraph::PreparedWeight& weight : planned.prepared) prepared.push_back(std::move(weight));
  planned.prepared = std::move(prepared);
  if (options.observer) TESSERA_RETURN_IF_ERROR(options.observer->planned(planned));
  *planned.plan.mutable_target() = target;
  v1::GraphReport& report = *planned.plan.mutable_report();
  report.set_layout_transforms(state.layout_transforms);
  report.set_layout_transforms_before(state.layout_transforms_before);
  for (v1::Decision& decision : state.decisions) *report.add_decisions() = std::move(decision);
  for (v1::Decision& decision : chains) *report.add_decisions() = std::move(decision);
  for (const v1::Choice& choice : state.choices.all()) *report.add_choices() = choice;
  report.mutable_rewrites()->Assign(recorder.rewrites().begin(), recorder.rewrites().end());
  addDecisionsOfLoops(loops, report);
  return planned;
}

}  // namespace tessera::compiler
