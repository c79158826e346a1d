#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "compiler/cost/bound_tree.h"
#include "compiler/cost/point_set.h"

/// A slice of a tensor that moves as the loops around its buffer advance, and what enters and leaves the buffer.
namespace tessera::compiler::cost {

/// One value per dimension of the tensor.
using Distances = absl::InlinedVector<int64_t, 4>;
/// One index set per dimension.
using Slice = absl::InlinedVector<PointSet, 4>;

/// One access of the tensor below the buffer.
struct SliceUser {
  int statement = 0;
  const BoundAccess* access = nullptr;
};

/// The slice that an access covers if the loops of the nest have `extents` iterations left.
Slice sliceOf(const BoundAccess& access, absl::Span<const int64_t> extents);

/// Elements of at least one of the slices. Of more than kMaxUnited different slices, the sum of their sizes.
double unionSize(const std::vector<Slice>& slices);
inline constexpr size_t kMaxUnited = 10;

struct SlicePath {
  const BoundTree* tree = nullptr;
  const std::vector<BoundLoop>* loops = nullptr;
  const absl::InlinedVector<Distances, 12>* steps = nullptr;  ///< of each loop around the buffer
  absl::InlinedVector<SliceUser, 4> users = {};               ///< their accesses form the slice
  const Slice* slice = nullptr;                               ///< in the first step
  size_t restart = 0;  ///< loops before this one: a step drops the content of the buffer
  size_t begin = 0;    ///< loops before this one: sums are complete and begin again with each step
  size_t outside = 0;  ///< loops from this one on are between the source and the buffer
};

/// Words that one loop's steps bring, over the whole run.
struct LoopMoves {
  double words = 0;     ///< over all instances of the buffer
  double distinct = 0;  ///< words that several instances of one source take in one step count once
};

/// Over the whole run, all sources and instances.
struct WalkCounts {
  LoopMoves first;                             ///< the first slices
  absl::InlinedVector<LoopMoves, 12> by_loop;  ///< brought by steps of each loop, 0 for spatial ones
  LoopMoves entered;                           ///< all of these; as many words leave
  double distinct_left = 0;                    ///< words that several instances drop in one step count once
  double touched = 0;                          ///< different elements, per source and step of the loops before `begin`
};

/// Counts the moves of a slice. Closed forms of the loops if all steps divide (BoundTree::is_even), otherwise sums over
/// classes of steps with equal slices.
WalkCounts walk(const SlicePath& path);

}  // namespace tessera::compiler::cost
