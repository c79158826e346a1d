#include "compiler/cost/walk.h"

#include <optional>

#include "compiler/cost/uneven_walk.h"

namespace tessera::compiler::cost {
namespace {

/// All steps are equal.
class EvenWalk {
 public:
  explicit EvenWalk(const SlicePath& path)
      : loops_(*path.loops), steps_(*path.steps), slice_(*path.slice), copies_(path.slice->size()) {
    double instances = 1;
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (!loops_[i].spatial) continue;
      instances *= static_cast<double>(loops_[i].count);
      if (i < path.outside) {
        sources_ *= static_cast<double>(loops_[i].count);
        continue;
      }
      for (size_t d = 0; d < slice_.size(); ++d)
        if (steps_[i][d] != 0 && loops_[i].count > 1) copies_[d].push_back({steps_[i][d], loops_[i].count});
    }
    run(path.restart);
    for (LoopMoves* moves : {&counts_.first, &counts_.entered}) scale(*moves, instances);
    for (LoopMoves& moves : counts_.by_loop) scale(moves, instances);
    counts_.distinct_left = counts_.entered.distinct;
    countTouched(path.begin);
  }

  WalkCounts result() { return std::move(counts_); }

 private:
  void scale(LoopMoves& moves, double instances) const {
    moves.words *= instances;
    moves.distinct *= sources_;
  }

  void countTouched(size_t begin) {
    double product = sources_;
    for (size_t i = 0; i < begin; ++i)
      if (!loops_[i].spatial) product *= static_cast<double>(loops_[i].count);
    for (size_t d = 0; d < slice_.size(); ++d) {
      absl::InlinedVector<Translation, 8> moves(copies_[d].begin(), copies_[d].end());
      for (size_t i = begin; i < steps_.size(); ++i)
        if (!loops_[i].spatial) moves.push_back({steps_[i][d], loops_[i].count});
      product *= static_cast<double>(slice_[d].spreadSize(moves));
    }
    counts_.touched = product;
  }

  /// Equation 3.10: the first slice, and for each loop the elements that its steps bring. A step of loop i resets the
  /// temporal loops inside of it, so it moves the slice by its own distance less their ranges.
  void run(size_t restart) {
    const size_t dimensions = slice_.size();
    absl::InlinedVector<double, 4> full(dimensions), sizes(dimensions);
    double whole = 1, whole_together = 1;
    for (size_t d = 0; d < dimensions; ++d) {
      sizes[d] = static_cast<double>(slice_[d].size());
      full[d] = copies_[d].empty() ? sizes[d] : static_cast<double>(slice_[d].spreadSize(copies_[d]));
      whole *= sizes[d];
      whole_together *= full[d];
    }
    counts_.first = counts_.entered = {whole, whole_together};
    counts_.by_loop.resize(steps_.size());
    absl::InlinedVector<double, 12> outer(steps_.size(), 1);  // steps of the temporal loops outside of each loop
    double steps = 1;
    for (size_t i = 0; i < steps_.size(); ++i) {
      outer[i] = steps;
      if (!loops_[i].spatial) steps *= static_cast<double>(loops_[i].count);
    }
    Distances reset(dimensions, 0);
    for (size_t i = steps_.size(); i-- > 0;) {
      if (loops_[i].spatial || loops_[i].count == 1) continue;
      const double times = static_cast<double>(loops_[i].count - 1) * outer[i];
      double kept = i < restart ? 0 : 1, kept_together = kept;
      for (size_t d = 0; d < dimensions && i >= restart; ++d) {
        const int64_t distance = steps_[i][d] - reset[d];
        if (distance == 0) {
          kept *= sizes[d];
          kept_together *= full[d];
          continue;
        }
        kept *= static_cast<double>(slice_[d].overlap(distance));
        // An element of the union is new along d if some instance lacks it.
        if (kept_together == 0) continue;
        kept_together *=
            full[d] - (copies_[d].empty() ? static_cast<double>(slice_[d].size() - slice_[d].overlap(distance))
                                          : static_cast<double>(slice_[d].without(-distance).spreadSize(copies_[d])));
      }
      counts_.by_loop[i] = {times * (whole - kept), times * (whole_together - kept_together)};
      counts_.entered.words += counts_.by_loop[i].words;
      counts_.entered.distinct += counts_.by_loop[i].distinct;
      for (size_t d = 0; d < dimensions; ++d) reset[d] += (loops_[i].count - 1) * steps_[i][d];
    }
  }

  const std::vector<BoundLoop>& loops_;
  const absl::InlinedVector<Distances, 12>& steps_;
  const Slice& slice_;
  absl::InlinedVector<absl::InlinedVector<Translation, 4>, 4> copies_;  ///< spatial ones, per dimension
  double sources_ = 1;
  WalkCounts counts_;
};

}  // namespace

Slice sliceOf(const BoundAccess& access, absl::Span<const int64_t> extents) {
  Slice slice;
  for (const loopnest::Subscript& subscript : access.access->subscripts) {
    absl::InlinedVector<Translation, 4> sums;
    for (const loopnest::Term& term : subscript.terms)
      sums.push_back({term.coefficient, extents[static_cast<size_t>(term.loop)]});
    slice.push_back(PointSet::sumsOf(sums).moved(subscript.constant));
  }
  return slice;
}

double unionSize(const std::vector<Slice>& slices) {
  const auto sizeOf = [](const Slice& slice) {
    double words = 1;
    for (const PointSet& set : slice) words *= static_cast<double>(set.size());
    return words;
  };
  double sum = 0;
  for (const Slice& slice : slices) sum += sizeOf(slice);
  if (slices.size() < 2 || slices.size() > kMaxUnited) return sum;
  // Inclusion and exclusion.
  sum = 0;
  for (size_t subset = 1; subset < size_t{1} << slices.size(); ++subset) {
    std::optional<Slice> common;
    double sign = -1;
    for (size_t i = 0; i < slices.size(); ++i) {
      if ((subset >> i & 1) == 0) continue;
      sign = -sign;
      if (!common) {
        common = slices[i];
        continue;
      }
      for (size_t d = 0; d < common->size(); ++d) (*common)[d] = (*common)[d].minus((*common)[d].minus(slices[i][d]));
    }
    sum += sign * sizeOf(*common);
  }
  return sum;
}

WalkCounts walk(const SlicePath& path) {
  const StatementView& view = path.tree->statements[static_cast<size_t>(path.users.front().statement)];
  return path.steps->size() <= view.even_loops ? EvenWalk(path).result() : walkUneven(path);
}

}  // namespace tessera::compiler::cost
