#include "compiler/graph/graph.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/graph/constants/fold_constants.h"
#include "compiler/graph/constants/fold_scales.h"
#include "compiler/graph/facts/rows.h"
#include "compiler/graph/layout/interleave_products.h"
#include "compiler/graph/layout/layout.h"
#include "compiler/graph/layout/matmul_layout.h"
#include "compiler/graph/layout/narrow_pairs.h"
#include "compiler/graph/layout/widen_products.h"
#include "compiler/graph/plan/groups.h"
#include "compiler/graph/plan/loop_bodies.h"
#include "compiler/graph/plan/plan_writer.h"
#include "compiler/graph/plan/prepared_weights.h"
#include "compiler/graph/rewrites/absorb_transposes.h"
#include "compiler/graph/rewrites/algebra.h"
#include "compiler/graph/rewrites/busy_taps.h"
#include "compiler/graph/rewrites/casts.h"
#include "compiler/graph/rewrites/concat.h"
#include "compiler/graph/rewrites/cut_bodies.h"
#include "compiler/graph/rewrites/fusion.h"
#include "compiler/graph/rewrites/half_sums.h"
#include "compiler/graph/rewrites/hoist_elementwise.h"
#include "compiler/graph/rewrites/hoist_from_loops.h"
#include "compiler/graph/rewrites/idle_taps.h"
#include "compiler/graph/rewrites/merge_products.h"
#include "compiler/graph/rewrites/movement.h"
#include "compiler/graph/rewrites/narrow_pads.h"
#include "compiler/graph/rewrites/narrow_products.h"
#include "compiler/graph/rewrites/position_masks.h"
#include "compiler/graph/rewrites/round_products.h"
#include "compiler/graph/rewrites/share_pads.h"
#include "compiler/graph/rewrites/shared_bodies.h"
#include "compiler/graph/rewrites/simplify.h"
#include "compiler/graph/rewrites/sink_views.h"
#include "compiler/graph/rewrites/split_sums.h"
#include "compiler/graph/rewrites/stack_products.h"
#include "compiler/graph/rewrites/wide_concats.h"
#include "compiler/graph/rewrites/wide_splits.h"
#include "compiler/graph/slices/choose_fusions.h"
#include "compiler/graph/slices/repeat_groups.h"
#include "compiler/graph/winograd/whole_blocks.h"
#include "compiler/graph/winograd/winograd.h"
#include "compiler/ir/loop_op.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/Verifier.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

constexpr char kRoundProducts[] = "round-products";

/// Returns the decision on rounding products, with the outcome.
v1::Decision precisionDecision(int products, const Chip& chip) {
  v1::Decision decision;
  decision.set_kind("precision");
  decision.set_place("model");
  decision.set_taken(products > 0);
  decision.set_reason(absl::StrCat(
      products, products == 1 ? " product reads" : " products read", " operands rounded to bf16, summed up in f32 ",
      groupOf(chip.dotProducts(), 16) > 0 ? "by pairs" : "one by one: the target has no instruction for pairs"));
  return decision;
}

/// Forms groups and selects fusions, again without those that code generation refuses, until it refuses none. Does not
/// change `main`. `choices` holds earlier choices and receives the new ones.
absl::StatusOr<PlannedGraph> planGroups(mlir::func::FuncOp main, const ImportedModel& model, const Chip& chip,
                                        const GraphOptions& options, const LoopPlans& loops, GraphChoices& choices,
                                        std::vector<v1::Decision>& decisions) {
  std::vector<GraphChoices::Refused> refused;
  auto finished = [&](const char* step) {
    if (options.finished) options.finished(step);
  };
  const RowFacts rows(model, main);
  finished("row-facts");
  while (true) {
    GraphChoices these = choices;
    these.exclude(refused);
    decisions.clear();
    std::vector<Group> groups = formGroups(main);
    finished("form-groups");
    if (options.chains != fusion::Merging::kNever) {
      decisions = chooseFusions(groups, chip, these, options.chains, &rows);
      for (v1::Decision& decision : repeatGroups(groups, chip, these)) decisions.push_back(std::move(decision));
    }
    finished("choose-fusions");
    TESSERA_RETURN_IF_ERROR(these.finish());
    TESSERA_ASSIGN_OR_RETURN(PlannedGraph planned, writePlan(model, std::move(groups), chip, loops));
    finished("write-plan");
    TESSERA_ASSIGN_OR_RETURN(auto more,
                             options.refused ? options.refused(planned) : std::vector<GraphChoices::Refused>());
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

  std::vector<v1::RewriteCount> rewrites;
  // An observer checks the graph after each rewrite that changed it; its first error ends planning.
  absl::Status observed = options.observer ? options.observer->imported(model) : absl::OkStatus();
  auto changed = [&](const char* name) {
    if (options.observer && observed.ok()) observed = options.observer->rewritten(name, model);
  };
  auto finished = [&](const char* name) {
    if (options.finished) options.finished(name);
  };
  // Counts a rewrite in the report, under the name of its pass.
  auto count = [&](const char* name, int times) {
    finished(name);
    if (times == 0) return;
    changed(name);
    for (v1::RewriteCount& rewrite : rewrites) {
      if (rewrite.name() == name) return rewrite.set_count(rewrite.count() + times);
    }
    rewrites.emplace_back().set_name(name);
    rewrites.back().set_count(times);
  };
  auto fold = [&] {
    const int folded = foldConstants(main, &model.weights, options.memory, options.prepare_weights);
    // An observer reads all weights, so their bytes must exist.
    if (!options.observer) {
      forgetUnread(main, model.weights);
    } else if (observed.ok()) {
      observed = computeDerived(main, model.weights, options.memory);
    }
    count("fold-constants", folded);
  };
  std::optional<Canonicalizer> own;
  Canonicalizer& canonicalizer =
      options.canonicalizer ? *options.canonicalizer : own.emplace(*model.module->getContext());
  std::optional<mlir::OperationFingerPrint> clean;  // fingerprint of the graph after a cleanup that changed nothing
  // Comparing fingerprints is cheaper than canonicalizing a graph that has not changed.
  auto cleanUp = [&] {
    const mlir::OperationFingerPrint before(main);
    finished("fingerprint");
    if (clean == before) return observed;
    count("remove-dead-code", removeDeadCode(main));
    count("eliminate-duplicates", eliminateDuplicates(main));
    TESSERA_RETURN_IF_ERROR(canonicalizeGraph(main, canonicalizer));
    changed("canonicalize");
    if (mlir::OperationFingerPrint(main) == before) clean = before;
    finished("canonicalize");
    return observed;
  };
  // Brings the imported operations to one form, on which all later rewrites rely.
  count("generalize-named-ops", generalizeNamedOps(main));
  count("hoist-from-loops", hoistFromLoops(main));
  TESSERA_RETURN_IF_ERROR(cleanUp());
  count("recognize-concat", recognizeConcats(main));
  count("nest-concats", nestConcats(main));
  count("drop-unit-broadcasts", dropUnitBroadcasts(main));
  const Chip chip(target);
  // Runs before constant folding, which would otherwise store 16-bit weights at twice and 8-bit weights at four times
  // their size.
  count("sum-halves-in-single", sumHalvesInSingle(main));
  count("widen-on-load", widenOnLoad(main));
  count("narrow-products", narrowProducts(main, chip, &model.weights));
  TESSERA_RETURN_IF_ERROR(cleanUp());
  fold();
  count("eliminate-casts", eliminateCasts(main));
  count("simplify-algebra", simplifyAlgebra(main));
  count("simplify-movement", simplifyMovement(main));
  if (!hasRanges(model)) count("drop-idle-taps", dropIdleTaps(main));
  if (!hasRanges(model)) count("keep-busy-taps", keepBusyTaps(main, chip, &model.weights));
  TESSERA_RETURN_IF_ERROR(cleanUp());
  // Views are sunk first after plain products, to expose their elementwise operations, and below after packed products.
  count("fuse-elementwise", fuseElementwise(main));
  if (const int hoisted = hoistElementwise(main); hoisted > 0) {
    count("hoist-elementwise", hoisted);
    fold();
  }
  count("sink-views", sinkViews(main));
  count("fuse-elementwise", fuseElementwise(main));
  count("split-elementwise-of-concat", splitElementwiseOfConcat(main));
  count("fuse-elementwise", fuseElementwise(main));
  count("fold-scales", foldScales(main, &model.weights));
  // Conversions and signs that fusion has brought into one body can cancel only now.
  count("eliminate-casts", eliminateCasts(main));
  count("simplify-algebra", simplifyAlgebra(main));
  count("simplify-movement", simplifyMovement(main));
  TESSERA_RETURN_IF_ERROR(cleanUp());
  fold();
  count("merge-products", mergeProducts(main));
  count("stack-products", stackProducts(main, chip));
  fold();
  count("absorb-transposes", absorbTransposes(main));
  const int rounded = options.round_products ? roundProducts(main) : 0;
  if (rounded > 0) {
    if (options.observer && observed.ok()) observed = options.observer->rounded(kRoundProducts, model);
    rewrites.emplace_back().set_name(kRoundProducts);
    rewrites.back().set_count(rounded);
    count("remove-dead-code", removeDeadCode(main));
    // Conversions merge into their readers before equal ones are deduplicated, which would leave a copy.
    count("widen-on-load", widenOnLoad(main));
    count("fuse-elementwise", fuseElementwise(main));
    fold();
  }
  // Layouts come before panels: a product on a flattened activation first gets its rows in the activation's order.
  GraphChoices choices(pinsOutsideOfLoops(main, options.pins));
  LayoutReport layouts = assignLayouts(main, chip, choices);
  if (!choices.status().ok()) return choices.status();
  count("assign-layouts", layouts.operations);
  count("narrow-pads", narrowPads(main));
  TESSERA_RETURN_IF_ERROR(cleanUp());
  fold();
  count("pack-matmuls", packMatmuls(main, chip));
  fold();
  count("widen-products", widenProducts(main, chip, &model.weights));
  count("interleave-products", interleaveProducts(main, chip, 8));
  count("multiply-exactly-in-single", multiplyExactlyInSingle(main));
  count("sink-views", sinkViews(main));
  fold();
  count("fuse-elementwise", fuseElementwise(main));
  const int layout_transforms = countLayoutTransforms(main);
  TESSERA_RETURN_IF_ERROR(cleanUp());
  WinogradReport winograd;
  if (options.winograd) {
    const RowFacts rows(model, main);
    winograd = applyWinograd(main, chip, choices, options.chains, &rows);
    count("winograd", winograd.rewritten);
    count("cut-behind-followers", cutBehindFollowers(main));
    fold();
  }
  if (const int pairs = interleaveProducts(main, chip, 16); pairs > 0) {
    count("interleave-products", pairs);
    fold();
    TESSERA_RETURN_IF_ERROR(cleanUp());
  }
  count("compare-positions", comparePositions(main, &model.weights));
  count("share-pads", sharePads(main));
  count("align-slices", alignSlices(main));
  std::vector<v1::Decision> splits;
  if (!hasRanges(model)) splits = splitSums(main, chip, choices);
  count("split-sums", static_cast<int>(std::ranges::count(splits, true, &v1::Decision::taken)));
  if (!hasRanges(model)) count("split-long-sums", splitLongSums(main, chip));
  const std::vector<v1::Decision> cuts = cutBodies(main, chip, choices);
  count("cut-bodies", static_cast<int>(std::ranges::count(cuts, true, &v1::Decision::taken)));
  count("cut-wide-splits", cutWideSplits(main));
  count("cut-wide-concats", cutWideConcats(main));
  count("share-bodies", shareBodiesOfManyNumbers(main));
  constantsToWeights(main, model.weights);
  changed("constants-to-weights");
  markNarrowPairs(main, chip, model.weights);
  finished("constants-to-weights");
  if (!observed.ok()) return observed;
  TESSERA_ASSIGN_OR_RETURN(LoopPlans loops, planLoopBodies(main, model, target, options));
  TESSERA_ASSIGN_OR_RETURN(auto prepared,
                           settleWeights(main, model.weights, chip, options.memory, options.prepare_weights));

  std::vector<v1::Decision> chains;
  TESSERA_ASSIGN_OR_RETURN(PlannedGraph planned, planGroups(main, model, chip, options, loops, choices, chains));
  // Prepared weights of loop bodies follow those of main.
  for (PlannedGraph::PreparedWeight& weight : planned.prepared) prepared.push_back(std::move(weight));
  planned.prepared = std::move(prepared);
  if (options.observer) observed = options.observer->planned(planned);
  if (!observed.ok()) return observed;
  *planned.plan.mutable_target() = target;
  planned.plan.mutable_report()->set_layout_transforms(layout_transforms);
  planned.plan.mutable_report()->set_layout_transforms_before(layouts.transforms_before);
  if (options.round_products) *planned.plan.mutable_report()->add_decisions() = precisionDecision(rounded, chip);
  for (v1::Decision& decision : layouts.decisions) {
    *planned.plan.mutable_report()->add_decisions() = std::move(decision);
  }
  for (v1::Decision& decision : winograd.decisions) {
    *planned.plan.mutable_report()->add_decisions() = std::move(decision);
  }
  for (const v1::Decision& decision : splits) *planned.plan.mutable_report()->add_decisions() = decision;
  for (const v1::Decision& decision : cuts) *planned.plan.mutable_report()->add_decisions() = decision;
  for (v1::Decision& decision : chains) *planned.plan.mutable_report()->add_decisions() = std::move(decision);
  for (const v1::Choice& choice : choices.all()) *planned.plan.mutable_report()->add_choices() = choice;
  for (v1::RewriteCount& rewrite : rewrites) *planned.plan.mutable_report()->add_rewrites() = std::move(rewrite);
  addDecisionsOfLoops(loops, *planned.plan.mutable_report());
  return planned;
}

}  // namespace tessera::compiler
