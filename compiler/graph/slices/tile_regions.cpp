#include "compiler/graph/slices/tile_regions.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/fusion/decision.h"
#include "compiler/fusion/region_planner.h"
#include "compiler/fusion/region_plans.h"
#include "compiler/graph/analysis/node_names.h"
#include "compiler/graph/slices/chain_of_groups.h"
#include "compiler/graph/slices/group_profit.h"
#include "compiler/graph/slices/region_graph_of_groups.h"
#include "llvm/ADT/SetVector.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Operation;

/// Returns a core's largest own memory, and the farther level that holds the largest tensors.
std::optional<fusion::RegionLevels> levelsFor(const Chip& chip, const fusion::RegionGraph& graph) {
  const std::optional<size_t> own = chip.ownLevel();
  if (!own) return std::nullopt;
  double largest = 0;
  for (const fusion::GraphTensor& tensor : graph.tensors) {
    double bytes = static_cast<double>(tensor.element_bytes);
    for (int64_t extent : tensor.shape) bytes *= static_cast<double>(extent);
    if (!tensor.constant) largest = std::max(largest, bytes);
  }
  const auto holds = [&](const Chip::Level& level) {
    return level.capacity_bytes == 0 || 2 * largest <= static_cast<double>(level.capacity_bytes);
  };
  size_t far = *own + 1;
  while (far + 1 < chip.levels().size() && !holds(chip.level(far))) ++far;
  return fusion::RegionLevels{{*own}, far};
}

class RegionPricer {
 public:
  RegionPricer(const std::vector<Group>& groups, const fusion::RegionGraph& graph, const Chip& chip,
               const fusion::RegionLevels& levels, GraphChoices& choices, fusion::FusionPolicy fusion_policy)
      : groups_(groups), graph_(graph), chip_(chip), choices_(choices), policy_(fusion_policy) {
    fusion::RegionPlans plans(graph, chip, {{}, levels.far});
    for (int node = 0; node < static_cast<int>(graph.nodes.size()); ++node) alone_.push_back(*plans.of({node}));
  }

  /// Returns nothing if separate execution costs no more.
  std::optional<FusionCandidate> candidateOf(const fusion::Region& region);

 private:
  absl::StatusOr<Group> merged(const fusion::Region& region, double apart) const;

  const std::vector<Group>& groups_;
  const fusion::RegionGraph& graph_;
  const Chip& chip_;
  GraphChoices& choices_;
  fusion::FusionPolicy policy_;
  std::vector<fusion::Region> alone_;  // each group alone, from the farther memory
};

absl::StatusOr<Group> RegionPricer::merged(const fusion::Region& region, double apart) const {
  // First all operations of the region: views are judged by where they come from.
  llvm::SetVector<Operation*> own, ops;
  for (int node : region.nodes) own.insert(groups_[node].ops.begin(), groups_[node].ops.end());
  for (int node : region.nodes) {
    // Views of inner values belong to the region; views of its operands stay outside.
    for (Operation* view : viewsBefore(groups_[node])) {
      Operation* source = view->getOperand(0).getDefiningOp();
      if (source && (own.contains(source) || ops.contains(source))) ops.insert(view);
    }
    ops.insert(groups_[node].ops.begin(), groups_[node].ops.end());
  }
  // Views of intermediates count as readers: if an outer operation reads them, the whole value must be in memory.
  const std::vector<mlir::Value>& results = groups_[region.nodes.back()].results;
  for (Operation* op : ops) {
    for (mlir::Value value : op->getResults()) {
      if (llvm::is_contained(results, value)) continue;
      const bool kept = llvm::all_of(value.getUsers(), [&](Operation* user) {
        return ops.contains(op->getBlock()->findAncestorOpInBlock(*user));
      });
      if (!kept) return absl::InvalidArgumentError("what lies between is read by others as well");
    }
  }
  // All values must be sliced together, as in a chain.
  TESSERA_ASSIGN_OR_RETURN(auto trace, AccessTrace::of(inProgramOrder({ops.begin(), ops.end()})));
  TESSERA_RETURN_IF_ERROR(checkOperands(trace));
  Group group;
  group.ops = trace.ops();
  group.results = groups_[region.nodes.back()].results;
  v1::ChainTiling& tiling = group.chain.emplace();
  const std::vector<int64_t>& shape = graph_.tensors[graph_.nodes[region.nodes.back()].output].shape;
  std::vector<size_t> dimensions;
  for (size_t d = 0; d < shape.size(); ++d)
    if (static_cast<int>(d) != region.halo_dim) dimensions.push_back(d);
  // The slices of a sequence follow each other along the last dimension.
  if (region.halo_dim >= 0) dimensions.push_back(static_cast<size_t>(region.halo_dim));
  for (const size_t d : dimensions) {
    // An uncut dimension needs no tile.
    if (region.slice[d] >= shape[d]) continue;
    const auto cut = std::ranges::find(trace.cuts(), static_cast<int>(d), &AccessTrace::Cut::dimension);
    if (cut == trace.cuts().end()) {
      return absl::InvalidArgumentError(absl::StrCat("dimension ", d, " of the result does not divide all of it"));
    }
    // A dimension that a view splits is cut at whole runs only.
    const int64_t tile = (region.slice[d] + cut->stride - 1) / cut->stride * cut->stride;
    // Slices along this dimension follow each other on one core and keep their halos.
    if (static_cast<int>(d) == region.halo_dim) {
      tiling.add_order(absl::StrCat("d", d));
      tiling.add_tile(region.sequence_length * tile);
    }
    tiling.add_order(absl::StrCat("d", d));
    tiling.add_tile(tile);
  }
  // Then nothing is left for other cores.
  if (tiling.order().empty()) return absl::InvalidArgumentError("one slice would run on one core");
  tiling.set_predicted_bytes(region.traffic_bytes);
  tiling.set_unfused_bytes(apart);
  tiling.set_level(chip_.level(region.level).name);
  return group;
}

std::optional<FusionCandidate> RegionPricer::candidateOf(const fusion::Region& region) {
  double apart = 0, bytes = 0;
  for (const int node : region.nodes) {
    apart += alone_[node].seconds;
    bytes += alone_[node].traffic_bytes;
  }
  // Compares with the groups one by one.
  if (region.seconds >= apart) return std::nullopt;
  FusionCandidate candidate;
  candidate.groups = region.nodes;
  llvm::SmallVector<mlir::Location> locations;
  for (int node : region.nodes) {
    for (Operation* op : groups_[node].ops) locations.push_back(op->getLoc());
  }
  v1::Choice& choice = candidate.choice;
  choice.set_kind(kRegionChoice);
  choice.set_place(choices_.nextPlace(kRegionChoice, nodeNames(locations)));
  choice.set_refusal(choices_.refusal(kRegionChoice, choice.place()));
  candidate.pinned = choices_.pinnedFusion(kRegionChoice, choice.place());
  v1::Decision& decision = candidate.decision;
  decision.set_kind(kRegionChoice);
  decision.set_place(choice.place());
  decision.set_unit("us");
  decision.set_cost(apart * 1e6);
  decision.set_alternative_cost(region.seconds * 1e6);
  v1::FusionProfit& profit = *decision.mutable_profit() = profitOfOne(graph_, region.nodes, fusion::peakOf(chip_));
  profit.set_fused_us(region.seconds * 1e6);
  profit.set_separate_us(apart * 1e6);
  std::string reason = absl::StrFormat(
      "%d groups in %d slices of %s in %s take %.1f us and move %.2f MB, one by one %.1f us and %.2f MB",
      region.nodes.size(), region.slices, absl::StrJoin(region.slice, "x"), chip_.level(region.level).name,
      region.seconds * 1e6, region.traffic_bytes / 1e6, apart * 1e6, bytes / 1e6);
  if (std::isfinite(region.other_seconds) && (region.sequence_length > 1 || region.recomputed_flops > 0)) {
    const double more = (region.other_seconds - region.seconds) * 1e6;
    absl::StrAppend(&reason, region.sequence_length > 1
                                 ? absl::StrFormat(" (halos kept in parts of %d slices: computed again, %.1f us more)",
                                                   region.sequence_length, more)
                                 : absl::StrFormat(" (halos of %.2f MFLOP computed again: kept in parts, %.1f us more)",
                                                   region.recomputed_flops / 1e6, more));
  }
  // Below this share a gain is within the error of the prices.
  const double gain = 1 - region.seconds / apart;
  // The region must also move less, because these prices model less of a node than those of chains.
  const double least = chip_.costParameters().gains().regions_share();
  const bool pays = gain >= least && region.traffic_bytes < bytes;
  candidate.gain_us = (apart * (1 - least) - region.seconds) * 1e6;
  absl::StatusOr<Group> group = merged(region, bytes);
  candidate.feasible = group.ok() && choice.refusal().empty();
  candidate.error = least;
  candidate.eligible =
      candidate.feasible && (pays || policy_ == fusion::FusionPolicy::kWheneverPossible || candidate.pinned == kFused);
  if (!candidate.feasible && candidate.pinned == kFused)
    choices_.refuse(kRegionChoice, choice.place(),
                    group.ok() ? choice.refusal() : std::string(group.status().message()), kSeparate);
  if (!group.ok()) {
    absl::StrAppend(&reason, ": ", group.status().message());
  } else if (!choice.refusal().empty()) {
    absl::StrAppend(&reason, "; not taken, as code generation refuses it: ", choice.refusal());
  } else if (!pays && candidate.pinned == kFused) {
    absl::StrAppend(&reason, "; pinned");
  } else if (!pays) {
    absl::StrAppendFormat(
        &reason, ": a gain of %.1f %%, %s", 100 * gain,
        gain < least ? absl::StrFormat("less than the %.0f %% asked for", 100 * least) : "but not by moving less");
  }
  decision.set_reason(std::move(reason));
  if (group.ok()) candidate.merged = *std::move(group);
  return candidate;
}

}  // namespace

std::vector<FusionCandidate> regionCandidates(const std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
                                              fusion::FusionPolicy fusion_policy, const UsedRowAnalysis* rows) {
  if (groups.size() < 2) return {};
  const fusion::RegionGraph graph = regionGraphOf(groups, rows);
  const std::optional<fusion::RegionLevels> levels = levelsFor(chip, graph);
  if (!levels || !fusion::validate(graph).ok()) return {};
  RegionPricer pricer(groups, graph, chip, *levels, choices, fusion_policy);
  std::vector<FusionCandidate> candidates;
  for (const fusion::Region& region : fusion::possibleRegions(graph, chip, *levels)) {
    auto candidate = pricer.candidateOf(region);
    if (!candidate) continue;
    candidate->variants_id = static_cast<int>(candidates.size());
    candidates.push_back(*std::move(candidate));
  }
  return candidates;
}

}  // namespace tessera::compiler
