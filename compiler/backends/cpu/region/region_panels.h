#pragma once

#include <optional>
#include <vector>

#include "compiler/backends/cpu/region/region.h"
#include "compiler/backends/cpu/tiling/panels.h"

namespace tessera::compiler::codegen {

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

/// Panels that a nest has been redirected to, and the copy that fills them, which has no plan yet.
struct NewPanels {
  PanelCopy copy;
  SharedPanels shared;
  int depth = 0;        ///< of the copy's step
  bool before = false;  ///< no slice changes the operand: a phase before the region fills the panels
};

/// Adds the steps of a region variant by variant: nests, and copies of their operands to panels before them. Panels
/// that several variants read have the layout of the main variant. The caller plans nests and copies.
class RegionPanels {
 public:
  /// `before` receives the copies that run before the region.
  RegionPanels(mlir::OpBuilder& builder, Region& region, std::vector<PackBefore>& before)
      : builder_(builder), region_(region), before_(before) {}

  /// The variant whose panels the others share, which has to be the first: the one with the most slices. If a mask
  /// leaves some slices fewer keys, the one with all keys. `nests`: of all variants.
  static size_t mainVariant(const Region& region, llvm::ArrayRef<std::vector<RegionNest>> nests);

  /// Begins the steps of a variant.
  void begin(RegionVariant& variant, llvm::ArrayRef<RegionNest> nests, bool main);

  /// The next copy that this variant repeats before its nest `upto`, null if there is none. Every variant that shares
  /// panels contains the steps that fill them, whether it reads them or not: its slice may be the first of a thread's
  /// range.
  const SharedPanels* nextRepeated(int upto);
  void repeat(const SharedPanels& shared);

  /// Sets Operand::runs of the nest's operands.
  void countRuns(RegionNest& each) const;

  /// Whether panels of the operand would be this variant's choice: they hold one slice, or this is the main variant.
  bool choosesPanels(const RegionNest& each, int input) const;
  llvm::ArrayRef<SharedPanels> shared() const { return shared_; }
  /// The existing panels that the nest could read instead of panels of its own; null if there are none.
  const SharedPanels* sharedFor(const RegionNest& each, const TilePlan& plan, const PackedOperand& packed) const;
  /// The packing of an operand that is read from these panels.
  PackedOperand asShared(const SharedPanels& shared, const RegionNest& each, const PackedOperand& packed) const;

  /// Redirects the operand to the existing panels sharedFor() this packing.
  void read(RegionNest& each, const TilePlan& plan, const PackedOperand& packed) const;
  /// Redirects the operand to new panels.
  NewPanels create(RegionNest& each, const TilePlan& plan, const PackedOperand& packed);
  /// Adds the copy to new panels.
  void add(NewPanels panels, TilePlan plan);
  /// Adds the step of the nest itself.
  void add(RegionNest each, TilePlan plan);

  size_t stepsOfVariant() const { return variant_->steps.size(); }
  size_t copiesBefore() const { return before_.size(); }
  /// The buffers of panels that steps of the region fill.
  llvm::ArrayRef<mlir::Value> buffers() const { return panels_; }

 private:
  int sliceLoops() const { return static_cast<int>(region_.counts.size()); }
  int depthOf(const RegionNest& each, int input) const;
  int sameLoop(const SharedPanels& shared, const Access& access, const Nest& nest, int loop) const;

  mlir::OpBuilder& builder_;
  Region& region_;
  std::vector<PackBefore>& before_;
  RegionVariant* variant_ = nullptr;
  bool main_ = false;
  size_t repeated_ = 0;  ///< of shared_, in this variant
  std::vector<SharedPanels> shared_;
  llvm::DenseMap<mlir::Value, int> written_;  ///< buffers that the variant writes, with the depth of the writing step
  llvm::SmallVector<mlir::Value> panels_;
};

}  // namespace tessera::compiler::codegen
