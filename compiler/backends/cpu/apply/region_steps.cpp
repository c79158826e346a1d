#include "compiler/backends/cpu/apply/region_steps.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/kernel/nest_instruction.h"
#include "compiler/schedule/fault.h"
#include "compiler/schedule/text.h"
#include "compiler/schedule/words.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

/// Reads the leaves of one variant.
class VariantReader {
 public:
  VariantReader(mlir::OpBuilder& builder, const Chip& chip, RegionPanels& panels, const ParsedRegion& region,
                const ParsedVariant& tree)
      : builder_(builder), chip_(chip), panels_(panels), region_(region), tree_(tree) {}

  absl::Status read(std::vector<RegionNest>& nests) {
    for (RegionNest& each : nests) {
      TESSERA_RETURN_IF_ERROR(repeatCopies(each.number));
      panels_.countRuns(each);
      TESSERA_ASSIGN_OR_RETURN(auto plan, planFor(each));
      TESSERA_RETURN_IF_ERROR(checkShared(each, plan));
      for (const PackedOperand& packed : plan.packed) TESSERA_RETURN_IF_ERROR(pack(each, plan, packed));
      panels_.add(std::move(each), std::move(plan));
    }
    TESSERA_RETURN_IF_ERROR(repeatCopies(std::numeric_limits<int>::max()));
    const size_t steps = panels_.stepsOfVariant();
    if (steps == tree_.leaves.size()) return absl::OkStatus();
    return scheduleFault(tree_.leaves[steps].path, "a leaf without a nest in these slices",
                         printTileLine(*tree_.leaves[steps].tile), "no leaf");
  }

 private:
  /// The leaf at `position` among the variant's leaves.
  absl::StatusOr<Leaf> leafAt(size_t position) const {
    if (position < tree_.leaves.size()) return tree_.leaves[position];
    return scheduleFault(tree_.path, "fewer leaves than these slices have steps", absl::StrCat(tree_.leaves.size()),
                         "one leaf for each nest, and for each copy before it");
  }

  /// The nest's leaf is the first that is not a copy: leaves of copies of its operands precede it.
  absl::StatusOr<TilePlan> planFor(RegionNest& each) const {
    size_t position = panels_.stepsOfVariant();
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
      return scheduleFault(leaf->path, "within slices, loops have no units and copies are whole",
                           printTileLine(*leaf->tile), "loops without units, panels of whole operands");
    return plan;
  }

  /// Copies that the main variant describes, whose leaves here only name them.
  absl::Status repeatCopies(int upto) {
    while (const SharedPanels* shared = panels_.nextRepeated(upto)) {
      TESSERA_ASSIGN_OR_RETURN(auto leaf, leafAt(panels_.stepsOfVariant()));
      const std::string accepted = absl::StrCat("[] shared-pack nest ", shared->number,
                                                shared->input == 0 ? "" : absl::StrCat(" operand ", shared->input));
      if (printTileLine(*leaf.tile) != accepted || !leaf.tile->stages().empty() || !leaf.tile->children().empty())
        return scheduleFault(leaf.path, "leaf of panels that are shared by all slices", printTileLine(*leaf.tile),
                             accepted);
      panels_.repeat(*shared);
    }
    return absl::OkStatus();
  }

  absl::Status checkShared(const RegionNest& each, const TilePlan& plan) const {
    for (const PackedOperand& packed : plan.packed) {
      if (panels_.choosesPanels(each, packed.input)) continue;
      const SharedPanels* shared = panels_.sharedFor(each, plan, packed);
      if (!shared || panels_.asShared(*shared, each, packed) != packed)
        return scheduleFault(
            tree_.path, absl::StrCat("panels of nest ", each.number, " that other kinds of slices share"),
            "panels that differ from those of the kind with the most slices", "the same panels, or none");
    }
    return absl::OkStatus();
  }

  absl::Status pack(RegionNest& each, const TilePlan& plan, const PackedOperand& packed) {
    if (!panels_.choosesPanels(each, packed.input)) {
      panels_.read(each, plan, packed);
      return absl::OkStatus();
    }
    NewPanels created = panels_.create(each, plan, packed);
    TESSERA_ASSIGN_OR_RETURN(auto leaf, copyLeaf(created.before));
    TESSERA_ASSIGN_OR_RETURN(auto copy,
                             packPlanOf(leaf, created.copy.nest, each.number, packed.input, created.copy.width, chip_));
    panels_.add(std::move(created), std::move(copy));
    return absl::OkStatus();
  }

  /// The leaf of the next copy: among the variant's leaves, or in the phase before the region.
  absl::StatusOr<Leaf> copyLeaf(bool before) const {
    if (before) {
      if (panels_.copiesBefore() < region_.copies.size()) return region_.copies[panels_.copiesBefore()];
      return scheduleFault(region_.tile.path, "operands in panels need leaves that copy them",
                           absl::StrCat(region_.copies.size(), " leaves"), "one leaf for each in the phase before");
    }
    TESSERA_ASSIGN_OR_RETURN(auto leaf, leafAt(panels_.stepsOfVariant()));
    for (const v1::Loop& loop : leaf.tile->loops())
      if (!loop.unit().empty())
        return scheduleFault(leaf.path, "within slices, loops have no units", printTileLine(*leaf.tile),
                             "loops without units");
    return leaf;
  }

  mlir::OpBuilder& builder_;
  const Chip& chip_;
  RegionPanels& panels_;
  const ParsedRegion& region_;
  const ParsedVariant& tree_;
};

}  // namespace

absl::Status applySteps(mlir::OpBuilder& builder, const Chip& chip, std::vector<std::vector<RegionNest>>& nests,
                        Region& region, RegionPanels& panels, const ParsedRegion& tree) {
  const size_t main = RegionPanels::mainVariant(region, nests);
  const auto read = [&](size_t number) {
    panels.begin(region.variants[number], nests[number], number == main);
    return VariantReader(builder, chip, panels, tree, tree.variants[number]).read(nests[number]);
  };
  // The main variant first: its leaves describe the panels that the others share.
  TESSERA_RETURN_IF_ERROR(read(main));
  for (size_t i = 0; i < region.variants.size(); ++i)
    if (i != main) TESSERA_RETURN_IF_ERROR(read(i));
  if (panels.copiesBefore() != tree.copies.size())
    return scheduleFault(tree.copies[panels.copiesBefore()].path, "a copy that no nest reads",
                         printTileLine(*tree.copies[panels.copiesBefore()].tile), "no leaf");
  return absl::OkStatus();
}

}  // namespace tessera::compiler::codegen
