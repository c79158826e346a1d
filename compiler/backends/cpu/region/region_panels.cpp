#include "compiler/backends/cpu/region/region_panels.h"

#include <algorithm>

#include "compiler/backends/cpu/tiling/loop_order.h"

namespace tessera::compiler::codegen {
namespace {

int64_t iterationsOf(const std::vector<RegionNest>& nests) {
  int64_t sum = 0;
  for (const RegionNest& each : nests) sum += each.nest.iterations();
  return sum;
}

}  // namespace

size_t RegionPanels::mainVariant(const Region& region, llvm::ArrayRef<std::vector<RegionNest>> nests) {
  size_t main = 0;
  int64_t most = -1;
  for (auto [i, variant] : llvm::enumerate(region.variants)) {
    int64_t slices = 1;
    for (auto [v, group] : llvm::enumerate(variant.group)) slices *= region.groups[v][group].size();
    if (region.masked) slices = iterationsOf(nests[i]);
    if (slices <= most) continue;
    most = slices;
    main = i;
  }
  return main;
}

void RegionPanels::begin(RegionVariant& variant, llvm::ArrayRef<RegionNest> nests, bool main) {
  variant_ = &variant;
  main_ = main;
  repeated_ = 0;
  written_.clear();
  for (const RegionNest& each : nests)
    for (const Statement& statement : each.nest.statements)
      for (const Operand& output : statement.outputs) {
        // Panels of a buffer that the region writes are refilled whenever its writer has run.
        int& depth = written_[output.access.root];
        depth = std::max(depth, each.depth);
      }
}

const SharedPanels* RegionPanels::nextRepeated(int upto) {
  while (!main_ && repeated_ < shared_.size() && shared_[repeated_].number <= upto) {
    const SharedPanels& next = shared_[repeated_++];
    if (next.copy && next.serves(*variant_)) return &next;
  }
  return nullptr;
}

void RegionPanels::repeat(const SharedPanels& shared) {
  variant_->steps.push_back(*shared.copy);
  variant_->steps.back().shared = true;
}

void RegionPanels::countRuns(RegionNest& each) const {
  for (auto [i, input] : llvm::enumerate(each.nest.statements[0].inputs)) {
    if (!input.access.root || input.from) continue;
    // Consecutive slices that read the same content of the operand.
    input.runs = 1;
    for (int v = depthOf(each, static_cast<int>(i)); v < sliceLoops(); ++v) input.runs *= region_.counts[v];
  }
}

bool RegionPanels::choosesPanels(const RegionNest& each, int input) const {
  return main_ || depthOf(each, input) == sliceLoops();
}

/// The number of leading slice numbers on which the content of an operand depends.
int RegionPanels::depthOf(const RegionNest& each, int input) const {
  const Access& access = each.nest.statements[0].inputs[input].access;
  int depth = 0;
  for (auto [v, stride] : llvm::enumerate(access.slice))
    if (stride != 0) depth = static_cast<int>(v) + 1;
  if (auto found = written_.find(access.root); found != written_.end()) depth = std::max(depth, found->second);
  int64_t after = 1;
  for (int v = depth; v < sliceLoops(); ++v) after *= region_.counts[v];
  // If the remaining slice loops have a single slice, the operand changes with every slice anyway.
  return after == 1 && depth > 0 ? sliceLoops() : depth;
}

/// The main variant's loop that walks the operand as `loop` of this nest does; -1: none.
int RegionPanels::sameLoop(const SharedPanels& shared, const Access& access, const Nest& nest, int loop) const {
  for (int other = 0; other < static_cast<int>(shared.extents.size()); ++other)
    if (shared.source.strides[other] == access.strides[loop] &&
        (shared.extents[other] == nest.extents[loop] ||
         (region_.masked && shared.extents[other] > nest.extents[loop])))  // masked: reads a prefix of the keys
      return other;
  return -1;
}

const SharedPanels* RegionPanels::sharedFor(const RegionNest& each, const TilePlan& plan,
                                            const PackedOperand& packed) const {
  const Operand& operand = each.nest.statements[0].inputs[packed.input];
  const Access& access = operand.access;
  for (const SharedPanels& shared : shared_) {
    if (!shared.serves(*variant_) || shared.number != each.number || shared.input != packed.input ||
        shared.width != plan.tile[packed.loop] || shared.along != access.strides[packed.loop] ||
        shared.source.root != access.root || shared.source.element != access.element ||
        shared.source.offset != access.offset || shared.source.slice != access.slice)
      continue;
    int walked = 0;
    bool same = true;
    for (int loop = 0; loop < each.nest.loops(); ++loop)
      if (varies(operand, loop)) {
        ++walked;
        same &= sameLoop(shared, access, each.nest, loop) >= 0;
      }
    // Both nests must walk the operand by the same number of loops.
    for (int64_t stride : shared.source.strides) walked -= stride != 0;
    if (same && walked == 0) return &shared;
  }
  return nullptr;
}

PackedOperand RegionPanels::asShared(const SharedPanels& shared, const RegionNest& each,
                                     const PackedOperand& packed) const {
  const Access& access = each.nest.statements[0].inputs[packed.input].access;
  PackedOperand same = shared.packed;
  same.loop = packed.loop;
  same.order.clear();
  for (int other : shared.packed.order)
    for (int loop : packed.order)
      if (sameLoop(shared, access, each.nest, loop) == other) same.order.push_back(loop);
  return same;
}

void RegionPanels::read(RegionNest& each, const TilePlan& plan, const PackedOperand& packed) const {
  Operand& operand = each.nest.statements[0].inputs[packed.input];
  const SharedPanels* shared = sharedFor(each, plan, packed);
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
}

NewPanels RegionPanels::create(RegionNest& each, const TilePlan& plan, const PackedOperand& packed) {
  Operand& operand = each.nest.statements[0].inputs[packed.input];
  NewPanels panels;
  panels.depth = depthOf(each, packed.input);
  panels.before = panels.depth == 0 && !written_.contains(operand.access.root);
  SharedPanels& shared = panels.shared;
  shared.number = each.number;
  shared.input = packed.input;
  shared.packed = packed;
  shared.source = operand.access;
  shared.group.assign(variant_->group.begin(), variant_->group.begin() + panels.depth);
  shared.extents = each.nest.extents;
  shared.along = operand.access.strides[packed.loop];
  shared.width = plan.tile[packed.loop];
  panels.copy = moveToPanels(builder_, each.nest, plan, packed);
  shared.panels = operand.access;
  return panels;
}

void RegionPanels::add(NewPanels panels, TilePlan plan) {
  SharedPanels& shared = panels.shared;
  if (panels.before) {
    before_.push_back({std::move(panels.copy.nest), std::move(plan), shared.number, shared.input});
  } else {
    plan.grid_levels = 0;
    panels_.push_back(shared.panels.root);
    shared.copy =
        RegionNestRun{std::move(panels.copy.nest), std::move(plan), shared.number, panels.depth, false, shared.input};
    variant_->steps.push_back(*shared.copy);
  }
  // Other variants read these panels too.
  if (panels.depth < sliceLoops()) shared_.push_back(std::move(shared));
}

void RegionPanels::add(RegionNest each, TilePlan plan) {
  plan.grid_levels = 0;
  variant_->steps.push_back({std::move(each.nest), std::move(plan), each.number, each.depth, each.last});
}

}  // namespace tessera::compiler::codegen
