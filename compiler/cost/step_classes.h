#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "compiler/cost/step_extents.h"

namespace tessera::compiler::cost {

/// Iterations [begin, end) of a loop.
struct StepClass {
  int64_t begin = 0, end = 1;
};
using StepClassList = absl::InlinedVector<StepClass, 3>;

/// For some of the loops around a tile: classes of iterations. Iterations of one class leave equally many iterations
/// inside, however many the loop meets.
class StepClasses {
 public:
  /// `positions` in `path`, ascending. Both outlive the object.
  StepClasses(const BoundTree& tree, const std::vector<BoundLoop>& path, std::vector<size_t> positions);

  const std::vector<size_t>& positions() const { return positions_; }
  const BoundLoop& loop(size_t k) const { return path_[positions_[k]]; }
  const StepClassList& of(size_t k) const { return classes_[k]; }
  StepClass at(size_t k, int64_t index) const;
  /// The step of these indices, nothing if one of the loops has no such iteration.
  std::optional<StepExtents> step(absl::Span<const int64_t> indices) const;

 private:
  const BoundTree& tree_;
  const std::vector<BoundLoop>& path_;
  std::vector<size_t> positions_;
  absl::InlinedVector<StepClassList, 4> classes_;
};

/// Numbers of components: one for each loop of the nest. Loops whose iterations depend on each other have equal ones.
using Components = absl::InlinedVector<int, 8>;

/// Unites the components of all loops that occur in the subscript.
void uniteLoops(Components& components, const loopnest::Subscript& subscript);

}  // namespace tessera::compiler::cost
