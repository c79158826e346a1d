#include "compiler/backends/spatial/mapping_search.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/spatial/lower.h"
#include "compiler/backends/spatial/searched_tiling.h"
#include "compiler/backends/spatial/tiling_search.h"
#include "compiler/target/instruction_sets.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::simulator {
namespace {

using intrinsic::Choice;

// A mapping's calls bound its time from below, and its predicted cost orders mappings well (5.7.2), so that few need
// the next, more expensive step: a tiling, a simulation, several tilings.
constexpr std::initializer_list<LoweringOptions> kManners = {{.reductions_innermost = false, .overlap = false},
                                                             {.reductions_innermost = false, .overlap = true},
                                                             {.reductions_innermost = true, .overlap = false},
                                                             {.reductions_innermost = true, .overlap = true}};

constexpr size_t kMaxFound = 4096, kMaxTiled = 32, kMaxSimulated = 12, kMaxSearched = 4, kMaxTilings = 6,
                 kMaxDataflows = 3;

struct FoundMapping {
  double least_cycles = 0;
  const v1::Intrinsic* intrinsic = nullptr;
  loopnest::Nest software;
  intrinsic::Matching matching;
};

/// Why an instruction has no mapping.
struct Refusal {
  std::string reason;  ///< empty: it has some
  bool fits = false;   ///< the instruction computes such sums of these types
};

/// Adds the mappings to one instruction.
Refusal addMappings(const ProductNest& product, const v1::Intrinsic& intrinsic, const v1::Target& target,
                    std::vector<FoundMapping>& found) {
  const absl::StatusOr<loopnest::Nest> instruction = intrinsic::nestOf(intrinsic);
  if (!instruction.ok()) return {std::string(instruction.status().message())};
  const intrinsic::Mappings mappings =
      intrinsic::enumerateMappings(product.nest, *instruction, {.any_order = true, .most = kMaxFound});
  Refusal refusal{intrinsic::formOf(product.nest) == intrinsic::formOf(*instruction)
                      ? "no loops of the nest are its iterations"
                      : "it computes another form"};
  const size_t before = found.size();
  const double interval = std::max(
      intrinsic.cycles_per_issue() > 0 ? intrinsic.cycles_per_issue() : static_cast<double>(intrinsic.latency_cycles()),
      1e-3);
  for (const intrinsic::Matching& matching : mappings.matchings) {
    std::vector<int> sources;
    for (const int source : matching.source) sources.push_back(source - 1);
    if (std::string why = unfit(product, intrinsic, *instruction, sources); !why.empty()) {
      if (!refusal.fits) refusal.reason = std::move(why);
      continue;
    }
    refusal.fits = true;
    const auto mapping = intrinsic::physicalMapping(mappings.software, intrinsic, matching, target);
    if (!mapping.ok()) {
      refusal.reason = std::string(mapping.status().message());
      continue;
    }
    if (isTooLong(*mapping)) {
      refusal.reason = "its loops are too long to be simulated";
      continue;
    }
    found.push_back({static_cast<double>(mapping->calls) * interval, &intrinsic, mappings.software, matching});
  }
  return found.size() > before ? Refusal() : refusal;
}

/// Simulates tilings and keeps the fastest.
class Simulations {
 public:
  Simulations(const ProductNest& product, const v1::Target& target, std::optional<Epilogue> epilogue = std::nullopt)
      : target_(target), tensors_{.views = product.views, .stored = product.stored, .epilogue = std::move(epilogue)} {}

  bool found() const { return best_.has_value(); }
  const Program& best() const { return best_->first; }
  const std::string& reason() const { return reason_; }
  std::pair<Program, Timeline> take() { return *std::move(best_); }

  /// Whether one of the ways to lower the tiling is faster than the best program so far.
  bool consider(const Choice& choice, std::initializer_list<LoweringOptions> manners) {
    bool better = false;
    for (const LoweringOptions& manner : manners) {
      absl::StatusOr<Program> program = lower(choice, target_, manner, tensors_);
      // The first program is simulated whatever it takes; the others have a budget.
      if (program.ok() && best_ && steps_ + stepsOf(*program) > budget_) continue;
      absl::StatusOr<Timeline> timeline = program.ok() ? timelineOf(*program, /*once=*/true) : program.status();
      if (!timeline.ok()) {
        reason_ = absl::StrCat(choice.intrinsic.name(), ": ", timeline.status().message());
        continue;
      }
      steps_ += stepsOf(*program);
      if (best_ && best_->second.cycles <= timeline->cycles) continue;
      best_.emplace(*std::move(program), *std::move(timeline));
      better = true;
    }
    return better;
  }

  /// Takes single changes of the best tiling that make it faster, until none does or the budget is spent.
  void refine(double steps = kMaxRefinedSteps) {
    std::set<intrinsic::Tiling> seen;
    budget_ = steps_ + steps;
    for (bool better = true; better && steps_ < budget_;) {
      better = false;
      const Choice from = best_->first.choice;
      for (size_t l = 0; l + 1 < from.tiling.size() && !better; ++l) {
        for (size_t d = 0; d < from.tiling[l].size() && !better; ++d) {
          for (const bool doubled : {true, false}) {
            const int64_t blocks = doubled ? 2 * from.tiling[l][d] : (from.tiling[l][d] + 1) / 2;
            Choice next = from;
            next.tiling = withBlocks(from.tiling, l, d, blocks);
            if (better || !seen.insert(next.tiling).second) continue;
            better = consider(next, {{.reductions_innermost = false}, {.reductions_innermost = true}});
          }
        }
      }
    }
  }

  // In steps of programs, about 0.1 us each.
  static constexpr double kMaxFirstSteps = 3 << 20, kMaxRefinedSteps = 1 << 21, kMaxFusedSteps = 1 << 18;

 private:
  const v1::Target& target_;
  const LoweringTensors tensors_;
  std::optional<std::pair<Program, Timeline>> best_;
  std::string reason_;
  double steps_ = 0, budget_ = kMaxFirstSteps;
};

}  // namespace

absl::StatusOr<std::pair<Program, Timeline>> fusedProgram(const Program& plain, const ProductNest& product,
                                                          const Epilogue& epilogue, const v1::Target& target) {
  Simulations simulations(product, target, epilogue);
  simulations.consider(plain.choice, kManners);
  if (!simulations.found()) return absl::FailedPreconditionError(simulations.reason());
  simulations.refine(Simulations::kMaxFusedSteps);
  return simulations.take();
}

absl::StatusOr<std::pair<Program, Timeline>> bestProgram(const ProductNest& product, const v1::Target& target) {
  const std::vector<v1::Intrinsic> instructions = instructionsOf(target);
  std::vector<FoundMapping> candidates;
  std::vector<std::string> reasons, others;  // of instructions that compute such sums; of the others
  for (const v1::Intrinsic& intrinsic : instructions) {
    const Refusal refusal = addMappings(product, intrinsic, target, candidates);
    if (!refusal.reason.empty())
      (refusal.fits ? reasons : others).push_back(absl::StrCat(intrinsic.name(), ": ", refusal.reason));
  }
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(candidates[i].least_cycles, i); });
  if (order.size() > kMaxTiled) order.resize(kMaxTiled);
  std::vector<Choice> choices;
  for (const size_t position : order) {
    const FoundMapping& candidate = candidates[position];
    absl::StatusOr<Choice> choice =
        intrinsic::tiled(candidate.software, *candidate.intrinsic, candidate.matching, target);
    if (choice.ok()) {
      choices.push_back(*std::move(choice));
    } else {
      reasons.push_back(absl::StrCat(candidate.intrinsic->name(), ": ", choice.status().message()));
    }
  }
  intrinsic::sortByCost(choices);
  Simulations simulations(product, target);
  for (size_t i = 0; i < std::min(choices.size(), kMaxSimulated); ++i) {
    std::vector<Choice> tilings = {choices[i]};
    if (i < kMaxSearched) std::ranges::move(tilingsOf(choices[i], target, kMaxTilings), std::back_inserter(tilings));
    for (const Choice& choice : tilings) {
      simulations.consider(choice, kManners);
    }
  }
  if (simulations.found()) {
    simulations.refine();
    // Tilings of the dataflow search are other places to begin from.
    Simulations searched(product, target);
    for (const Choice& choice : searchedTilings(simulations.best().choice, target, kMaxDataflows))
      searched.consider(choice, kManners);
    if (searched.found()) searched.refine();
    std::pair<Program, Timeline> found = simulations.take();
    if (!searched.found()) return found;
    std::pair<Program, Timeline> other = searched.take();
    if (other.second.cycles < found.second.cycles) return other;
    return found;
  }
  if (!simulations.reason().empty()) reasons.push_back(simulations.reason());
  if (instructions.empty()) reasons.push_back(absl::StrCat(target.name(), " has no instructions"));
  reasons.insert(reasons.end(), others.begin(), others.end());
  constexpr size_t kMaxShown = 3;
  if (reasons.size() > kMaxShown) reasons.resize(kMaxShown);
  return absl::FailedPreconditionError(absl::StrJoin(reasons, "; "));
}

}  // namespace tessera::compiler::simulator
