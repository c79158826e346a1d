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
                                      const GraphChoices& choices, fusion::Merging merging,
                                      const UsedRowAnalysis* rows) {
  WinogradSelection selection;
  selection.each.resize(winograd_candidates.size());
  if (winograd_candidates.empty()) return selection;
  const std::vector<Group> groups = formGroups(main);
  std::vector<FusionCandidate> slices;
  if (merging != fusion::Merging::kNever) {
    // Asks for offers with a copy of the choices, because nothing is decided yet.
    GraphChoices asked = choices;
    slices = fusionCandidates(groups, chip, asked, merging, rows);
  }
  std::vector<fusion::Offer> offers;
  std::vector<int> from;  // positions in `slices`, then in `contested`
  // Pinned slices are settled, and so are their groups.
  std::vector<bool> pinned(groups.size(), false);
  for (const FusionCandidate& offer : slices)
    if (offer.eligible && offer.pinned == kFused)
      for (const int group : offer.groups) pinned[group] = true;
  const auto add = [&](const std::vector<int>& wanted, double gain_us, size_t position) {
    if (gain_us <= 0 || std::ranges::any_of(wanted, [&](int group) { return pinned[group]; })) return;
    offers.push_back({wanted, gain_us});
    from.push_back(static_cast<int>(position));
  };
  for (auto [position, offer] : llvm::enumerate(slices))
    if (offer.eligible && offer.pinned.empty()) add(offer.groups, offer.gain_us, position);
  std::vector<int> places(winograd_candidates.size());
  // Rewriting a convolution competes with all slices that contain it.
  for (auto [position, convolution] : llvm::enumerate(winograd_candidates)) {
    places[position] = groupOf(groups, convolution.op);
    add({places[position]}, convolution.gain_us, slices.size() + position);
  }
  // The best selection of offers that share no group.
  const fusion::Selection best = fusion::select(offers);
  selection.missed_us = best.missed;
  for (const int taken : best.taken) {
    // The first positions are slices, the others convolutions.
    if (from[taken] >= static_cast<int>(slices.size())) {
      selection.each[from[taken] - slices.size()].rewritten = true;
      continue;
    }
    const FusionCandidate& offer = slices[from[taken]];
    for (auto [place, outcome] : llvm::zip_equal(places, selection.each))
      if (llvm::is_contained(offer.groups, place))
        outcome.slices = offer.decision.place(), outcome.gain_us = offer.gain_us;
  }
  return selection;
}

}  // namespace tessera::compiler
