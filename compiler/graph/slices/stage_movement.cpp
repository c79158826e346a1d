#include "compiler/graph/slices/stage_movement.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/fusion/ceil_div.h"
#include "compiler/graph/analysis/node_names.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/stage_attributes.h"
#include "compiler/graph/analysis/tensor_type.h"
#include "compiler/graph/slices/access_trace.h"
#include "compiler/graph/slices/fuse_chains.h"
#include "compiler/graph/slices/group_links.h"
#include "compiler/graph/slices/group_profit.h"
#include "compiler/graph/slices/region_graph_of_groups.h"

namespace tessera::compiler {
namespace {

using mlir::Operation;
using mlir::RankedTensorType;
using mlir::Value;

/// Rows that a slice of a 3x3 convolution reads beyond its own.
constexpr double kHalo = 2;

/// The stages of a convolution and the groups around them.
struct Surroundings {
  int stages = 0, before = -1, behind = -1;  ///< groups; -1: none
  std::vector<Operation*> views_before = {}, views_behind = {};
  int64_t slice_rows = 0;  ///< of the stages' result; 0: no slices
  int rows = 0;            ///< dimension of the stages' result along which slices are cut
  int rows_behind = -1;    ///< the corresponding dimension of the following group; -1: none
};

struct Variant {
  bool before = false, behind = false;
};

/// Seconds of the movement in separate steps and in slices.
struct Price {
  double apart = 0, slices = 0;
};

int64_t sliceRowsOf(const Group& stages) {
  for (Operation* op : stages.ops)
    if (auto rows = op->getAttrOfType<mlir::IntegerAttr>(kSliceRows)) return rows.getInt();
  return 0;
}

/// Whether the group has only elementwise operations and views, which a slice of rows can apply to its rows.
bool onElements(const Group& group) {
  return llvm::all_of(group.ops,
                      [](Operation* op) { return kindOf(op) == OpKind::kElementwise || kindOf(op) == OpKind::kView; });
}

/// Whether the contiguous dimensions of input and output differ.
bool turns(const Group& group) {
  return llvm::any_of(group.ops, [](Operation* op) {
    auto generic = mlir::dyn_cast<mlir::linalg::GenericOp>(op);
    return generic && llvm::any_of(generic.getIndexingMapsArray(),
                                   [](mlir::AffineMap map) { return map.isPermutation() && !map.isIdentity(); });
  });
}

/// Returns the dimension of the last result of `ops` that corresponds to dimension `rows` of `stages`, from its start
/// and with the same steps; -1 if there is none. Rows that a slice removes from whole blocks are skipped.
int rowsBehind(std::vector<Operation*> ops, Value stages, int rows) {
  Value read = stages;
  std::erase_if(ops, [&](Operation* op) {
    auto slice = mlir::dyn_cast<mlir::tensor::ExtractSliceOp>(op);
    const bool cuts = slice && slice.getSource() == stages && slice.hasZeroOffset() && slice.hasUnitStride() &&
                      slice.getType().getRank() == slice.getSourceType().getRank();
    if (cuts) read = slice.getResult();
    return cuts;
  });
  auto trace = AccessTrace::of(inProgramOrder(std::move(ops)));
  if (!trace.ok()) return -1;
  int dimension = -1;
  for (const AccessTrace::Read& each : trace->reads()) {
    if (each.value != read) continue;
    const Terms& at = trace->space().at(each.held)[static_cast<size_t>(rows)];
    const auto cut = at.size() != 1 || at[0].coefficient != 1
                         ? trace->cuts().end()
                         : std::ranges::find(trace->cuts(), at[0].loop, &AccessTrace::Cut::loop);
    if (cut == trace->cuts().end() || cut->stride != 1 || (dimension >= 0 && cut->dimension != dimension)) return -1;
    dimension = cut->dimension;
  }
  return dimension;
}

class StageMovement {
 public:
  StageMovement(const std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
                fusion::FusionPolicy fusion_policy)
      : groups_(groups),
        chip_(chip),
        choices_(choices),
        policy_(fusion_policy),
        links_(groups),
        graph_(regionGraphOf(groups)) {}

  std::vector<FusionCandidate> run() {
    for (int group = 0; group < static_cast<int>(groups_.size()); ++group)
      if (links_.winograd(group) && groups_[group].results.size() == 1) addVariantsOf(group);
    return std::move(candidates_);
  }

 private:
  Surroundings surroundingsOf(int stages) const;
  void addVariantsOf(int stages);
  FusionCandidate candidateOf(const Surroundings& at, const Variant& variant);
  void decline(const Surroundings& at, const std::string& reason);
  Price price(const Surroundings& at, const Variant& variant) const;
  /// Returns the cycles per element, in a separate step or within a slice.
  double cycles(bool turned, bool in_slices) const;
  std::string namesOf(const std::vector<int>& groups) const;

  const std::vector<Group>& groups_;
  const Chip& chip_;
  GraphChoices& choices_;
  fusion::FusionPolicy policy_;
  const GroupLinks links_;
  const fusion::RegionGraph graph_;  // of the groups, for their profit
  std::vector<FusionCandidate> candidates_;
};

std::string StageMovement::namesOf(const std::vector<int>& groups) const {
  llvm::SmallVector<mlir::Location> locations;
  for (const int group : groups)
    for (Operation* op : groups_[group].ops) locations.push_back(op->getLoc());
  return nodeNames(locations);
}

Surroundings StageMovement::surroundingsOf(int stages) const {
  const Value result = groups_[stages].results[0];
  Surroundings at{.stages = stages, .slice_rows = sliceRowsOf(groups_[stages]), .rows = rowsOf(tensorType(result))};
  // What follows must be the only reader and work on each element.
  if (GroupLink link = links_.linkOf(stages); link.reader >= 0 && link.others.empty() &&
                                              onElements(groups_[link.reader]) &&
                                              groups_[link.reader].results.size() == 1) {
    at.behind = link.reader;
    at.views_behind = std::move(link.views);
    std::vector<Operation*> ops = at.views_behind;
    llvm::append_range(ops, groups_[at.behind].ops);
    at.rows_behind = rowsBehind(std::move(ops), result, at.rows);
  }
  at.before = links_.movementBefore(stages);
  if (at.before >= 0) at.views_before = links_.linkOf(at.before).views;
  return at;
}

double StageMovement::cycles(bool turned, bool in_slices) const {
  const v1::CostParameters::Copies& parameters = chip_.costParameters().copies();
  if (in_slices) return turned ? parameters.slice_transpose_cycles() : parameters.slice_copy_cycles();
  return turned ? parameters.transpose_cycles() : parameters.copy_cycles();
}

Price StageMovement::price(const Surroundings& at, const Variant& variant) const {
  const v1::CostParameters::Overheads& steps = chip_.costParameters().overheads();
  const RankedTensorType made = tensorType(groups_[at.stages].results[0]);
  const auto rows = static_cast<double>(at.slice_rows);
  const auto slices = static_cast<double>(made.getDimSize(0) * ceilDiv(made.getDimSize(at.rows), at.slice_rows));
  // Transposes work in squares of a vector's size; in slices they work line by line, so the last square of a line is
  // partial.
  const int64_t line = made.getDimSize(at.rows + 1);
  const double full = static_cast<double>(ceilDiv(line, chip_.lanes()) * chip_.lanes()) / static_cast<double>(line);
  Price price;
  const auto add = [&](const Group& moving, double again) {
    const auto elements = static_cast<double>(tensorType(moving.results[0]).getNumElements());
    const bool turned = turns(moving);
    // Apart: a step, and each element moved at the price of a step.
    price.apart += chip_.seconds(steps.phase_cycles() + (elements * cycles(turned, false)));
    price.slices +=
        chip_.seconds((slices * steps.nest_cycles()) + (again * elements * (turned ? full : 1) * cycles(turned, true)));
  };
  if (variant.before) {
    const RankedTensorType read = tensorType(groups_[at.before].results[0]);
    // A slice reads rows of its neighbours as well, again for each slice.
    const auto all = static_cast<double>(read.getDimSize(0) * read.getDimSize(rowsOf(read)));
    add(groups_[at.before], std::max(1.0, slices * (rows + kHalo) / all));
  }
  if (variant.behind) {
    add(groups_[at.behind], 1);
    // A slice's part of each plane (the dimensions before the rows) is a separate run of memory.
    const RankedTensorType written = tensorType(groups_[at.behind].results[0]);
    double planes = 1;
    for (int d = 1; d < at.rows_behind; ++d) planes *= static_cast<double>(written.getDimSize(d));
    if (turns(groups_[at.behind])) price.slices += chip_.seconds(slices * planes * steps.run_cycles());
  }
  return price;
}

void StageMovement::decline(const Surroundings& at, const std::string& reason) {
  FusionCandidate& candidate = candidates_.emplace_back();
  if (at.before >= 0) candidate.groups.push_back(at.before);
  candidate.groups.push_back(at.stages);
  if (at.behind >= 0) candidate.groups.push_back(at.behind);
  candidate.variants_id = at.stages;
  candidate.decision.set_kind(kChainChoice);
  candidate.decision.set_place(namesOf(candidate.groups));
  candidate.decision.set_unit("us");
  candidate.decision.set_reason(reason);
}

FusionCandidate StageMovement::candidateOf(const Surroundings& at, const Variant& variant) {
  FusionCandidate candidate;
  if (variant.before) candidate.groups.push_back(at.before);
  candidate.groups.push_back(at.stages);
  if (variant.behind) candidate.groups.push_back(at.behind);
  candidate.variants_id = at.stages;
  v1::Choice& choice = candidate.choice;
  choice.set_kind(kChainChoice);
  choice.set_place(choices_.nextPlace(kChainChoice, namesOf(candidate.groups)));
  choice.set_refusal(choices_.refusal(kChainChoice, choice.place()));
  candidate.pinned = choices_.pinnedFusion(kChainChoice, choice.place());
  candidate.feasible = choice.refusal().empty();
  if (candidate.pinned == kFused && !candidate.feasible)
    choices_.refuse(kChainChoice, choice.place(), choice.refusal(), kSeparate);

  const Price price = this->price(at, variant);
  const double apart = price.apart * 1e6, slices = price.slices * 1e6;
  candidate.error = chip_.costParameters().gains().regions_share();
  // The gain must exceed the error that such prices usually have.
  candidate.gain_us = (apart * (1 - candidate.error)) - slices;
  const bool pays = candidate.gain_us > 0;
  // Pins and the test mode take what prices would not.
  candidate.eligible =
      candidate.feasible && (pays || policy_ == fusion::FusionPolicy::kWheneverPossible || candidate.pinned == kFused);
  v1::Decision& decision = candidate.decision;
  decision.set_kind(kChainChoice);
  decision.set_place(choice.place());
  decision.set_unit("us");
  decision.set_cost(apart);
  decision.set_alternative_cost(slices);
  v1::FusionProfit& profit = *decision.mutable_profit() = profitOfOne(graph_, candidate.groups, fusion::peakOf(chip_));
  profit.set_fused_us(slices);
  profit.set_separate_us(apart);
  std::string reason =
      absl::StrFormat("what is moved %s the stages takes %.1f us in their slices of %d rows, in %s of its own %.1f us",
                      variant.before && variant.behind ? "before and behind" : (variant.before ? "before" : "behind"),
                      slices, at.slice_rows, variant.before && variant.behind ? "steps" : "a step", apart);
  if (!candidate.feasible) {
    absl::StrAppend(&reason, "; not taken, as code generation refuses it: ", choice.refusal());
  } else if (!candidate.pinned.empty() && (candidate.pinned == kFused) != pays) {
    absl::StrAppend(&reason, "; pinned");
  } else if (!pays) {
    absl::StrAppendFormat(&reason, ": a gain of %.1f %%, less than the %.0f %% asked for", 100 * (1 - (slices / apart)),
                          100 * candidate.error);
  }
  decision.set_reason(std::move(reason));

  std::vector<Operation*> ops;
  if (variant.before) llvm::append_range(ops, at.views_before);
  if (variant.behind) llvm::append_range(ops, at.views_behind);
  for (const int group : candidate.groups) llvm::append_range(ops, groups_[group].ops);
  candidate.merged.ops = inProgramOrder(std::move(ops));
  candidate.merged.results = groups_[candidate.groups.back()].results;
  v1::ChainTiling& tiling = candidate.merged.chain.emplace();
  tiling.add_order("d0");
  tiling.add_tile(1);
  tiling.add_order(absl::StrCat("d", variant.behind ? at.rows_behind : at.rows));
  tiling.add_tile(at.slice_rows);
  return candidate;
}

/// Adds the variants with both movements, with the one after the stages, and with the one before them. A variant is
/// added even if another one is refused.
void StageMovement::addVariantsOf(int stages) {
  Surroundings at = surroundingsOf(stages);
  if (at.before < 0 && at.behind < 0) return;
  if (at.slice_rows == 0)
    return decline(at,
                   "the stages of the convolution are not cut into slices, so nothing that is moved would stay near");
  if (at.before < 0 && at.rows_behind < 0)
    return decline(at, "what follows does not go over the rows that the stages are cut along");
  const bool behind = at.rows_behind >= 0;
  std::vector<FusionCandidate> variants;
  for (const Variant& variant : {Variant{true, true}, Variant{false, true}, Variant{true, false}})
    if ((!variant.before || at.before >= 0) && (!variant.behind || behind))
      variants.push_back(candidateOf(at, variant));
  const bool apart = std::ranges::count(variants, std::string(kSeparate), &FusionCandidate::pinned) > 0;
  for (FusionCandidate& each : variants) {
    each.eligible &= !apart || each.pinned == kFused;
    candidates_.push_back(std::move(each));
  }
}

}  // namespace

std::vector<FusionCandidate> stageMovementCandidates(const std::vector<Group>& groups, const Chip& chip,
                                                     GraphChoices& choices, fusion::FusionPolicy fusion_policy) {
  if (chip.levels().size() < 2) return {};  // there is no nearer memory
  return StageMovement(groups, chip, choices, fusion_policy).run();
}

}  // namespace tessera::compiler
