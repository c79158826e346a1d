#include "compiler/codegen/region/region_packing.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/kernel/nest_instruction.h"
#include "compiler/codegen/kernel/registry.h"
#include "compiler/codegen/tiling/loop_order.h"
#include "compiler/codegen/tiling/micro_kernel.h"
#include "compiler/codegen/tree/panels.h"
#include "compiler/schedule/fault.h"
#include "compiler/schedule/text.h"
#include "compiler/schedule/words.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

/// Panels of one operand that all variants read.
struct SharedPanels {
  int number = 0, input = 0;
  PackedOperand packed = {};  ///< packing in the variant that fills the panels
  Access source, panels;
  llvm::SmallVector<int64_t> extents;  ///< of the loops of `source`
  int64_t along = 0;                   ///< stride of the operand along the loop that is cut into panels
  int64_t width = 0;                   ///< iterations of a panel
  std::optional<RegionNestRun> copy;   ///< unset: a phase before the region fills them
  llvm::SmallVector<int> group;        ///< groups of the leading slice loops on which the panels depend

  /// Whether the slices of `variant` share these panels.
  bool serves(const RegionVariant& variant) const {
    return llvm::ArrayRef<int>(variant.group).take_front(group.size()) == llvm::ArrayRef<int>(group);
  }
};

class RegionPlanner {
 public:
  RegionPlanner(mlir::OpBuilder& builder, const Chip& chip, Region& region, std::vector<PackBefore>& before,
                const ParsedRegion* followed)
      : builder_(builder), chip_(chip), region_(region), before_(before), followed_(followed) {}

  absl::Status plan(size_t number, std::vector<RegionNest>& nests, bool main) {
    RegionVariant& variant = region_.variants[number];
    tree_ = followed_ ? &followed_->variants[number] : nullptr;
    written_.clear();
    for (const RegionNest& each : nests)
      for (const Statement& statement : each.nest.statements)
        for (const Operand& output : statement.outputs) {
          // Panels of a buffer that the region writes are refilled whenever its writer has run.
          int& depth = written_[output.access.root];
          depth = std::max(depth, each.depth);
        }
    size_t copied = 0;
    // Every variant that shares panels contains the steps that fill them, whether it reads them or not: its slice may
    // be the first of a thread's range.
    auto fillShared = [&](int upto) -> absl::Status {
      for (; !main && copied < shared_.size() && shared_[copied].number <= upto; ++copied) {
        if (!shared_[copied].copy || !shared_[copied].serves(variant)) continue;
        TESSERA_RETURN_IF_ERROR(sharedLeaf(variant, shared_[copied]));
        variant.steps.push_back(*shared_[copied].copy);
        variant.steps.back().shared = true;
      }
      return absl::OkStatus();
    };
    for (RegionNest& each : nests) {
      TESSERA_RETURN_IF_ERROR(fillShared(each.number));
      for (auto [i, input] : llvm::enumerate(each.nest.statements[0].inputs))
        if (input.access.root && !input.from) input.runs = runsWith(each, static_cast<int>(i));
      auto fits = [&](const TilePlan& plan) {
        return llvm::all_of(plan.packed, [&](const PackedOperand& packed) {
          if (depthOf(each, packed.input) == sliceLoops()) return true;  // panels of this slice alone
          if (main) return true;
          const SharedPanels* shared = sharedFor(variant, each, plan, packed);
          return shared && (!tree_ || asShared(*shared, each, packed) == packed);
        });
      };
      TESSERA_ASSIGN_OR_RETURN(auto plan, tree_ ? followed(variant, each) : chosen(variant, each, main, fits));
      if (!fits(plan))
        return scheduleFault(tree_->path, absl::StrCat("panels of nest ", each.number, " that other slices share"),
                             "others than those of the kind with the most slices", "the same panels, or none");
      for (const PackedOperand& packed : plan.packed) TESSERA_RETURN_IF_ERROR(pack(variant, each, plan, packed, main));
      plan.grid_levels = 0;
      variant.steps.push_back({std::move(each.nest), std::move(plan), each.number, each.depth, each.last});
    }
    TESSERA_RETURN_IF_ERROR(fillShared(std::numeric_limits<int>::max()));
    if (tree_ && variant.steps.size() != tree_->leaves.size())
      return scheduleFault(tree_->leaves[variant.steps.size()].path, "a leaf that no nest of these slices is for",
                           printTileLine(*tree_->leaves[variant.steps.size()].tile), "no leaf");
    return absl::OkStatus();
  }

  llvm::SmallVector<mlir::Value> takePanels() { return std::move(panels_); }

 private:
  /// Chooses the instruction of the fewest cycles that can read the existing panels, or none.
  absl::StatusOr<TilePlan> chosen(const RegionVariant& variant, RegionNest& each, bool main,
                                  llvm::function_ref<bool(const TilePlan&)> fits) {
    std::vector<Nest> forms = instructionVariants(builder_, each.nest, chip_, wanted(each, main));
    // The plain form is last: multiply-adds can run any nest.
    forms.push_back(std::move(each.nest));
    TilePlan plan;
    for (Nest& form : forms) {
      each.nest = std::move(form);
      plan = planTile(each.nest, chip_, wanted(each, main));
      // Existing panels do not suit this nest: reads the operand unpacked.
      if (!fits(plan)) plan = planTile(each.nest, chip_, {.packed = llvm::SmallVector<int>()});
      const auto& step = each.nest.statements[0].step;
      if (fits(plan) && (!step || plan.kernel->evaluates(*step))) break;
    }
    // Panels of a region are filled by steps of their own, not block by block within the product.
    for (PackedOperand& packed : plan.packed) {
      packed.within = false;
      packed.ahead = 0;
      if (!main && depthOf(each, packed.input) < sliceLoops())
        packed = asShared(*sharedFor(variant, each, plan, packed), each, packed);
    }
    return plan;
  }

  /// The leaf at `position` among the variant's leaves.
  absl::StatusOr<Leaf> leafAt(size_t position) const {
    if (position < tree_->leaves.size()) return tree_->leaves[position];
    return scheduleFault(tree_->path, "fewer leaves than these slices have steps", absl::StrCat(tree_->leaves.size()),
                         "one leaf for each nest, and for each copy before it");
  }

  /// The nest's leaf is the first that is not a copy: leaves of copies of its operands precede it.
  absl::StatusOr<TilePlan> followed(const RegionVariant& variant, RegionNest& each) const {
    size_t position = variant.steps.size();
    auto leaf = leafAt(position);
    while (leaf.ok() && leaf->tile->kernel().variant() == words::kPack) leaf = leafAt(++position);
    if (!leaf.ok()) return leaf.status();
    if (absl::Status status =
            rewriteNestFor(builder_, each.nest, chip_, leaf->tile->kernel().instruction(), leaf->path);
        !status.ok())
      return status;
    auto plan = planOf(*leaf, each.nest, each.number, chip_);
    if (plan.ok() && (plan->grid_levels > 0 ||
                      llvm::any_of(plan->packed, [](const PackedOperand& packed) { return packed.within; })))
      return scheduleFault(leaf->path, "within slices nothing is dealt to units, nor copied block by block",
                           printTileLine(*leaf->tile), "loops that run in time, panels of whole operands");
    return plan;
  }

  absl::Status sharedLeaf(const RegionVariant& variant, const SharedPanels& shared) const {
    if (!tree_) return absl::OkStatus();
    TESSERA_ASSIGN_OR_RETURN(auto leaf, leafAt(variant.steps.size()));
    const std::string accepted = absl::StrCat("[] shared-pack nest ", shared.number,
                                              shared.input == 0 ? "" : absl::StrCat(" operand ", shared.input));
    if (printTileLine(*leaf.tile) == accepted && leaf.tile->stages().empty() && leaf.tile->children().empty())
      return absl::OkStatus();
    return scheduleFault(leaf.path, "panels that all slices fill", printTileLine(*leaf.tile), accepted);
  }

  int sliceLoops() const { return static_cast<int>(region_.counts.size()); }

  /// The constraints that existing panels put on the plan of a nest.
  PlanConstraints wanted(const RegionNest& each, bool main) const {
    PlanConstraints wanted;
    if (main) return wanted;
    for (const SharedPanels& shared : shared_) {
      if (shared.number != each.number) continue;
      if (!wanted.packed) wanted.packed.emplace();
      wanted.packed->push_back(shared.input);
      // Panels of the vector operand fix the number of vectors of the tile, but not its rows.
      const int64_t lanes = chip_.vectorBits() / elementBits(shared.source.element);
      if ((shared.along == 1 || shared.width % lanes == 0) && wanted.vectors == 0)
        wanted.vectors = ceilDiv(shared.width, lanes);
    }
    return wanted;
  }

  /// The number of leading slice numbers on which the content of an operand depends.
  int depthOf(const RegionNest& each, int input) const {
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

  /// The number of consecutive slices that read the same content of an operand.
  int64_t runsWith(const RegionNest& each, int input) const {
    int64_t runs = 1;
    for (int v = depthOf(each, input); v < sliceLoops(); ++v) runs *= region_.counts[v];
    return runs;
  }

  /// The main variant's loop that walks the operand as `loop` of this nest does; -1: none.
  int sameLoop(const SharedPanels& shared, const Access& access, const Nest& nest, int loop) const {
    for (int other = 0; other < static_cast<int>(shared.extents.size()); ++other)
      if (shared.source.strides[other] == access.strides[loop] &&
          (shared.extents[other] == nest.extents[loop] ||
           (region_.masked && shared.extents[other] > nest.extents[loop])))  // masked: reads a prefix of the keys
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

  /// The packing of an operand that is read from these panels.
  PackedOperand asShared(const SharedPanels& shared, const RegionNest& each, const PackedOperand& packed) const {
    const Access& access = each.nest.statements[0].inputs[packed.input].access;
    PackedOperand same = shared.packed;
    same.loop = packed.loop;
    same.order.clear();
    for (int other : shared.packed.order)
      for (int loop : packed.order)
        if (sameLoop(shared, access, each.nest, loop) == other) same.order.push_back(loop);
    return same;
  }

  absl::Status pack(RegionVariant& variant, RegionNest& each, const TilePlan& plan, const PackedOperand& packed,
                    bool main) {
    Operand& operand = each.nest.statements[0].inputs[packed.input];
    const int depth = depthOf(each, packed.input);
    // The panels exist: redirects the operand's accesses to them, loop by loop.
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
      return absl::OkStatus();
    }
    SharedPanels shared;
    shared.number = each.number;
    shared.input = packed.input;
    shared.packed = packed;
    shared.source = operand.access;
    shared.group.assign(variant.group.begin(), variant.group.begin() + depth);
    shared.extents = each.nest.extents;
    shared.along = operand.access.strides[packed.loop];
    shared.width = plan.tile[packed.loop];
    // An input that no slice changes is packed once, by a phase before the region.
    const bool before = depth == 0 && !written_.contains(operand.access.root);
    TESSERA_ASSIGN_OR_RETURN(auto leaf, copyLeaf(variant, before));
    TESSERA_ASSIGN_OR_RETURN(auto copy,
                             packInput(builder_, each.nest, plan, packed, each.number, chip_, leaf ? &*leaf : nullptr));
    shared.panels = operand.access;
    if (before) {
      before_.push_back({std::move(copy.nest), std::move(copy.plan), each.number, packed.input});
    } else {
      copy.plan.grid_levels = 0;
      panels_.push_back(operand.access.root);
      shared.copy = RegionNestRun{std::move(copy.nest), std::move(copy.plan), each.number, depth, false, packed.input};
      variant.steps.push_back(*shared.copy);
    }
    // Other variants read these panels too.
    if (depth < sliceLoops()) shared_.push_back(std::move(shared));
    return absl::OkStatus();
  }

  /// The leaf of the next copy, if a tree is followed.
  absl::StatusOr<std::optional<Leaf>> copyLeaf(const RegionVariant& variant, bool before) const {
    if (!tree_) return std::optional<Leaf>();
    if (!before) {
      TESSERA_ASSIGN_OR_RETURN(auto leaf, leafAt(variant.steps.size()));
      for (const v1::Loop& loop : leaf.tile->loops())
        if (!loop.unit().empty())
          return scheduleFault(leaf.path, "within slices nothing is dealt to units", printTileLine(*leaf.tile),
                               "loops that run in time");
      return std::optional<Leaf>(leaf);
    }
    if (before_.size() < followed_->copies.size()) return std::optional<Leaf>(followed_->copies[before_.size()]);
    return scheduleFault(followed_->tile.path, "operands in panels without leaves that copy them",
                         absl::StrCat(followed_->copies.size(), " leaves"), "one leaf for each in the phase before");
  }

  mlir::OpBuilder& builder_;
  const Chip& chip_;
  Region& region_;
  std::vector<PackBefore>& before_;
  const ParsedRegion* followed_;
  const ParsedVariant* tree_ = nullptr;  ///< of the variant being planned
  std::vector<SharedPanels> shared_;
  llvm::DenseMap<mlir::Value, int> written_;  ///< buffers that the variant writes, with the depth of the writing step
  llvm::SmallVector<mlir::Value> panels_;
};

int64_t iterationsOf(const std::vector<RegionNest>& nests) {
  int64_t sum = 0;
  for (const RegionNest& each : nests) sum += each.nest.iterations();
  return sum;
}

}  // namespace

absl::StatusOr<llvm::SmallVector<mlir::Value>> planRegion(mlir::OpBuilder& builder, const Chip& chip,
                                                          std::vector<std::vector<RegionNest>>& nests, Region& region,
                                                          std::vector<PackBefore>& before,
                                                          const ParsedRegion* followed) {
  size_t main = 0;
  int64_t most = -1;
  for (auto [i, variant] : llvm::enumerate(region.variants)) {
    int64_t slices = 1;
    for (auto [v, group] : llvm::enumerate(variant.group)) slices *= region.groups[v][group].size();
    // If a mask leaves some slices fewer keys, the main variant is the one with all keys.
    if (region.masked) slices = iterationsOf(nests[i]);
    if (slices <= most) continue;
    most = slices;
    main = i;
  }
  RegionPlanner planner(builder, chip, region, before, followed);
  // The variant with the most slices is planned first: it chooses the panels, and the others adapt to them.
  TESSERA_RETURN_IF_ERROR(planner.plan(main, nests[main], true));
  for (size_t i = 0; i < region.variants.size(); ++i)
    if (i != main) TESSERA_RETURN_IF_ERROR(planner.plan(i, nests[i], false));
  if (followed && before.size() != followed->copies.size())
    return scheduleFault(followed->copies[before.size()].path, "a copy that no operand is read from",
                         printTileLine(*followed->copies[before.size()].tile), "no leaf");
  return planner.takePanels();
}

}  // namespace tessera::compiler::codegen
