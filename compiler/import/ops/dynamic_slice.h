#pragma once

#include <map>
#include <vector>

#include "compiler/import/node.h"

/// Slices whose starts or ends are known only at run time: for example the segments of an EmbeddingBag's index list, or
/// a window at a computed position.
namespace tessera::compiler {

/// The part of each dimension of the input that a slice takes.
struct SliceRange {
  std::vector<int64_t> offsets, sizes, strides;
  std::map<int64_t, mlir::Value> extents;  ///< of bounded dimensions
  std::map<int64_t, mlir::Value> starts;   ///< i64 of rank 0, instead of `offsets`, for starts known at run time
};

/// Slices dimension `dim` between the run-time elements `at` of inputs 1 and 2. The result's bound is the dimension's
/// size; the elements taken come first.
void sliceDynamic(const Node& n, Emitter& e, int64_t dim, int64_t at, int64_t step, SliceRange& range);

/// Reads the range of a slice with starts or ends that the data decide. Returns `refused` if they must be known.
absl::StatusOr<SliceRange> readDynamicRange(Node& n, Emitter& e, const absl::Status& refused);

/// Whether an extent is that of a window at a data-decided position, from a start to the start plus a constant. It is
/// shorter only at an end of the dimension. Operators that need its length assume the full window.
bool isWindow(mlir::Value extent);
/// Returns the inputs without the extents of windows.
std::vector<Tensor> withoutWindowExtents(const std::vector<Tensor>& inputs);
/// Removes the attribute that isWindow() reads.
void removeWindowMarks(mlir::Operation* function);

}  // namespace tessera::compiler
