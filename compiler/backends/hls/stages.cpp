#include "compiler/backends/hls/stages.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace tessera::compiler::hls {
namespace {

/// The position of the tiles in the order of execution: loops that are no reductions outside, reductions inside.
class Walk {
 public:
  explicit Walk(const Design& design) : design_(design), at_(design.form->loops()) {
    for (const bool reductions : {false, true})
      for (size_t loop = 0; loop < at_.size(); ++loop)
        if (design.form->reduction[loop] == reductions) order_.push_back(loop);
  }

  Step step() const {
    Step step;
    for (size_t loop = 0; loop < at_.size(); ++loop) {
      const int64_t extent = design_.form->extent(loop), tile = design_.tiling.tile[loop];
      step.extents.push_back(std::min(tile, extent - at_[loop]));
      if (!design_.form->reduction[loop]) continue;
      step.first_sum &= at_[loop] == 0;
      step.last_sum &= at_[loop] + tile >= extent;
    }
    return step;
  }

  /// False after the last step.
  bool next() {
    for (size_t position = order_.size(); position-- > 0;) {
      const size_t loop = order_[position];
      at_[loop] += design_.tiling.tile[loop];
      if (at_[loop] < design_.form->extent(loop)) return true;
      at_[loop] = 0;
    }
    return false;
  }

 private:
  const Design& design_;
  std::vector<size_t> order_;
  std::vector<int64_t> at_;
};

/// When each process finished its latest steps, as many of them as a buffer has copies.
struct Finished {
  double latest = 0, before = 0;
  void add(double end) {
    before = latest;
    latest = end;
  }
};

}  // namespace

absl::StatusOr<SimulatedStages> simulateStages(const Design& design, const Device& device, int64_t most_steps) {
  if (stepsOf(design) > static_cast<double>(most_steps))
    return absl::ResourceExhaustedError(absl::StrCat("nest ", design.form->nest->name, " has ", stepsOf(design),
                                                     " steps; at most ", most_steps, " are simulated"));
  std::vector<Finished> reads, writes;
  for (const Buffer& each : design.buffers) (each.written ? writes : reads).emplace_back();
  Finished compute;
  SimulatedStages result;
  // Most steps are equal.
  std::map<std::pair<std::vector<int64_t>, std::pair<bool, bool>>, StepCycles> known;
  Walk walk(design);
  do {
    const Step step = walk.step();
    auto [entry, is_new] = known.try_emplace({step.extents, {step.first_sum, step.last_sum}});
    if (is_new) entry->second = cyclesOf(design, step, device);
    const StepCycles& cycles = entry->second;
    ++result.steps;
    result.bytes += cycles.bytes;
    // The buffer that a read fills was emptied by the compute process two steps ago.
    const double emptied = compute.before;
    double start = compute.latest;
    for (size_t r = 0; r < reads.size(); ++r) {
      reads[r].add(std::max(reads[r].latest, emptied) + cycles.reads[r]);
      start = std::max(start, reads[r].latest);
    }
    for (const Finished& each : writes) start = std::max(start, each.before);
    compute.add(start + cycles.compute);
    for (size_t w = 0; w < writes.size(); ++w)
      writes[w].add(std::max(writes[w].latest, compute.latest) + cycles.writes[w]);
    result.reading += cycles.reads.empty() ? 0 : *std::ranges::max_element(cycles.reads);
    result.computing += cycles.compute;
    result.writing += cycles.writes.empty() ? 0 : *std::ranges::max_element(cycles.writes);
  } while (walk.next());
  result.cycles = compute.latest;
  for (const Finished& each : writes) result.cycles = std::max(result.cycles, each.latest);
  return result;
}

}  // namespace tessera::compiler::hls
