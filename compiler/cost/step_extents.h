#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "compiler/cost/bound_tree.h"

/// How many iterations one step of the loops around a tile leaves to each statement. Steps that divide leave equally
/// many each time; otherwise the last step of a loop is partial, and so are steps of loops inside of it.
namespace tessera::compiler::cost {

/// Points from the first to the last value of the subscript.
int64_t spanOf(const loopnest::Subscript& subscript, absl::Span<const int64_t> extents);

class StepExtents {
 public:
  /// Outside of all loops. The tree outlives the object.
  explicit StepExtents(const BoundTree& tree);

  /// Iterations of each loop of the nest that the statement has left.
  absl::Span<const int64_t> of(int statement) const;
  /// Iterations that the loop meets. Its steps are this number divided by BoundLoop::step, rounded up.
  int64_t entering(const BoundLoop& loop) const;
  int64_t count(const BoundLoop& loop) const { return (entering(loop) + loop.step - 1) / loop.step; }
  /// Enters iteration `index` of the loop, number `position` of those around its tile. Returns false if the iteration
  /// is beyond the last one; the extents are then without meaning.
  bool enter(const BoundLoop& loop, size_t position, int64_t index);

  bool operator==(const StepExtents& other) const { return extents_ == other.extents_; }

 private:
  size_t row(int statement) const { return tree_->has_follower ? static_cast<size_t>(statement) : 0; }
  int64_t& extent(int statement, size_t loop) { return extents_[row(statement) * tree_->linked.size() + loop]; }

  const BoundTree* tree_;
  /// [statement][loop of the nest]; one row for all statements if none follows others.
  absl::InlinedVector<int64_t, 16> extents_;
};

/// All different steps inside of the first `depth` loops of a view, as far as iterations of `loops` (of the nest)
/// depend on them. Iterations of other loops are whole.
std::vector<StepExtents> stepsInside(const BoundTree& tree, const StatementView& view, size_t depth,
                                     absl::Span<const int> loops);

}  // namespace tessera::compiler::cost
