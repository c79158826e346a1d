#include "compiler/backends/spatial/simulate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/spatial/lower.h"
#include "compiler/intrinsic/ranking.h"
#include "compiler/target/element_text.h"
#include "compiler/target/instruction_sets.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::simulator {
namespace {

using intrinsic::Choice;
using intrinsic::Matching;
using loopnest::Nest;

constexpr size_t kMaxMappings = 4096;

/// Whether the operator's element types can become the instruction's: equal, or both floating point.
bool typesFit(const Nest& software, const Nest& instruction, const Matching& matching, bool& converted,
              std::string& what) {
  for (size_t operand = 0; operand < instruction.accesses.size(); ++operand) {
    const loopnest::Access& array = software.accesses[arrayOf(matching, operand)];
    const v1::DataType wanted = instruction.accesses[operand].dtype;
    if (array.dtype == wanted) continue;
    converted = true;
    if (isFloatingPoint(array.dtype) && isFloatingPoint(wanted)) continue;
    what = absl::StrCat(array.name, " is ", elementText(array.dtype), ", not ", elementText(wanted));
    return false;
  }
  return true;
}

/// Adds the candidates of one instruction; if there are none, returns the reason.
std::string addCandidates(const Nest& software, const v1::Intrinsic& intrinsic, const v1::Target& target,
                          const Question& question, std::vector<std::pair<Choice, bool>>& found) {
  const absl::StatusOr<Nest> instruction = intrinsic::nestOf(intrinsic);
  if (!instruction.ok()) return std::string(instruction.status().message());
  if (intrinsic::formOf(software) != intrinsic::formOf(*instruction)) return "computes " + computeText(intrinsic);
  const intrinsic::Mappings mappings =
      intrinsic::enumerateMappings(software, *instruction, {.any_order = true, .most = kMaxMappings});
  std::string reason = "no loops of the operator are its iterations";
  const size_t before = found.size();
  for (const Matching& matching : mappings.matchings) {
    bool converted = false;
    if (question.typed && !typesFit(mappings.software, *instruction, matching, converted, reason)) continue;
    absl::StatusOr<Choice> choice = tiled(mappings.software, intrinsic, matching, target);
    if (choice.ok()) {
      found.emplace_back(*std::move(choice), converted);
    } else {
      reason = std::string(choice.status().message());
    }
  }
  return found.size() > before ? "" : reason;
}

}  // namespace

absl::StatusOr<Candidates> candidatesOf(const Nest& software, const v1::Target& target, const Question& question) {
  TESSERA_RETURN_IF_ERROR(intrinsic::checkMappable(software));
  std::vector<std::pair<Choice, bool>> found;
  std::vector<std::string> names, reasons;
  for (const v1::Intrinsic& intrinsic : instructionsOf(target)) {
    names.push_back(intrinsic.name());
    if (!question.instruction.empty() && intrinsic.name() != question.instruction) continue;
    const std::string reason = addCandidates(software, intrinsic, target, question, found);
    if (!reason.empty()) reasons.push_back(absl::StrCat(intrinsic.name(), ": ", reason));
  }
  if (found.empty()) {
    if (names.empty()) return absl::FailedPreconditionError(absl::StrCat(target.name(), " has no instructions"));
    if (reasons.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(target.name(), " has no instruction ", question.instruction,
                                                        "; accepted: ", absl::StrJoin(names, ", ")));
    }
    constexpr size_t kMaxReasons = 3;
    const size_t more = reasons.size() - std::min(reasons.size(), kMaxReasons);
    reasons.resize(reasons.size() - more);
    return absl::FailedPreconditionError(
        absl::StrCat(absl::StrJoin(reasons, "; "), more > 0 ? absl::StrCat("; ", more, " more") : ""));
  }
  // Exact types before converted ones, then by predicted cost.
  Candidates candidates;
  candidates.converted = std::all_of(found.begin(), found.end(), [](const auto& entry) { return entry.second; });
  for (auto& [choice, converted] : found) {
    if (converted == candidates.converted) candidates.choices.push_back(std::move(choice));
  }
  sortByCost(candidates.choices);
  return candidates;
}

absl::StatusOr<std::pair<Program, Timeline>> fastest(const Choice& choice, const v1::Target& target) {
  // Replaced by the first result, or by the last error.
  absl::StatusOr<std::pair<Program, Timeline>> best = absl::UnknownError("");
  for (const bool reductions_innermost : {false, true}) {
    for (const bool overlap : {false, true}) {
      absl::StatusOr<Program> program =
          lower(choice, target, {.reductions_innermost = reductions_innermost, .overlap = overlap});
      absl::StatusOr<Timeline> timeline = program.ok() ? timelineOf(*program) : program.status();
      if (!timeline.ok()) {
        if (!best.ok()) best = timeline.status();
        continue;
      }
      if (best.ok() && best->second.cycles <= timeline->cycles) continue;
      best = std::pair(*std::move(program), *std::move(timeline));
    }
  }
  return best;
}

absl::StatusOr<Simulation> simulate(const Nest& software, const v1::Target& target, const Question& question) {
  TESSERA_ASSIGN_OR_RETURN(Candidates candidates, candidatesOf(software, target, question));
  absl::Status refused;
  for (const Choice& choice : candidates.choices) {
    absl::StatusOr<std::pair<Program, Timeline>> found = fastest(choice, target);
    if (!found.ok()) {
      // A program that is only too long to time remains the choice.
      if (found.status().code() == absl::StatusCode::kResourceExhausted) return found.status();
      refused.Update(found.status());
      continue;
    }
    Simulation simulation;
    simulation.program = std::move(found->first);
    simulation.timeline = std::move(found->second);
    simulation.mappings = candidates.choices.size();
    simulation.converted = candidates.converted;
    if (question.most_points == 0) {
      simulation.unchecked = "not asked for";
      return simulation;
    }
    absl::StatusOr<Checked> checked = check(simulation.program, question.seed, question.most_points);
    if (checked.ok()) {
      simulation.checked = *std::move(checked);
    } else if (checked.status().code() == absl::StatusCode::kInvalidArgument) {
      return absl::InternalError(checked.status().message());
    } else {
      simulation.unchecked = std::string(checked.status().message());
    }
    return simulation;
  }
  return refused;
}

absl::StatusOr<Ranking> rank(const Nest& software, const v1::Target& target, const Question& question) {
  TESSERA_ASSIGN_OR_RETURN(Candidates candidates, candidatesOf(software, target, question));
  Ranking ranking;
  for (const Choice& choice : candidates.choices) {
    const absl::StatusOr<std::pair<Program, Timeline>> found = fastest(choice, target);
    if (!found.ok()) {
      ++ranking.refused;
      continue;
    }
    ranking.predicted.push_back(choice.price.cycles);
    ranking.simulated.push_back(found->second.cycles);
  }
  constexpr double kBest = 0.4, kApart = 0.01;
  ranking.pairs = intrinsic::pairwiseAccuracy(ranking.predicted, ranking.simulated);
  ranking.apart = intrinsic::pairwiseAccuracy(ranking.predicted, ranking.simulated, kApart);
  ranking.recall = intrinsic::recallOfBest(ranking.predicted, ranking.simulated, kBest);
  return ranking;
}

}  // namespace tessera::compiler::simulator
