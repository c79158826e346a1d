#include "compiler/backends/cpu/emit/grid_walk.h"

#include <map>
#include <optional>

#include "compiler/backends/cpu/operand_accesses.h"
#include "compiler/backends/cpu/tiling/loop_order.h"

namespace tessera::compiler::codegen {
namespace {

using WalkInfo = v1::KernelInfo::Walk;

class WalkWriter {
 public:
  explicit WalkWriter(const PhaseList& list) : list_(list) {}

  /// Returns false when something is written to panels.
  bool nest(const Nest& nest, const TilePlan& plan, WalkInfo& walk) const {
    walk.mutable_extents()->Assign(nest.extents.begin(), nest.extents.end());
    for (int level = 0; level < plan.grid_levels; ++level) {
      WalkInfo::Level& entry = *walk.add_levels();
      entry.set_loop(plan.levels[level].loop);
      entry.set_step(plan.levels[level].step);
      entry.set_count(plan.count(nest, level));
    }
    for (const Statement& statement : nest.statements) {
      for (const Operand& input : statement.inputs) {
        if (accessesInputMemory(input) && input.access.panel.empty()) touch(input.access, {}, false, walk);
      }
      for (auto [o, output] : llvm::enumerate(statement.outputs)) {
        if (!accessesOutputMemory(statement, o)) continue;
        if (!output.access.panel.empty()) return false;
        touch(output.access, {}, true, walk);
      }
    }
    return true;
  }

  bool writesOperand(const Nest& nest) const {
    for (const Statement& statement : nest.statements)
      for (auto [o, output] : llvm::enumerate(statement.outputs))
        if (accessesOutputMemory(statement, o) && bufferOf(output.access.root).value_or(0) >= 0) return true;
    return false;
  }

  /// The writes of a region's nests by slice: the loops within a slice follow the slice loops. Their reads say nothing
  /// about the needed part of the grid, because values pass through the thread's scratch.
  bool region(const Region& region, v1::KernelInfo::Phase& described) const {
    std::vector<llvm::SmallVector<SliceGroup>> groups;  // per walk
    for (auto [v, variant] : llvm::enumerate(region.variants)) {
      llvm::SmallVector<SliceGroup> group;
      llvm::SmallVector<int64_t> slices;  // of this variant: up to the last slice of its group
      // The variant's number in mixed radix: the group of each slice loop.
      for (size_t loop = region.groups.size(), rest = v; loop-- > 0; rest /= region.groups[loop].size())
        group.insert(group.begin(), region.groups[loop][rest % region.groups[loop].size()]);
      for (const SliceGroup& each : group) slices.push_back(each.hi);
      for (const RegionNestRun& step : variant.steps) {
        WalkInfo walk;
        walk.mutable_extents()->Assign(slices.begin(), slices.end());
        walk.mutable_extents()->Add(step.nest.extents.begin(), step.nest.extents.end());
        for (size_t loop = 0; loop < region.counts.size() - (region.blocks > 1 ? 1 : 0); ++loop) {
          WalkInfo::Level& entry = *walk.add_levels();
          entry.set_loop(static_cast<int>(loop));
          const bool parts = region.sequence_length > 1 && loop + 1 == region.counts.size();
          entry.set_step(parts ? region.sequence_length : 1);
          entry.set_count(parts ? region.sequences() : region.counts[loop]);
        }
        for (const Statement& statement : step.nest.statements) {
          for (auto [o, output] : llvm::enumerate(statement.outputs)) {
            if (!accessesOutputMemory(statement, o) || !bufferOf(output.access.root)) continue;
            if (!output.access.panel.empty()) return false;
            touch(output.access, region.counts, true, walk);
          }
        }
        if (walk.touches_size() == 0) continue;
        *described.add_walks() = std::move(walk);
        groups.push_back(group);
      }
    }
    for (size_t loop = 0; loop < region.groups.size(); ++loop)
      moveLoneSlices(groups, static_cast<int>(loop), described);
    return true;
  }

 private:
  /// A variant of one slice, such as the last, smaller one, has a constant offset. Rewrites that offset as a stride
  /// from the first slice, like the other variants.
  static void moveLoneSlices(llvm::ArrayRef<llvm::SmallVector<SliceGroup>> groups, int loop,
                             v1::KernelInfo::Phase& described) {
    std::map<int, int64_t> strides;  // by buffer
    for (const WalkInfo& walk : described.walks())
      for (const WalkInfo::Touch& touch : walk.touches())
        if (touch.strides(loop) > 0) strides.try_emplace(touch.buffer(), touch.strides(loop));
    for (auto [group, walk] : llvm::zip_equal(groups, *described.mutable_walks())) {
      const SliceGroup& slice = group[static_cast<size_t>(loop)];
      if (slice.size() != 1) continue;
      for (WalkInfo::Touch& touch : *walk.mutable_touches()) {
        const auto stride = strides.find(touch.buffer());
        if (touch.strides(loop) != 0 || stride == strides.end()) continue;
        // Otherwise the offset would become negative.
        if (touch.offset() < stride->second * slice.lo) continue;
        touch.set_strides(loop, stride->second);
        touch.set_offset(touch.offset() - stride->second * slice.lo);
      }
    }
  }

  /// Nothing for constants and for buffers in a thread's own memory.
  std::optional<int> bufferOf(mlir::Value root) const {
    if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(root)) return static_cast<int>(argument.getArgNumber());
    for (auto [t, temporary] : llvm::enumerate(list_.temporaries))
      if (temporary.first == root) return -1 - static_cast<int>(t);
    return std::nullopt;
  }

  void touch(const Access& access, llvm::ArrayRef<int64_t> slices, bool written, WalkInfo& walk) const {
    const auto buffer = bufferOf(access.root);
    if (!buffer) return;
    const int64_t bytes = elementBits(access.element) / 8;
    WalkInfo::Touch& entry = *walk.add_touches();
    entry.set_buffer(*buffer);
    entry.set_written(written);
    entry.set_offset(access.offset * bytes);
    for (size_t s = 0; s < slices.size(); ++s) entry.add_strides(s < access.slice.size() ? access.slice[s] * bytes : 0);
    for (int64_t stride : access.strides) entry.add_strides(stride * bytes);
  }

  const PhaseList& list_;
};

}  // namespace

void describeWalks(const Phase& phase, const PhaseList& list, v1::KernelInfo::Phase& described) {
  if (!phase.loops.empty() || phase.concurrent) return;
  const WalkWriter writer(list);
  bool known = !phase.region || writer.region(*phase.region, described);
  for (size_t n = 0; n < phase.nests.size() && known; ++n)
    known = writer.nest(phase.nests[n], phase.plans[n], *described.add_walks());
  if (known) return;
  described.clear_walks();
  if (!phase.region && llvm::none_of(phase.nests, [&](const Nest& nest) { return writer.writesOperand(nest); }))
    described.add_walks();  // without levels and touches: the whole phase runs and writes no result
}

}  // namespace tessera::compiler::codegen
