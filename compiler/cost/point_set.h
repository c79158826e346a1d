#pragma once

#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"

/// Index sets of one tensor dimension, as slices need them: equation 3.8 of the thesis with holes where a stride leaves
/// some. A tile's slice is the product of one set for each dimension.
namespace tessera::compiler::cost {

/// `count` copies, each `stride` further than the one before.
struct Translation {
  int64_t stride = 0, count = 1;
};

/// A set of integers: runs of equally spaced points, in ascending order. Sets of convolutions and products are one run.
class PointSet {
 public:
  /// {0}.
  PointSet() : runs_{{0, 1}} {}
  /// All sums of one multiple of each stride. Sets with more than kMaxTimedRuns runs are replaced by the interval from
  /// their first to their last point.
  static PointSet sumsOf(std::span<const Translation> translations);

  int64_t size() const;
  /// Points that also belong to the set moved by `distance`.
  int64_t overlap(int64_t distance) const;
  bool isEmpty() const { return runs_.empty(); }
  static PointSet empty();
  /// Points that do not belong to `other`. As sumsOf(), approximate for very irregular sets.
  PointSet minus(const PointSet& other) const;
  /// Points that do not belong to the set moved by `distance`.
  PointSet without(int64_t distance) const;
  /// The set moved by `distance`.
  PointSet moved(int64_t distance) const;
  /// The union of all copies. As sumsOf(), approximate for very irregular sets.
  PointSet spread(std::span<const Translation> translations) const;
  /// The size of spread(), without computing it where the copies are disjoint or close up.
  int64_t spreadSize(std::span<const Translation> translations) const;
  PointSet unionWith(const PointSet& other) const;
  bool contains(const PointSet& other) const;
  bool operator==(const PointSet& other) const;

  static constexpr size_t kMaxTimedRuns = size_t{1} << 14;

 private:
  struct Run {
    int64_t first = 0, count = 0;
    bool operator==(const Run&) const = default;
  };
  using Runs = absl::InlinedVector<Run, 1>;

  int64_t last() const { return runs_.back().first + (runs_.back().count - 1) * step_; }
  bool isSingleRun() const { return runs_.size() == 1; }
  /// The same points with a spacing that divides `step`.
  void refine(int64_t step);
  /// The interval from the first to the last point.
  PointSet hull() const;
  /// Gives both sets one spacing; very irregular ones become intervals.
  static void alignSteps(PointSet& left, PointSet& right);
  /// Sorts runs of one spacing and merges those that touch.
  void normalize();
  void spreadBy(Translation translation);

  int64_t step_ = 1;  ///< spacing within runs; runs of different remainders occur only with spacing 1
  Runs runs_;         ///< empty: the empty set
};

}  // namespace tessera::compiler::cost
