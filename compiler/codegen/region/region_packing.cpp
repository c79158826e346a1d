#include "compiler/codegen/region/region_packing.h"

#include <limits>

#include "compiler/codegen/tiling/loop_order.h"
#include "compiler/codegen/tiling/packing.h"

namespace tessera::compiler::codegen {
namespace {

/// Panels of one operand that all variants read.
struct SharedPanels {
  int number = 0, input = 0;
  Access source, panels;
  llvm::SmallVector<int64_t> extents;  ///< of the loops of `source`
  int64_t along = 0;                   ///< stride of the operand along the loop that is cut into panels
  int64_t width = 0;                   ///< iterations of a panel
  std::optional<RegionStep> copy;      ///< none: a phase before the region fills them
  llvm::SmallVector<int> group;        ///< of the slice numbers they depend on

  /// Whether `variant` is about slices that share them.
  bool serves(const RegionVariant& variant) const {
    return llvm::ArrayRef<int>(variant.group).take_front(group.size()) == llvm::ArrayRef<int>(group);
  }
};

class RegionPlanner {
 public:
  RegionPlanner(mlir::OpBuilder& builder, const Machine& machine, Region& region, std::vector<PackBefore>& before)
      : builder_(builder), machine_(machine), region_(region), before_(before) {}

  void plan(RegionVariant& variant, std::vector<RegionNest>& nests, bool main) {
    written_.clear();
    for (const RegionNest& each : nests)
      for (const Statement& statement : each.nest.statements)
        for (const Operand& output : statement.outputs) {
          int& depth = written_[output.access.root];
          depth = std::max(depth, each.depth);
        }
    size_t copied = 0;
    // Slices that share panels fill them, whether they read them or not: another may come first in a range.
    auto fillShared = [&](int number) {
      for (; !main && copied < shared_.size() && shared_[copied].number <= number; ++copied)
        if (shared_[copied].copy && shared_[copied].serves(variant)) variant.steps.push_back(*shared_[copied].copy);
    };
    for (RegionNest& each : nests) {
      fillShared(each.number);
      for (auto [i, input] : llvm::enumerate(each.nest.statements[0].inputs))
        if (input.access.root && !input.from) input.runs = runsWith(each, static_cast<int>(i));
      TilePlan plan = planTile(each.nest, machine_, wanted(each, main));
      const bool fits = llvm::all_of(plan.packed, [&](const PackedOperand& packed) {
        if (depthOf(each, packed.input) == sliceLoops()) return true;  // panels of its own
        return main || sharedFor(variant, each, plan, packed) != nullptr;
      });
      if (!fits) {
        v1::Schedule nothing;
        nothing.add_packed_operands(-1);
        plan = planTile(each.nest, machine_, nothing);
      }
      for (const PackedOperand& packed : plan.packed) pack(variant, each, plan, packed, main);
      plan.grid_levels = 0;
      variant.steps.push_back({std::move(each.nest), std::move(plan), each.number, each.depth, each.last});
    }
    fillShared(std::numeric_limits<int>::max());
  }

  llvm::SmallVector<mlir::Value> takePanels() { return std::move(panels_); }

 private:
  int sliceLoops() const { return static_cast<int>(region_.counts.size()); }

  v1::Schedule wanted(const RegionNest& each, bool main) const {
    v1::Schedule schedule;
    if (main) return schedule;
    for (const SharedPanels& shared : shared_) {
      if (shared.number != each.number) continue;
      schedule.add_packed_operands(shared.input);
      // Panels of the vector operand fix the vectors of the tile, not its rows.
      const bool vectors =
          shared.along == 1 || shared.width % (machine_.vector_bits / elementBits(shared.source.element)) == 0;
      if (vectors && schedule.register_tile_size() == 0) {
        schedule.add_register_tile(0);
        schedule.add_register_tile(
            static_cast<int>(ceilDiv(shared.width, machine_.vector_bits / elementBits(shared.source.element))));
      }
    }
    return schedule;
  }

  /// How many slice numbers the content of an operand depends on.
  int depthOf(const RegionNest& each, int input) const {
    const Access& access = each.nest.statements[0].inputs[input].access;
    int depth = 0;
    for (auto [v, stride] : llvm::enumerate(access.slice))
      if (stride != 0) depth = static_cast<int>(v) + 1;
    if (auto found = written_.find(access.root); found != written_.end()) depth = std::max(depth, found->second);
    int64_t after = 1;
    for (int v = depth; v < sliceLoops(); ++v) after *= region_.counts[v];
    return after == 1 && depth > 0 ? sliceLoops() : depth;
  }

  /// Slices in a row that read the same content of an operand.
  int64_t runsWith(const RegionNest& each, int input) const {
    int64_t runs = 1;
    for (int v = depthOf(each, input); v < sliceLoops(); ++v) runs *= region_.counts[v];
    return runs;
  }

  /// The main variant's loop that walks the operand as `loop` of this nest does; -1: none.
  static int sameLoop(const SharedPanels& shared, const Access& access, const Nest& nest, int loop) {
    for (int other = 0; other < static_cast<int>(shared.extents.size()); ++other)
      if (shared.source.strides[other] == access.strides[loop] && shared.extents[other] == nest.extents[loop])
        return other;
    return -1;
  }

  const SharedPanels* sharedFor(const RegionVariant& variant, const RegionNest& each, const TilePlan& plan,
                                const PackedOperand& packed) const {
    const Operand& operand = each.nest.statements[0].inputs[packed.input];
    const Access& access = operand.access;
    for (const SharedPanels& shared : shared_) {
      if (!shared.serves(variant) || shared.number != each.number || shared.input != packed.input ||
          shared.width != plan.tile[packed.loop] || shared.along != access.strides[packed.loop] ||
          shared.source.root != access.root || shared.source.offset != access.offset ||
          shared.source.slice != access.slice)
        continue;
      int walked = 0;
      bool same = true;
      for (int loop = 0; loop < each.nest.loops(); ++loop)
        if (varies(operand, loop)) {
          ++walked;
          same &= sameLoop(shared, access, each.nest, loop) >= 0;
        }
      for (int64_t stride : shared.source.strides) walked -= stride != 0;
      if (same && walked == 0) return &shared;
    }
    return nullptr;
  }

  void pack(RegionVariant& variant, RegionNest& each, const TilePlan& plan, const PackedOperand& packed, bool main) {
    Operand& operand = each.nest.statements[0].inputs[packed.input];
    const int depth = depthOf(each, packed.input);
    if (!main && depth < sliceLoops()) {
      const SharedPanels* shared = sharedFor(variant, each, plan, packed);
      Access panels = shared->panels;
      panels.strides.assign(each.nest.loops(), 0);
      panels.panel.assign(each.nest.loops(), 0);
      for (int loop = 0; loop < each.nest.loops(); ++loop)
        if (varies(operand, loop)) {
          const int other = sameLoop(*shared, operand.access, each.nest, loop);
          panels.strides[loop] = shared->panels.strides[other];
          panels.panel[loop] = shared->panels.panel[other];
        }
      operand.access = std::move(panels);
      return;
    }
    SharedPanels shared;
    shared.number = each.number;
    shared.input = packed.input;
    shared.source = operand.access;
    shared.group.assign(variant.group.begin(), variant.group.begin() + depth);
    shared.extents = each.nest.extents;
    shared.along = operand.access.strides[packed.loop];
    shared.width = plan.tile[packed.loop];
    const bool within = written_.contains(operand.access.root);
    auto [copy, copy_plan] = packInput(builder_, each.nest, plan, packed, machine_);
    shared.panels = operand.access;
    if (depth == 0 && !within) {
      before_.push_back({std::move(copy), std::move(copy_plan)});
    } else {
      copy_plan.grid_levels = 0;
      panels_.push_back(operand.access.root);
      shared.copy = RegionStep{std::move(copy), std::move(copy_plan), each.number, depth, false};
      variant.steps.push_back(*shared.copy);
    }
    if (depth < sliceLoops()) shared_.push_back(std::move(shared));
  }

  mlir::OpBuilder& builder_;
  const Machine& machine_;
  Region& region_;
  std::vector<PackBefore>& before_;
  std::vector<SharedPanels> shared_;
  llvm::DenseMap<mlir::Value, int> written_;  ///< buffers the variant writes, and the depth of who does
  llvm::SmallVector<mlir::Value> panels_;
};

}  // namespace

llvm::SmallVector<mlir::Value> planRegion(mlir::OpBuilder& builder, const Machine& machine,
                                          std::vector<std::vector<RegionNest>>& nests, Region& region,
                                          std::vector<PackBefore>& before) {
  size_t main = 0;
  int64_t most = -1;
  for (auto [i, variant] : llvm::enumerate(region.variants)) {
    int64_t slices = 1;
    for (auto [v, group] : llvm::enumerate(variant.group)) slices *= region.groups[v][group].size();
    if (slices <= most) continue;
    most = slices;
    main = i;
  }
  RegionPlanner planner(builder, machine, region, before);
  planner.plan(region.variants[main], nests[main], true);
  for (size_t i = 0; i < region.variants.size(); ++i)
    if (i != main) planner.plan(region.variants[i], nests[i], false);
  return planner.takePanels();
}

}  // namespace tessera::compiler::codegen
