#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "compiler/backends/cpu/phases.h"

/// A workload about to run slice by slice: its nests as one list, the names of the dimensions that slices cut, and the
/// softmax rewritten.
namespace tessera::compiler::codegen {

/// All nests of a list in program order. The results are those buffers they write that are arguments. Errors:
/// INVALID_ARGUMENT if an operation is no loop nest.
absl::StatusOr<SlicedNests> flattenPhases(const PhaseList& list);

/// The tree's name of coordinate `c`: "d1", or "d1.0" if dimension 1 is several coordinates.
std::string nameOf(const Coordinates& coordinates, int c);

/// Iterations of the last contraction's reduction, which "r0" names.
int64_t lastReduction(const SlicedNests& nests);

/// Returns the number of slices of `step` iterations in a sequence of `part` iterations, along a coordinate of
/// `extent`. 0 if a sequence is not at least two whole slices.
int64_t slicesOfSequence(int64_t extent, int64_t part, int64_t step);

/// Rewrites softmax for slices: whole rows, or blocks of `columns` (0: whole rows), in which case the loop over blocks
/// is returned. Nothing if there is no softmax to rewrite. Errors: as runSoftmaxInBlocks.
absl::StatusOr<std::optional<SliceLoop>> rewriteSoftmax(mlir::OpBuilder& builder, SlicedNests& nests, int64_t columns);

/// Completes the loops for a region: without any cut it is one slice, and slices that keep rows of the previous slice
/// need buffers that hold one value each. Moves `builder` to the start of its block.
void prepareSlices(mlir::OpBuilder& builder, SlicedNests& nests, llvm::SmallVector<SliceLoop>& loops);

}  // namespace tessera::compiler::codegen
