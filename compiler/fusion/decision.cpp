#include "compiler/fusion/decision.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::fusion {
namespace {

double wholeBytes(const Chain& chain, int tensor) {
  Tiles whole;
  for (const Loop& loop : chain.loops) whole.push_back(loop.extent);
  return static_cast<double>(footprint(chain, tensor, whole) * elementBytes(chain.accesses[tensor].dtype));
}

/// Returns the bandwidth of the nearest level that holds `bytes` and as much again for the results.
double rateOf(const Chip& chip, double bytes) { return chip.bytesPerSecond(chip.levelHolding(2 * bytes)); }

/// Returns the seconds to load every input once from its initial level. Fusion cannot avoid this cost.
double onceSeconds(const Chain& chain, const Chip& chip) {
  double bytes = 0, written = 0;
  for (size_t t = 0; t < chain.accesses.size(); ++t)
    if (!chain.isIntermediate(static_cast<int>(t))) bytes += wholeBytes(chain, static_cast<int>(t));
  for (const Statement& member : chain.statements)
    if (!chain.isIntermediate(member.output)) written += wholeBytes(chain, member.output);
  return (bytes + (chip.costParameters().memory().transfers_per_written_line() - 1) * written) / rateOf(chip, bytes);
}

/// Returns the seconds of pure data movement: in separate steps, or `slices` times the need of one slice.
double moveSeconds(const Chain& chain, const Chip& chip, const BetweenMembers& between, const SlicePlan* slices) {
  const v1::CostParameters::Copies& parameters = chip.costParameters().copies();
  const double step = chip.seconds(chip.costParameters().overheads().phase_cycles()),
               nest = chip.seconds(chip.costParameters().overheads().nest_cycles());
  double seconds = 0;
  for (const LayoutCopy& copy : between.layout_copies) {
    const auto bytes = static_cast<double>(elementBytes(chain.accesses[copy.tensor].dtype));
    if (!slices) {
      const double elements = wholeBytes(chain, copy.tensor) / bytes;
      seconds +=
          step + elements * (copy.transposed ? parameters.transpose_cycles() : parameters.copy_cycles()) / chip.hertz();
      continue;
    }
    const auto elements = static_cast<double>(footprint(chain, copy.tensor, slices->tiles) * slices->slices);
    const bool back = copy.tensor == chain.statements.back().output;
    const double cycles = !copy.transposed ? parameters.slice_copy_cycles()
                          : back           ? parameters.slice_transpose_store_cycles()
                                           : parameters.slice_transpose_cycles();
    seconds += static_cast<double>(slices->slices) * nest + elements * cycles / chip.hertz();
  }
  return seconds;
}

std::string micro(double seconds) { return absl::StrFormat("%.1f us", seconds * 1e6); }
std::string mega(double bytes) { return absl::StrFormat("%.2f MB", bytes / 1e6); }

/// Returns the chain with all loops cuttable except those of windows.
Chain withoutWhole(Chain chain) {
  // A loop of a window (its subscript has two terms, "h + r") makes neighbouring blocks overlap: it stays whole.
  std::vector<bool> slides(chain.loops.size(), false);
  for (const Access& tensor : chain.accesses)
    for (const Subscript& subscript : tensor.subscripts)
      for (const Term& term : subscript.terms)
        slides[term.loop] = slides[term.loop] || (subscript.terms.size() > 1 && !isMergedDimension(chain, subscript));
  for (size_t loop = 0; loop < chain.loops.size(); ++loop)
    if (!slides[loop]) chain.loops[loop].whole = false;
  return chain;
}

/// Separate execution: intermediates are read from the level that holds them, members are blocked in `level`.
struct Apart {
  double seconds = INFINITY, bytes = 0;
  std::string fault;  ///< why there is no price
};
/// Prices the members one after another, each with the blocks of its own best plan.
Apart apart(const Chain& chain, const Chip& chip, size_t level, const BetweenMembers& between, double capacity,
            double intermediate_bytes, UnfusedTraffic& alone) {
  const v1::CostParameters::Memory& parameters = chip.costParameters().memory();
  const double far = chip.bytesPerSecond(chip.level(level + 1));
  const std::vector<Chain> parts = unfused(chain);
  Apart result{0, 0, {}};
  for (size_t p = 0; p < parts.size(); ++p) {
    const auto bytes = alone.of(parts[p], capacity);
    if (!bytes.ok()) return {INFINITY, 0, std::string(bytes.status().message())};
    double transfer = 0;
    const Statement& member = chain.statements[p];
    for (size_t t = 0; t < parts[p].accesses.size(); ++t) {
      const int original = t < member.inputs.size() ? member.inputs[t] : member.output;
      const double moved = (*bytes)[t];
      // An intermediate was just written, so it comes from the nearest level that holds it; other operands come from
      // the far level.
      const double rate =
          chain.isIntermediate(original) ? std::min(far, rateOf(chip, wholeBytes(chain, original))) : far;
      transfer += (original == member.output ? parameters.transfers_per_written_line() : 1) * moved / rate;
      result.bytes += moved;
    }
    // Blocks cannot avoid loading each operand once from its initial level.
    transfer = std::max(transfer, onceSeconds(parts[p], chip));
    result.seconds += elapsed(flopsOf(parts[p]) / chip.operationsPerSecond(), transfer, parameters.exposed_share());
  }
  // The operators in between pass over the intermediate, and every member and operator is a step with a phase.
  result.seconds += between.passes * intermediate_bytes / rateOf(chip, intermediate_bytes);
  result.seconds += between.flops / chip.operationsPerSecond();
  result.seconds += chip.seconds(chip.costParameters().overheads().phase_cycles()) *
                    (static_cast<double>(parts.size()) - 1 + between.steps);
  return result;
}

double intermediateBytes(const Chain& chain) {
  double bytes = 0;
  for (size_t t = 0; t < chain.accesses.size(); ++t)
    if (chain.isIntermediate(static_cast<int>(t))) bytes += wholeBytes(chain, static_cast<int>(t));
  return bytes;
}

/// Sets whether to fuse and the reason. `what` names the fused form, `note` its special properties.
void conclude(ChainDecision& decision, const std::string& what, const std::string& note) {
  const double gain = 1 - decision.fused_seconds / decision.unfused_seconds;
  decision.fuse = gain >= decision.required_gain;
  decision.reason = absl::StrCat(what, " in ", decision.level, " take ", micro(decision.fused_seconds), " and move ",
                                 mega(decision.fused_bytes), note, ", one after another ",
                                 micro(decision.unfused_seconds), " and ", mega(decision.unfused_bytes));
  if (!decision.fuse && gain < 0) absl::StrAppend(&decision.reason, ": fused it would lose");
  if (!decision.fuse && gain >= 0) {
    absl::StrAppend(&decision.reason, absl::StrFormat(": a gain of %.1f %%, less than the %.1f %% asked for",
                                                      100 * gain, 100 * decision.required_gain));
  }
}

}  // namespace

absl::StatusOr<std::vector<double>> UnfusedTraffic::of(const Chain& one, double capacity_bytes) {
  const auto [known, fresh] = known_.try_emplace(absl::StrCat(capacity_bytes, structuralKey(one)));
  if (!fresh) return known->second;
  auto plan = planBlocks(one, capacity_bytes);
  // If the plan fails, cuts dimensions that are short individually, but together too long to be taken whole.
  if (!plan.ok()) plan = planBlocks(withoutWhole(one), capacity_bytes);
  if (!plan.ok()) {
    known_.erase(known);
    return plan.status();
  }
  return known->second = std::move(plan->movement.tensor_volume_bytes);
}

double roundTripSeconds(const Chip& chip, double bytes) {
  return chip.seconds(chip.costParameters().overheads().phase_cycles()) +
         (chip.costParameters().memory().transfers_per_written_line() + 1) * bytes / rateOf(chip, bytes);
}

absl::StatusOr<ChainDecision> decideSlices(const Chain& chain, const std::vector<int>& cut, const Chip& chip,
                                           const BetweenMembers& between, UnfusedTraffic* unfused) {
  TESSERA_RETURN_IF_ERROR(validateChain(chain));
  ChainDecision decision;
  const std::optional<size_t> own = chip.ownLevel();
  if (!own) {
    decision.reason = "no memory level belongs to one core";
    return decision;
  }
  // Slices live in the largest memory level that one core owns.
  const size_t level = *own;
  const Chip::Level& memory = chip.level(level);
  const v1::CostParameters::Memory& parameters = chip.costParameters().memory();
  const double intermediate_bytes = intermediateBytes(chain),
               capacity = static_cast<double>(chip.residentBytes(memory));
  UnfusedTraffic own_members;
  Apart alone = apart(chain, chip, level, between, capacity, intermediate_bytes, unfused ? *unfused : own_members);
  alone.seconds += moveSeconds(chain, chip, between, nullptr);
  decision.unfused_seconds = alone.seconds;
  decision.unfused_bytes = alone.bytes;
  for (const LayoutCopy& copy : between.layout_copies) decision.unfused_bytes += 2 * wholeBytes(chain, copy.tensor);
  if (!alone.fault.empty())
    return absl::InvalidArgumentError(absl::StrCat("one after another has no price: ", alone.fault));
  // Slices copy moved operands first and then hold both forms.
  SliceNeeds needs{.softmax_loop = between.softmax_loop, .row_bytes = between.row_bytes};
  for (const LayoutCopy& copy : between.layout_copies)
    if (copy.tensor != chain.statements.back().output) needs.copied.push_back(copy.tensor);
  auto slices = planSlices(chain, cut, chip, level, needs);
  if (!slices.ok()) {
    decision.fused_seconds = INFINITY;
    decision.reason = absl::StrCat(slices.status().message(), ", one after another ", micro(alone.seconds));
    return decision;
  }
  decision.level = memory.name;
  decision.fused_bytes = slices->volume_bytes;
  const double imbalance = slices->imbalance, kept = between.unmasked_share ? between.unmasked_share(slices->tiles) : 1;
  // The slices' own time, but at least one load of every operand, plus the passes of operators in between, which run in
  // the near level. Idle cores prolong everything.
  decision.fused_seconds =
      std::max(kept * slices->seconds, elapsed(kept * slices->flops / chip.operationsPerSecond(),
                                               onceSeconds(chain, chip), parameters.exposed_share())) +
      imbalance * kept *
          (between.passes * intermediate_bytes / chip.bytesPerSecond(memory) +
           between.flops / chip.operationsPerSecond());
  decision.fused_seconds += imbalance * moveSeconds(chain, chip, between, &*slices);
  // Intermediates with other readers are written to memory as well.
  for (const int tensor : between.also_written) {
    const double bytes = wholeBytes(chain, tensor);
    decision.fused_seconds += imbalance * parameters.transfers_per_written_line() * bytes / rateOf(chip, bytes);
    decision.fused_bytes += bytes;
  }
  std::string note;
  if (!between.layout_copies.empty())
    note = absl::StrCat(" with ", between.layout_copies.size(),
                        between.layout_copies.size() == 1 ? " change" : " changes", " of layout or padding");
  if (!between.also_written.empty()) absl::StrAppend(&note, " (what lies between is written for others as well)");
  const double again = slices->flops / flopsOf(chain) - 1;
  if (again > 1e-3) absl::StrAppend(&note, absl::StrFormat(" (%.0f %% computed again)", 100 * again));
  if (std::isfinite(slices->other_seconds))
    absl::StrAppend(
        &note,
        slices->sequence_length > 1 ? " (halos kept in parts of " : " (halos computed again, as parts of several",
        slices->sequence_length > 1 ? absl::StrCat(slices->sequence_length) : "", " slices",
        slices->sequence_length > 1 ? ": computed again they would take " : " that keep them would take ",
        micro(slices->other_seconds - slices->seconds), " more)");
  if (kept < 1) absl::StrAppend(&note, absl::StrFormat(" (%.0f %% masked and skipped)", 100 * (1 - kept)));
  if (imbalance > 1.05) absl::StrAppend(&note, absl::StrFormat(" (cores idle for %.0f %%)", 100 * (1 - 1 / imbalance)));
  // For the report: the price without blocks of the online softmax.
  if (slices->blocks > 1) {
    const auto rows = planSlices(chain, cut, chip, level, {.copied = needs.copied, .row_bytes = needs.row_bytes});
    const double rows_kept = rows.ok() && between.unmasked_share ? between.unmasked_share(rows->tiles) : 1;
    const double more = rows.ok() ? rows_kept * rows->seconds - kept * slices->seconds : 0;
    absl::StrAppend(&note, rows.ok() ? absl::StrCat(" (with whole rows ", micro(decision.fused_seconds + more), ")")
                                     : " (whole rows do not fit)");
  }
  std::string what = absl::StrCat(slices->slices, slices->slices == 1 ? " slice" : " slices");
  if (slices->blocks > 1)
    absl::StrAppend(&what, " in ", slices->blocks, " blocks of ", slices->tiles[between.softmax_loop],
                    " with a running maximum and sum");
  // Recomputed or kept halos make the price less certain, so a larger gain is required.
  decision.required_gain = again > 1e-3 || slices->sequence_length > 1
                               ? chip.costParameters().gains().overlapping_share()
                               : chip.costParameters().gains().slices_share();
  conclude(decision, what, note);
  decision.slices = *std::move(slices);
  return decision;
}

}  // namespace tessera::compiler::fusion
