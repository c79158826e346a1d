#pragma once

#include <map>
#include <vector>

#include "compiler/import/node.h"

/// Slices whose starts or ends only a run knows: bags of an index list, a window that a number of the data places.
namespace tessera::compiler {

/// What a slice takes of each dimension of its input.
struct SliceRange {
  std::vector<int64_t> offsets, sizes, strides;
  std::map<int64_t, mlir::Value> extents;  ///< of bounded dimensions
  std::map<int64_t, mlir::Value> starts;   ///< i64, in the place of offsets: of rank 0, where a run decides
};

/// Slices dimension `dim` from and to what elements `at` of inputs 1 and 2 are in a run: as large as the dimension,
/// with the elements there are in front.
void sliceLive(const Node& n, Emitter& e, int64_t dim, int64_t at, int64_t step, SliceRange& range);

/// The range of a slice whose starts or ends only the data decide; `refused`: what to answer when they must be known.
absl::StatusOr<SliceRange> readLiveRange(Node& n, Emitter& e, const absl::Status& refused);

/// Whether an extent is that of a window whose place the data decide, from a start to the start and a number: shorter
/// only where it reaches over an end. What has to know how long it is, takes it for whole.
bool isWindow(mlir::Value extent);
/// Without the extents of windows.
std::vector<Tensor> wholeWindows(const std::vector<Tensor>& inputs);
/// Removes what isWindow() goes by.
void forgetWindows(mlir::Operation* function);

}  // namespace tessera::compiler
