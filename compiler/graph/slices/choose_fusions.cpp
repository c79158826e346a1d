#include "compiler/graph/slices/choose_fusions.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/fusion/selection.h"
#include "compiler/graph/analysis/summary.h"
#include "compiler/graph/slices/fuse_chains.h"
#include "compiler/graph/slices/stage_movement.h"
#include "compiler/graph/slices/tile_regions.h"

namespace tessera::compiler {
namespace {

/// Gain assumed for candidates that lose, with fusion::FusionPolicy::kWheneverPossible.
constexpr double kNextToNothing = 1e-9;
/// Fraction of all gains below which a difference is a rounding error.
constexpr double kMinReported = 1e-6;

bool isRegion(const FusionCandidate& candidate) { return candidate.decision.kind() == kRegionChoice; }

class FusionChooser {
 public:
  FusionChooser(std::vector<Group>& groups, std::vector<FusionCandidate> candidates, GraphChoices& choices)
      : groups_(groups),
        choices_(choices),
        candidates_(std::move(candidates)),
        taken_by_(groups.size(), -1),
        goes_on_(groups.size(), false) {
    for (const FusionCandidate& candidate : candidates_) {
      if (!candidate.eligible || isRegion(candidate) || candidate.pinned == kSeparate) continue;
      for (const int group : candidate.groups) goes_on_[group] = goes_on_[group] || group != candidate.groups.back();
    }
  }

  /// Pinned candidates first, then those whose end no other one continues, then the waiting ones.
  std::vector<v1::Decision> run() {
    takePinned();
    const fusion::Selection together = select(openCandidates(std::nullopt));
    const double gain = takeBest(/*waiting=*/false) + takeBest(/*waiting=*/true);
    summarize(together, gain);
    std::vector<bool> reported = candidatesToReport();
    for (size_t i = 0; i < candidates_.size(); ++i)
      // Texts are made before settle() moves operations.
      if (reported[i]) candidates_[i].choice.set_subject(subjectOf(candidates_[i]));
    std::vector<v1::Decision> decisions;
    for (size_t i = 0; i < candidates_.size(); ++i)
      if (reported[i]) decisions.push_back(settle(static_cast<int>(i)));
    if (summary_) decisions.push_back(*std::move(summary_));
    // Groups that were merged into another one are empty now.
    std::erase_if(groups_, [](const Group& group) { return group.ops.empty(); });
    return decisions;
  }

 private:
  bool isTaken(int candidate) const { return taken_by_[candidates_[candidate].groups.back()] == candidate; }
  bool isFree(const FusionCandidate& candidate) const {
    return std::ranges::all_of(candidate.groups, [&](int group) { return taken_by_[group] < 0; });
  }
  void take(int candidate) {
    for (const int group : candidates_[candidate].groups) taken_by_[group] = candidate;
  }

  void takePinned();
  bool waits(const FusionCandidate& candidate) const;
  std::vector<int> openCandidates(std::optional<bool> waiting) const;
  fusion::Selection select(const std::vector<int>& open) const;
  double takeBest(bool waiting);
  void summarize(const fusion::Selection& together, double gain);
  std::vector<bool> candidatesToReport() const;
  std::string subjectOf(const FusionCandidate& candidate) const;
  std::string whyNot(const FusionCandidate& candidate) const;
  void addPrices(int at, v1::Choice& made) const;
  v1::Decision settle(int at);

  std::vector<Group>& groups_;
  GraphChoices& choices_;
  std::vector<FusionCandidate> candidates_;
  std::vector<int> taken_by_;  // by group
  std::vector<bool> goes_on_;  // by group: an available candidate contains it before its last group
  std::optional<v1::Decision> summary_;
};

/// Takes candidates that a pin fuses; a second pin on the same group is refused.
void FusionChooser::takePinned() {
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const FusionCandidate& candidate = candidates_[i];
    if (!candidate.eligible || candidate.pinned != kFused) continue;
    if (isFree(candidate)) {
      take(static_cast<int>(i));
    } else {
      choices_.refuse(candidate.choice.kind(), candidate.choice.place(), "a part of it belongs to another pinned one",
                      kSeparate);
    }
  }
}

/// Whether another candidate continues from the normalized rows at the end of this one: fusing that one removes the
/// rows.
bool FusionChooser::waits(const FusionCandidate& candidate) const {
  return candidate.ends_in_normalized_rows && goes_on_[candidate.groups.back()];
}

/// Returns positions of candidates that are still available; with `waiting`, only those with waits() == *waiting.
std::vector<int> FusionChooser::openCandidates(std::optional<bool> waiting) const {
  std::vector<int> open;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const FusionCandidate& candidate = candidates_[i];
    if (candidate.eligible && candidate.pinned.empty() && isFree(candidate) &&
        (!waiting || waits(candidate) == *waiting))
      open.push_back(static_cast<int>(i));
  }
  return open;
}

/// Selects the best of them; the result's positions refer to `open`.
fusion::Selection FusionChooser::select(const std::vector<int>& open) const {
  std::vector<fusion::FusionSet> sets;
  for (const int i : open) sets.push_back({candidates_[i].groups, std::max(candidates_[i].gain_us, kNextToNothing)});
  return fusion::select(sets);
}

/// Takes the best selection and returns its gain.
double FusionChooser::takeBest(bool waiting) {
  const std::vector<int> open = openCandidates(waiting);
  const fusion::Selection best = select(open);
  for (const int taken : best.selected) take(open[taken]);
  return best.gain;
}

/// Reports by how much the taken candidates may fall short of the best selection `together`, because some waited or the
/// selection was not exact. Reports nothing if they are optimal, so that a plan with all choices pinned has the same
/// report.
void FusionChooser::summarize(const fusion::Selection& together, double gain) {
  const double missed = together.gain + together.optimality_gap - gain;
  if (missed <= kMinReported * together.gain) return;
  int taken = 0;
  for (size_t i = 0; i < candidates_.size(); ++i)
    taken += static_cast<int>(candidates_[i].pinned.empty() && isTaken(static_cast<int>(i)));
  v1::Decision& summary = summary_.emplace();
  summary.set_kind("fusion");
  summary.set_place("model");
  summary.set_unit("us");
  summary.set_taken(true);
  summary.set_reason(
      absl::StrFormat("%d fusions are taken and gain %.1f us beyond the errors of their prices; of up to %d that were "
                      "offered and overlap "
                      "another choice gains at most %.1f us more",
                      taken, gain, together.largest_part, missed));
}

/// Selects the candidates to report. Of the variants of one fusion: the taken one, else the pinned one, else the best.
/// Of other regions: those with the largest total gain besides the taken and reported ones.
std::vector<bool> FusionChooser::candidatesToReport() const {
  std::vector<bool> reported(candidates_.size(), false), covered(groups_.size(), false);
  std::vector<int> others;
  for (size_t i = 0; i < candidates_.size();) {
    // The order of preference among the variants of one fusion.
    auto rank = [&](size_t at) {
      const FusionCandidate& candidate = candidates_[at];
      return std::tuple(isTaken(static_cast<int>(at)), !candidate.pinned.empty(), candidate.eligible,
                        candidate.gain_us);
    };
    size_t end = i, best = i;
    for (; end < candidates_.size() && candidates_[end].variants_id == candidates_[i].variants_id; ++end)
      if (rank(end) > rank(best)) best = end;
    i = end;
    const bool taken = isTaken(static_cast<int>(best));
    reported[best] = !isRegion(candidates_[best]) || taken || !candidates_[best].pinned.empty();
    if (!reported[best]) others.push_back(static_cast<int>(best));
    if (reported[best] && isRegion(candidates_[best]))
      for (const int group : candidates_[best].groups) covered[group] = true;
  }
  // Regions without a pin are many; reports only those that together gain most.
  std::vector<int> left;
  std::vector<fusion::FusionSet> regions;
  for (const int other : others) {
    const FusionCandidate& candidate = candidates_[other];
    const bool eligible = std::ranges::none_of(
        candidate.groups, [&](int group) { return covered[group] || (!candidate.eligible && taken_by_[group] >= 0); });
    if (!eligible) continue;
    left.push_back(other);
    regions.push_back({candidate.groups, candidate.decision.cost() - candidate.decision.alternative_cost()});
  }
  for (const int region : fusion::select(regions).selected) reported[left[region]] = true;
  return reported;
}

/// Call before selections are applied, which moves operations.
std::string FusionChooser::subjectOf(const FusionCandidate& candidate) const {
  std::vector<mlir::Operation*> operations;
  for (const int group : candidate.groups) llvm::append_range(operations, groups_[group].ops);
  return operationsText(operations);
}

/// For a candidate that could be taken.
std::string FusionChooser::whyNot(const FusionCandidate& candidate) const {
  std::set<int> others;
  for (const int group : candidate.groups)
    if (taken_by_[group] >= 0) others.insert(taken_by_[group]);
  if (others.empty()) return "; pinned";
  const char* kind = isRegion(candidates_[*others.begin()]) ? "region" : "chain";
  return others.size() == 1
             ? absl::StrCat(": a part of it belongs to a ", kind, " that gains more")
             : absl::StrCat(": parts of it belong to ", others.size(), " others that gain more together");
}

/// Fusing a rejected candidate removes those that were taken instead.
void FusionChooser::addPrices(int at, v1::Choice& made) const {
  const FusionCandidate& candidate = candidates_[at];
  const v1::FusionProfit& profit = candidate.decision.profit();
  made.set_subject(candidate.choice.subject());
  made.set_error(candidate.error);
  made.set_cost_us(isTaken(at) ? profit.fused_us() : profit.separate_us());
  if (isTaken(at)) return addAlternative(made, kSeparate, profit.separate_us());
  if (!candidate.feasible) return;
  std::set<int> displaced;
  // The alternative price adds back the gain of the candidates that would be displaced.
  for (const int group : candidate.groups)
    if (taken_by_[group] >= 0) displaced.insert(taken_by_[group]);
  double price = profit.fused_us();
  for (const int other : displaced)
    price += candidates_[other].decision.profit().separate_us() - candidates_[other].decision.profit().fused_us();
  addAlternative(made, kFused, price);
}

/// Completes the decision and the choice of a reported candidate, and merges its groups if it is taken.
v1::Decision FusionChooser::settle(int at) {
  FusionCandidate& candidate = candidates_[at];
  v1::Decision& decision = candidate.decision;
  const bool taken = isTaken(at);
  if (candidate.eligible && !taken) decision.set_reason(absl::StrCat(decision.reason(), whyNot(candidate)));
  if (candidate.choice.kind().empty()) return decision;
  candidate.choice.set_choice(taken ? kFused : kSeparate);
  addPrices(at, choices_.record(candidate.choice.kind(), candidate.choice.place(), candidate.choice.choice(),
                                candidate.choice.refusal()));
  if (!taken) return decision;
  decision.set_taken(true);
  const double apart = decision.cost();
  decision.set_cost(decision.alternative_cost());
  decision.set_alternative_cost(apart);
  for (const int group : candidate.groups) groups_[group].ops.clear();
  Group& merged = groups_[candidate.groups.back()] = std::move(candidate.merged);
  merged.choice = candidate.choice;
  merged.fusion = decision.profit();
  return decision;
}

}  // namespace

/// A chain replaces a region of the same groups. Candidates of different kinds get different variants_id.
std::vector<FusionCandidate> fusionCandidates(const std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
                                              fusion::FusionPolicy fusion_policy, const UsedRowAnalysis* rows) {
  std::vector<FusionCandidate> candidates = chainCandidates(groups, chip, choices, fusion_policy, rows);
  std::set<std::vector<int>> chains;
  for (const FusionCandidate& chain : candidates)
    if (chain.decision.profit().fused_us() > 0) chains.insert(chain.groups);
  int ids = candidates.empty() ? 0 : candidates.back().variants_id + 1;
  for (FusionCandidate& moved : stageMovementCandidates(groups, chip, choices, fusion_policy)) {
    moved.variants_id += ids;
    candidates.push_back(std::move(moved));
  }
  ids = candidates.empty() ? 0 : candidates.back().variants_id + 1;
  for (FusionCandidate& region : regionCandidates(groups, chip, choices, fusion_policy, rows)) {
    if (chains.contains(region.groups)) {
      if (region.pinned == kFused)
        choices.refuse(kRegionChoice, region.choice.place(), "a chain is priced for the same groups", kSeparate);
      continue;
    }
    region.variants_id += ids;
    candidates.push_back(std::move(region));
  }
  return candidates;
}

std::vector<v1::Decision> chooseFusions(std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
                                        fusion::FusionPolicy fusion_policy, const UsedRowAnalysis* rows) {
  return FusionChooser(groups, fusionCandidates(groups, chip, choices, fusion_policy, rows), choices).run();
}

}  // namespace tessera::compiler
