#include "compiler/runtime/arena_layout.h"

#include <algorithm>

#include "compiler/ir/arena.h"

namespace tessera::compiler {
namespace {

constexpr size_t kMaxLayouts = 64;  // for several ranges; layouts of a single range replace each other

int64_t boundOf(const tessera_module_write_bound& bound, std::span<const EvaluatedGridBound> grid_bounds) {
  // Terms are bounded, but there may be many: the sum saturates. Callers clamp it to the operand's size.
  constexpr int64_t kFarthest = int64_t{1} << 62;
  int64_t end = bound.base;
  for (const tessera_module_write_bound_term& term : std::span(bound.terms, static_cast<size_t>(bound.num_terms))) {
    // No overflow: checkModule() bounds the factors.
    const __int128 steps =
        (static_cast<__int128>(grid_bounds[static_cast<size_t>(term.grid_bound)].needed) * term.numerator +
         term.denominator - 1) /
        term.denominator;
    end = std::min(end + static_cast<int64_t>(std::min<__int128>(term.most, steps * term.bytes)), kFarthest);
  }
  return end;
}

}  // namespace

int64_t writtenBytes(const tessera_module_step& step, int32_t operand, int64_t size_bytes,
                     std::span<const EvaluatedGridBound> grid_bounds) {
  int64_t end = 0;
  bool known = false;
  for (const tessera_module_write_bound& bound :
       std::span(step.write_bounds, static_cast<size_t>(step.num_write_bounds))) {
    if (bound.operand != operand) continue;
    known = true;
    // An operand may have several writers within a step: the farthest one counts.
    end = std::max(end, boundOf(bound, grid_bounds));
  }
  return known ? std::min(end, size_bytes) : size_bytes;
}

ArenaLayout::ArenaLayout(const tessera_module_variant& variant) : variant_(variant), bytes_(variant.arena_bytes) {
  if (variant.num_allocations == 0) return;
  needed_.resize(static_cast<size_t>(variant.num_allocations));
  for (const tessera_module_allocation& allocation : std::span(variant.allocations, needed_.size()))
    offsets_.push_back(allocation.offset);
  size_t first_grid_bound = 0;
  for (int32_t s = 0; s < variant.num_steps; ++s) {
    const tessera_module_step& step = variant.steps[s];
    for (int32_t operand = step.num_operands - step.num_results; operand < step.num_operands; ++operand) {
      const tessera_module_buffer& buffer = variant.buffers[step.operands[operand]];
      if (buffer.kind != TESSERA_BUFFER_ARENA) continue;
      const auto allocation = static_cast<size_t>(buffer.index);
      writers_.push_back(
          {s, operand, allocation, first_grid_bound, buffer.offset - variant.allocations[allocation].offset});
    }
    first_grid_bound += static_cast<size_t>(step.num_grid_bounds);
  }
  always_.resize(needed_.size());
  // Buffers that the loop control writes itself are needed in full, whatever the sizes of the run.
  const auto keep = [&](int32_t index) {
    if (index < 0 || variant.buffers[index].kind != TESSERA_BUFFER_ARENA) return;
    const tessera_module_buffer& buffer = variant.buffers[index];
    const auto allocation = static_cast<size_t>(buffer.index);
    always_[allocation] =
        std::max(always_[allocation], buffer.offset - variant.allocations[allocation].offset + buffer.size_bytes);
  };
  for (const tessera_module_loop& loop : std::span(variant.loops, static_cast<size_t>(variant.num_loops))) {
    keep(loop.iteration);
    keep(loop.executed);
    for (int32_t i = 0; i < loop.num_carried; ++i) {
      keep(loop.carried[i].result);
      keep(loop.carried[i].spare);
    }
    for (int32_t i = 0; i < loop.num_scans; ++i)
      if (loop.scans[i].written != 0) keep(loop.scans[i].whole);
  }
}

int64_t ArenaLayout::reservedBytes() const {
  int64_t largest = 0;
  for (int32_t p = 0; p < variant_.num_allocations; ++p)
    largest = std::max(largest, variant_.allocations[p].size_bytes);
  return variant_.arena_bytes + largest;
}

int64_t ArenaLayout::offset(const tessera_module_buffer& buffer) const {
  if (offsets_.empty()) return buffer.offset;
  const auto allocation = static_cast<size_t>(buffer.index);
  return offsets_[allocation] + buffer.offset - variant_.allocations[allocation].offset;
}

void ArenaLayout::measure(std::span<const EvaluatedGridBound> grid_bounds) {
  needed_ = always_;  // of the same length: allocates nothing
  for (const Writer& writer : writers_) {
    const tessera_module_step& step = variant_.steps[writer.step];
    const int64_t size = variant_.buffers[step.operands[writer.operand]].size_bytes;
    const int64_t written = writtenBytes(step, writer.operand, size, grid_bounds.subspan(writer.first_grid_bound));
    if (written > 0) needed_[writer.allocation] = std::max(needed_[writer.allocation], writer.within + written);
  }
}

bool ArenaLayout::holds(const Layout& layout) const {
  return std::equal(needed_.begin(), needed_.end(), layout.sizes.begin(),
                    [](int64_t needed, int64_t size) { return needed <= size; });
}

ArenaLayout::Layout ArenaLayout::pack() const {
  std::vector<Lifetime> lifetimes;
  Layout greatest;
  for (size_t p = 0; p < needed_.size(); ++p) {
    const tessera_module_allocation& allocation = variant_.allocations[p];
    lifetimes.push_back({needed_[p], allocation.first, allocation.last});
    greatest.sizes.push_back(allocation.size_bytes);
    greatest.offsets.push_back(allocation.offset);
  }
  greatest.bytes = variant_.arena_bytes;
  Arena arena = packArena(lifetimes, Packing::kSmallest);
  if (arena.bytes >= greatest.bytes) return greatest;
  return {needed_, std::move(arena.offsets), arena.bytes};
}

bool ArenaLayout::fit(std::span<const EvaluatedGridBound> grid_bounds) {
  if (offsets_.empty()) return false;
  measure(grid_bounds);
  auto chosen = layouts_.end();
  for (auto layout = layouts_.begin(); layout != layouts_.end(); ++layout)
    if (holds(*layout) && (chosen == layouts_.end() || layout->bytes < chosen->bytes)) chosen = layout;
  if (chosen == layouts_.end()) {
    Layout made = pack();
    std::erase_if(layouts_, [&](const Layout& other) {
      return other.bytes <= made.bytes && std::equal(other.sizes.begin(), other.sizes.end(), made.sizes.begin(),
                                                     [](int64_t theirs, int64_t ours) { return theirs <= ours; });
    });
    if (layouts_.size() == kMaxLayouts) layouts_.erase(layouts_.begin());
    chosen = layouts_.insert(layouts_.end(), std::move(made));
  }
  bytes_ = chosen->bytes;
  if (chosen->offsets == offsets_) return false;
  offsets_ = chosen->offsets;  // of the same length: allocates nothing
  return true;
}

}  // namespace tessera::compiler
