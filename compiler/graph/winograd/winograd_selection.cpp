#include "compiler/graph/winograd/winograd_selection.h"

#include <algorithm>

#include "compiler/fusion/selection.h"
#include "compiler/graph/slices/choose_fusions.h"

namespace tessera::compiler {
namespace {

int groupOf(const std::vector<Group>& groups, mlir::Operation* op) {
  const auto found =
      std::ranges::find_if(groups, [&](const Group& group) { return llvm::is_contained(group.ops, op); });
  return static_cast<int>(found - groups.begin());
}

}  // namespace

WinogradSelection selectWinogradForms(mlir::func::FuncOp main,
                                      const std::vector<WinogradCandidate>& winograd_candidates, const Chip& chip,
                                      const GraphChoices& choices, fusion::FusionPolicy fusion_policy,
                                      const UsedRowAnalysis* rows) {
  WinogradSelection selection;
  selection.each.resize(winograd_candidates.size());
  if (winograd_candidates.empty()) return selection;
  const std::vector<Group> groups = formGroups(main);
  std::vector<FusionCandidate> slices;
  if (fusion_policy != fusion::FusionPolicy::kNever) {
    // Finds the candidates with a copy of the choices, because nothing is decided yet.
    GraphChoices asked = choices;
    slices = fusionCandidates(groups, chip, asked, fusion_policy, rows);
  }
  std::vector<fusion::FusionSet> sets;
  std::vector<int> from;  // positions in `slices`, then in `contested`
  // Pinned slices are settled, and so are their groups.
  std::vector<bool> pinned(groups.size(), false);
  for (const FusionCandidate& candidate : slices)
    if (candidate.eligible && candidate.pinned == kFused)
      for (const int group : candidate.groups) pinned[group] = true;
  const auto add = [&](const std::vector<int>& wanted, double gain_us, size_t position) {
    if (gain_us <= 0 || std::ranges::any_of(wanted, [&](int group) { return pinned[group]; })) return;
    sets.push_back({wanted, gain_us});
    from.push_back(static_cast<int>(position));
  };
  for (auto [position, candidate] : llvm::enumerate(slices))
    if (candidate.eligible && candidate.pinned.empty()) add(candidate.groups, candidate.gain_us, position);
  std::vector<int> places(winograd_candidates.size());
  // Rewriting a convolution competes with all slices that contain it.
  for (auto [position, convolution] : llvm::enumerate(winograd_candidates)) {
    places[position] = groupOf(groups, convolution.op);
    add({places[position]}, convolution.gain_us, slices.size() + position);
  }
  // The best selection of disjoint sets.
  const fusion::Selection best = fusion::select(sets);
  selection.optimality_gap_us = best.optimality_gap;
  for (const int taken : best.selected) {
    // The first positions are slices, the others convolutions.
    if (from[taken] >= static_cast<int>(slices.size())) {
      selection.each[from[taken] - slices.size()].rewritten = true;
      continue;
    }
    const FusionCandidate& candidate = slices[from[taken]];
    for (auto [place, outcome] : llvm::zip_equal(places, selection.each))
      if (llvm::is_contained(candidate.groups, place))
        outcome.slices = candidate.decision.place(), outcome.gain_us = candidate.gain_us;
  }
  return selection;
}

}  // namespace tessera::compiler
