#include "compiler/fusion/decision.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tessera::compiler::fusion {
namespace {

double wholeBytes(const Chain& chain, int tensor) {
  Tiles whole;
  for (const Loop& loop : chain.loops) whole.push_back(loop.extent);
  return static_cast<double>(footprint(chain, tensor, whole) * chain.tensors[tensor].element_bytes);
}

/// The nearest level that holds `bytes` beside as much again (what is being made from it).
const ChainMachine::MemoryLevel& holder(const ChainMachine& machine, double bytes) {
  for (const auto& level : machine.levels)
    if (level.capacity_bytes == 0 || 2 * bytes <= level.capacity_bytes) return level;
  return machine.levels.back();
}

/// Seconds to bring everything once from where it lies when a chain starts: no level that is near makes up for that.
double onceSeconds(const Chain& chain, const ChainMachine& machine) {
  double bytes = 0, written = 0;
  for (size_t t = 0; t < chain.tensors.size(); ++t)
    if (!chain.isIntermediate(static_cast<int>(t))) bytes += wholeBytes(chain, static_cast<int>(t));
  for (const Member& member : chain.members)
    if (!chain.isIntermediate(member.output)) written += wholeBytes(chain, member.output);
  return (bytes + written) / holder(machine, bytes).bytes_per_second;
}

/// Seconds to move what is only moved: all of it in steps of their own, or `slices` times what one of them needs.
double moveSeconds(const Chain& chain, const ChainMachine& machine, const Between& between, const SlicePlan* slices) {
  double seconds = 0;
  for (const Moved& moved : between.moved) {
    const auto bytes = static_cast<double>(chain.tensors[moved.tensor].element_bytes);
    if (!slices) {
      const double elements = wholeBytes(chain, moved.tensor) / bytes;
      seconds +=
          machine.step_seconds + elements * (moved.turned ? kTurnCycles : kCopyCycles) / machine.cycles_per_second;
      continue;
    }
    const auto elements = static_cast<double>(footprint(chain, moved.tensor, slices->tiles) * slices->slices);
    const bool back = moved.tensor == chain.members.back().output;
    const double cycles = !moved.turned ? kSliceCopyCycles : back ? kSliceTurnBackCycles : kSliceTurnCycles;
    seconds += static_cast<double>(slices->slices) * kNestSeconds + elements * cycles / machine.cycles_per_second;
  }
  return seconds;
}

std::string micro(double seconds) { return absl::StrFormat("%.1f us", seconds * 1e6); }
std::string mega(double bytes) { return absl::StrFormat("%.2f MB", bytes / 1e6); }

/// One after another: intermediates come from where they were left, members are blocked in `level`.
struct Apart {
  double seconds = INFINITY, bytes = 0;
  std::string fault;  ///< why there is no price
};
Apart apart(const Chain& chain, const ChainMachine& machine, size_t level, const Between& between, double capacity,
            double intermediate_bytes) {
  const double far = machine.levels[level + 1].bytes_per_second;
  const std::vector<Chain> parts = unfused(chain);
  Apart result{0, 0, {}};
  for (size_t p = 0; p < parts.size(); ++p) {
    auto plan = planBlocks(parts[p], capacity);
    if (!plan.ok()) return {INFINITY, 0, std::string(plan.status().message())};
    double transfer = 0;
    const Member& member = chain.members[p];
    for (size_t t = 0; t < parts[p].tensors.size(); ++t) {
      const int original = t < member.inputs.size() ? member.inputs[t] : member.output;
      const double moved = plan->movement.tensor_volume_bytes[t];
      const double rate = chain.isIntermediate(original)
                              ? std::min(far, holder(machine, wholeBytes(chain, original)).bytes_per_second)
                              : far;
      transfer += (original == member.output ? 2 : 1) * moved / rate;  // a line is read before it is written
      result.bytes += moved;
    }
    transfer = std::max(transfer, onceSeconds(parts[p], machine));
    result.seconds += elapsed(flopsOf(parts[p]) / machine.flops_per_second, transfer);
  }
  result.seconds += between.passes * intermediate_bytes / holder(machine, intermediate_bytes).bytes_per_second;
  result.seconds += between.flops / machine.flops_per_second;
  result.seconds += machine.step_seconds * (static_cast<double>(parts.size()) - 1 + between.steps);
  return result;
}

double intermediateBytes(const Chain& chain) {
  double bytes = 0;
  for (size_t t = 0; t < chain.tensors.size(); ++t)
    if (chain.isIntermediate(static_cast<int>(t))) bytes += wholeBytes(chain, static_cast<int>(t));
  return bytes;
}

/// Fills in whether to fuse and why; `what` names the fused form, `note` what is particular about it; less than `least`
/// of the time saved is declined.
void conclude(ChainDecision& decision, const std::string& what, const std::string& note, double least) {
  const double gain = 1 - decision.fused_seconds / decision.unfused_seconds;
  decision.fuse = gain >= least;
  decision.reason = absl::StrCat(what, " in ", decision.level, " take ", micro(decision.fused_seconds), " and move ",
                                 mega(decision.fused_bytes), note, ", one after another ",
                                 micro(decision.unfused_seconds), " and ", mega(decision.unfused_bytes));
  if (!decision.fuse && gain < 0) absl::StrAppend(&decision.reason, ": fused it would lose");
  if (!decision.fuse && gain >= 0) {
    absl::StrAppend(&decision.reason,
                    absl::StrFormat(": a gain of %.1f %%, less than the %.1f %% asked for", 100 * gain, 100 * least));
  }
}

}  // namespace

absl::StatusOr<ChainMachine> chainMachineOf(const v1::Target& target) {
  ChainMachine machine;
  if (target.units().empty() || target.units(0).frequency_ghz() <= 0 || target.units(0).ops_per_cycle() <= 0)
    return absl::InvalidArgumentError(absl::StrCat("target ", target.name(), ": no unit states clock and operations"));
  const double hertz = target.units(0).frequency_ghz() * 1e9;
  machine.flops_per_second = target.units(0).ops_per_cycle() * hertz;
  machine.cycles_per_second = hertz;
  machine.cores = std::max(1, target.units(0).count());
  for (const v1::MemoryLevel& level : target.memory()) {
    if (level.bandwidth_bytes_per_cycle() <= 0) continue;
    machine.levels.push_back({level.name(), static_cast<double>(level.capacity_bytes()),
                              level.bandwidth_bytes_per_cycle() * hertz, level.shared_by() > 1});
  }
  if (machine.levels.size() < 2)
    return absl::InvalidArgumentError(
        absl::StrCat("target ", target.name(), ": fewer than two memory levels with a bandwidth"));
  return machine;
}

double betweenSteps(const ChainMachine& machine, double bytes) {
  return machine.step_seconds + 3 * bytes / holder(machine, bytes).bytes_per_second;
}

absl::StatusOr<ChainDecision> decideSlices(const Chain& chain, const std::vector<int>& cut, const ChainMachine& machine,
                                           const Between& between, double share) {
  if (auto status = validate(chain); !status.ok()) return status;
  ChainDecision decision;
  size_t level = machine.levels.size();
  for (size_t d = 0; d + 1 < machine.levels.size() && !machine.levels[d].shared; ++d) level = d;
  if (level == machine.levels.size()) {
    decision.reason = "no memory level belongs to one core";
    return decision;
  }
  const ChainMachine::MemoryLevel& memory = machine.levels[level];
  const double intermediate_bytes = intermediateBytes(chain), capacity = share * memory.capacity_bytes;
  Apart alone = apart(chain, machine, level, between, capacity, intermediate_bytes);
  alone.seconds += moveSeconds(chain, machine, between, nullptr);
  decision.unfused_seconds = alone.seconds;
  decision.unfused_bytes = alone.bytes;
  for (const Moved& moved : between.moved) decision.unfused_bytes += 2 * wholeBytes(chain, moved.tensor);
  if (!alone.fault.empty())
    return absl::InvalidArgumentError(absl::StrCat("one after another has no price: ", alone.fault));
  SliceMachine core{.capacity_bytes = capacity,
                    .bytes_per_second = machine.levels[level + 1].bytes_per_second,
                    .near_bytes_per_second = memory.bytes_per_second,
                    .flops_per_second = machine.flops_per_second,
                    .cores = machine.cores};
  for (const Moved& moved : between.moved)
    if (moved.tensor != chain.members.back().output) core.copied.push_back(moved.tensor);
  auto slices = planSlices(chain, cut, core, between.running);
  if (!slices.ok()) {
    decision.fused_seconds = INFINITY;
    decision.reason = absl::StrCat(slices.status().message(), ", one after another ", micro(alone.seconds));
    return decision;
  }
  decision.level = memory.name;
  decision.fused_bytes = slices->volume_bytes;
  const double idle = slices->idle, kept = between.kept ? between.kept(slices->tiles) : 1;
  decision.fused_seconds =
      std::max(kept * slices->seconds,
               elapsed(kept * slices->flops / machine.flops_per_second, onceSeconds(chain, machine))) +
      idle * kept *
          (between.passes * intermediate_bytes / memory.bytes_per_second + between.flops / machine.flops_per_second);
  decision.fused_seconds += idle * moveSeconds(chain, machine, between, &*slices);
  std::string note;
  if (!between.moved.empty())
    note = absl::StrCat(" with ", between.moved.size(), between.moved.size() == 1 ? " change" : " changes",
                        " of layout or padding");
  const double again = slices->flops / flopsOf(chain) - 1;
  if (again > 1e-3) absl::StrAppend(&note, absl::StrFormat(" (%.0f %% computed again)", 100 * again));
  if (kept < 1) absl::StrAppend(&note, absl::StrFormat(" (%.0f %% masked and skipped)", 100 * (1 - kept)));
  if (idle > 1.05) absl::StrAppend(&note, absl::StrFormat(" (cores idle for %.0f %%)", 100 * (1 - 1 / idle)));
  if (slices->blocks > 1) {
    const auto rows = planSlices(chain, cut, core);
    const double rows_kept = rows.ok() && between.kept ? between.kept(rows->tiles) : 1;
    const double more = rows.ok() ? rows_kept * rows->seconds - kept * slices->seconds : 0;
    absl::StrAppend(&note, rows.ok() ? absl::StrCat(" (with whole rows ", micro(decision.fused_seconds + more), ")")
                                     : " (whole rows do not fit)");
  }
  std::string what = absl::StrCat(slices->slices, slices->slices == 1 ? " slice" : " slices");
  if (slices->blocks > 1)
    absl::StrAppend(&what, " in ", slices->blocks, " blocks of ", slices->tiles[between.running],
                    " with a running maximum and sum");
  conclude(decision, what, note, again > 1e-3 ? kLeastOverlapGain : kLeastGain);
  decision.slices = *std::move(slices);
  return decision;
}

}  // namespace tessera::compiler::fusion
