#pragma once

#include "compiler/cost/walk.h"

namespace tessera::compiler::cost {

/// walk() for trees whose steps do not divide. Exact if no two dimensions of the tensor depend on one loop; spatial
/// loops of two dimensions are treated as if they moved independently.
///
/// An instance that has no work in a step keeps its content until its next one. A step is described by one index per
/// loop. Loops fall into components: those of one dimension, and those whose iterations depend on each other. The slice
/// is a product over components, so sums over all steps are products of sums over the steps of one component. Within a
/// component, indices of a loop that leave equally many iterations, whatever the loop meets, are one class.
WalkCounts walkUneven(const SlicePath& path);

}  // namespace tessera::compiler::cost
