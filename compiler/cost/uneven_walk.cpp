#include "compiler/cost/uneven_walk.h"

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/cost/step_classes.h"

namespace tessera::compiler::cost {
namespace {

/// Sums over the steps of one component, with its share of the slice.
struct Shares {
  double words = 0;          ///< of the slices, over all instances
  double kept = 0;           ///< words that the instances have from their steps before
  double distinct = 0;       ///< of the unions of all instances of a source
  double distinct_kept = 0;  ///< words of the unions that no instance lacks
  double before = 0;         ///< of the unions of the steps before
  double before_kept = 0;    ///< words of these that every instance keeps

  void multiplyBy(const Shares& other) {
    words *= other.words;
    kept *= other.kept;
    distinct *= other.distinct;
    distinct_kept *= other.distinct_kept;
    before *= other.before;
    before_kept *= other.before_kept;
  }
};

constexpr Shares kOnes = {1, 1, 1, 1, 1, 1};

/// One component of a boundary.
class Component {
 public:
  Component(const SlicePath& path, std::vector<size_t> loops, std::vector<size_t> dimensions)
      : path_(path),
        classes_(*path.tree, *path.loops, std::move(loops)),
        dimensions_(std::move(dimensions)),
        shares_(classes_.positions().size() + 1) {}

  bool has(size_t position) const { return std::ranges::binary_search(classes_.positions(), position); }

  /// Over all steps of the temporal loops before `cut`; loops from there on make their first step, and in the step
  /// before their last one.
  Shares sharesAt(size_t cut) {
    const auto loops =
        static_cast<size_t>(std::ranges::lower_bound(classes_.positions(), cut) - classes_.positions().begin());
    if (!shares_[loops]) shares_[loops] = sum(cut, false);
    return *shares_[loops];
  }

  /// Likewise; loop `cut` of the component makes each of its steps after the first.
  Shares sharesOfSteps(size_t cut) { return sum(cut, true); }

  /// Different elements over all steps, for each source and each step of the temporal loops before `begin`.
  double touched(size_t begin) {
    double total = 0;
    Indices indices(size(), 0);
    touchedFrom(0, begin, 1, indices, total);
    return total;
  }

 private:
  const BoundLoop& loop(size_t k) const { return classes_.loop(k); }
  size_t size() const { return classes_.positions().size(); }
  int64_t distance(size_t k, size_t d) const { return (*path_.steps)[classes_.positions()[k]][dimensions_[d]]; }
  bool isInside(size_t k) const { return classes_.positions()[k] >= path_.outside; }

  /// One step: an index for each loop of the component.
  using Indices = absl::InlinedVector<int64_t, 8>;

  Shares sum(size_t cut, bool moves) {
    Shares total;
    moves_ = moves;
    Indices now(size(), 0), before(size(), 0);
    chooseOuter(0, cut, 1, now, before, total);
    return total;
  }

  /// Chooses classes for the temporal loops up to `cut` and for the spatial loops outside of the source.
  void chooseOuter(size_t k, size_t cut, double weight, Indices& now, Indices& before, Shares& total) {
    if (k == size()) {
      collect(cut, weight, now, before, total);
      return;
    }
    const size_t position = classes_.positions()[k];
    const bool is_summed = loop(k).spatial ? !isInside(k) : position < cut;
    if (!loop(k).spatial && position == cut && moves_) {
      for (const StepClass& each : classes_.of(k)) {
        if (each.begin > 0) {
          now[k] = each.begin;
          before[k] = each.begin - 1;
          chooseOuter(k + 1, cut, weight, now, before, total);
        }
        if (each.end - each.begin < 2) continue;
        now[k] = each.begin + 1;
        before[k] = each.begin;
        chooseOuter(k + 1, cut, weight * static_cast<double>(each.end - each.begin - 1), now, before, total);
      }
    } else if (is_summed) {
      for (const StepClass& each : classes_.of(k)) {
        now[k] = before[k] = each.begin;
        chooseOuter(k + 1, cut, weight * static_cast<double>(each.end - each.begin), now, before, total);
      }
    } else {
      now[k] = before[k] = 0;
      chooseOuter(k + 1, cut, weight, now, before, total);
    }
  }

  /// The instances of one source in one step.
  struct Union {
    Slice now, lacking, before, dropped;
    bool any = false;
  };

  void collect(size_t cut, double weight, Indices& now, Indices& before, Shares& total) {
    Union all;
    for (Slice* sets : {&all.now, &all.lacking, &all.before, &all.dropped})
      sets->assign(dimensions_.size(), PointSet::empty());
    chooseInstances(0, cut, weight, now, before, total, all);
    if (!all.any) return;
    double distinct = weight, kept = weight, past = weight, past_kept = weight;
    for (size_t d = 0; d < dimensions_.size(); ++d) {
      const auto whole = static_cast<double>(all.now[d].size()),
                 whole_before = static_cast<double>(all.before[d].size());
      distinct *= whole;
      kept *= whole - static_cast<double>(all.lacking[d].size());
      past *= whole_before;
      past_kept *= whole_before - static_cast<double>(all.dropped[d].size());
    }
    total.distinct += distinct;
    total.distinct_kept += kept;
    total.before += past;
    total.before_kept += past_kept;
  }

  void chooseInstances(size_t k, size_t cut, double weight, Indices& now, Indices& before, Shares& total, Union& all) {
    while (k < size() && (!loop(k).spatial || !isInside(k))) ++k;
    if (k < size()) {
      for (const StepClass& each : classes_.of(k)) {
        now[k] = before[k] = each.begin;
        chooseInstances(k + 1, cut, weight * static_cast<double>(each.end - each.begin), now, before, total, all);
      }
      return;
    }
    const std::optional<StepExtents> step = classes_.step(now);
    const std::optional<StepExtents> past = lastFrom(0, cut, before, StepExtents(*path_.tree));
    if (!step || !past) return;
    all.any = true;
    double words = weight, kept = weight;
    for (size_t d = 0; d < dimensions_.size(); ++d) {
      int64_t shift = 0, past_shift = 0;
      absl::InlinedVector<Translation, 4> copies;
      for (size_t i = 0; i < size(); ++i) {
        // Temporal loops before the cut move both steps alike.
        if (loop(i).spatial || classes_.positions()[i] >= cut) {
          shift += now[i] * distance(i, d);
          past_shift += before[i] * distance(i, d);
        }
        if (loop(i).spatial && isInside(i)) {
          const StepClass each = classes_.at(i, now[i]);
          copies.push_back({distance(i, d), each.end - each.begin});
        }
      }
      const PointSet slice = sliceAlong(d, *step).moved(shift), old = sliceAlong(d, *past).moved(past_shift);
      const PointSet lacking = slice.minus(old);
      words *= static_cast<double>(slice.size());
      kept *= static_cast<double>(slice.size() - lacking.size());
      all.now[d] = all.now[d].unionWith(slice.spread(copies));
      all.lacking[d] = all.lacking[d].unionWith(lacking.spread(copies));
      all.before[d] = all.before[d].unionWith(old.spread(copies));
      all.dropped[d] = all.dropped[d].unionWith(old.minus(slice).spread(copies));
    }
    total.words += words;
    total.kept += kept;
  }

  PointSet sliceAlong(size_t d, const StepExtents& step) const {
    PointSet all = PointSet::empty();
    for (const SliceUser& user : path_.users) {
      const loopnest::Subscript& subscript = user.access->access->subscripts[dimensions_[d]];
      absl::InlinedVector<Translation, 4> sums;
      for (const loopnest::Term& term : subscript.terms)
        sums.push_back({term.coefficient, step.of(user.statement)[static_cast<size_t>(term.loop)]});
      all = all.unionWith(PointSet::sumsOf(sums).moved(subscript.constant));
    }
    return all;
  }

  /// The last step in which the instance has work, given its place and the temporal loops up to `cut`.
  std::optional<StepExtents> lastFrom(size_t k, size_t cut, Indices& indices, StepExtents step) const {
    if (k == size()) return step;
    const size_t position = classes_.positions()[k];
    if (loop(k).spatial || position < cut || (position == cut && moves_)) {
      if (!step.enter(loop(k), position, indices[k])) return std::nullopt;
      return lastFrom(k + 1, cut, indices, std::move(step));
    }
    const int64_t count = step.count(loop(k));
    // All steps but the last one are full: if that one before fails, all do.
    for (int64_t index = count - 1; index >= std::max<int64_t>(0, count - 2); --index) {
      StepExtents inside = step;
      if (!inside.enter(loop(k), position, index)) continue;
      indices[k] = index;
      if (auto found = lastFrom(k + 1, cut, indices, std::move(inside))) return found;
    }
    return std::nullopt;
  }

  bool isSummed(size_t k, size_t begin) const {
    return loop(k).spatial ? !isInside(k) : classes_.positions()[k] < begin;
  }

  void touchedFrom(size_t k, size_t begin, double weight, Indices& indices, double& total) {
    while (k < size() && !isSummed(k, begin)) ++k;
    if (k < size()) {
      for (const StepClass& each : classes_.of(k)) {
        indices[k] = each.begin;
        touchedFrom(k + 1, begin, weight * static_cast<double>(each.end - each.begin), indices, total);
      }
      return;
    }
    Slice sets(dimensions_.size(), PointSet::empty());
    if (!uniteFrom(0, begin, indices, sets)) return;
    for (const PointSet& set : sets) weight *= static_cast<double>(set.size());
    total += weight;
  }

  /// Adds the slices of all steps of the loops that are not summed. Returns whether there is one.
  bool uniteFrom(size_t k, size_t begin, Indices& indices, Slice& sets) {
    while (k < size() && isSummed(k, begin)) ++k;
    if (k < size()) {
      bool any = false;
      for (const StepClass& each : classes_.of(k)) {
        indices[k] = each.begin;
        any = uniteFrom(k + 1, begin, indices, sets) || any;
      }
      return any;
    }
    const std::optional<StepExtents> step = classes_.step(indices);
    if (!step) return false;
    for (size_t d = 0; d < dimensions_.size(); ++d) {
      int64_t shift = 0;
      absl::InlinedVector<Translation, 4> copies;
      for (size_t i = 0; i < size(); ++i) {
        if (isSummed(i, begin)) continue;
        const StepClass each = classes_.at(i, indices[i]);
        shift += indices[i] * distance(i, d);
        copies.push_back({distance(i, d), each.end - each.begin});
      }
      sets[d] = sets[d].unionWith(sliceAlong(d, *step).moved(shift).spread(copies));
    }
    return true;
  }

  const SlicePath& path_;
  StepClasses classes_;
  std::vector<size_t> dimensions_;
  bool moves_ = false;                                    ///< of the sum that is being computed
  absl::InlinedVector<std::optional<Shares>, 8> shares_;  ///< by number of the component's loops before the cut
};

class UnevenWalk {
 public:
  explicit UnevenWalk(const SlicePath& path) : path_(path) {
    Components components = path.tree->linked;
    const size_t dimensions = path.slice->size();
    for (const SliceUser& user : path.users)
      for (const loopnest::Subscript& subscript : user.access->access->subscripts) uniteLoops(components, subscript);
    // Users of different loops: what moves a dimension for one of them moves it for all.
    for (size_t d = 0; d < dimensions; ++d) {
      int first = -1;
      for (const SliceUser& user : path.users) {
        const auto& terms = user.access->access->subscripts[d].terms;
        if (terms.empty()) continue;
        const int own = components[static_cast<size_t>(terms.front().loop)];
        if (first >= 0) std::ranges::replace(components, own, first);
        first = first < 0 ? own : first;
      }
    }
    std::map<int, std::pair<std::vector<size_t>, std::vector<size_t>>> parts;
    for (size_t i = 0; i < path.steps->size(); ++i)
      parts[components[static_cast<size_t>((*path.loops)[i].loop)]].first.push_back(i);
    for (size_t d = 0; d < dimensions; ++d) {
      int component = -1;
      for (const SliceUser& user : path.users)
        for (const loopnest::Term& term : user.access->access->subscripts[d].terms)
          component = components[static_cast<size_t>(term.loop)];
      parts[component].second.push_back(d);
    }
    for (auto& [number, part] : parts) components_.emplace_back(path, std::move(part.first), std::move(part.second));
  }

  WalkCounts run() {
    const Shares first = atCut(0, false);
    counts_.first = counts_.entered = {first.words, first.distinct};
    counts_.by_loop.resize(path_.steps->size());
    for (size_t i = 0; i < path_.steps->size(); ++i) {
      if ((*path_.loops)[i].spatial || (*path_.loops)[i].count == 1) continue;
      Shares shares = atCut(i, true);
      if (i < path_.restart) {
        shares.kept = shares.distinct_kept = 0;
      } else {
        counts_.distinct_left += shares.before - shares.before_kept;
      }
      counts_.by_loop[i] = {shares.words - shares.kept, shares.distinct - shares.distinct_kept};
      counts_.entered.words += counts_.by_loop[i].words;
      counts_.entered.distinct += counts_.by_loop[i].distinct;
    }
    counts_.distinct_left += atCut(path_.restart, false).before;
    counts_.touched = 1;
    for (Component& component : components_) counts_.touched *= component.touched(path_.begin);
    return std::move(counts_);
  }

 private:
  Shares atCut(size_t cut, bool moves) {
    Shares all = kOnes;
    for (Component& component : components_)
      all.multiplyBy(moves && component.has(cut) ? component.sharesOfSteps(cut) : component.sharesAt(cut));
    return all;
  }

  const SlicePath& path_;
  std::vector<Component> components_;
  WalkCounts counts_;
};

}  // namespace

WalkCounts walkUneven(const SlicePath& path) { return UnevenWalk(path).run(); }

}  // namespace tessera::compiler::cost
