#include "compiler/cost/point_set.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace tessera::compiler::cost {
namespace {

using Translations = absl::InlinedVector<Translation, 6>;

/// Translations that move something, nearest first: copies then close up before they are copied further.
Translations ascending(std::span<const Translation> translations) {
  Translations moving;
  for (const Translation& each : translations)
    if (each.count > 1 && each.stride != 0) moving.push_back(each);
  if (moving.size() > 1) std::ranges::sort(moving, {}, [](const Translation& each) { return std::abs(each.stride); });
  return moving;
}

}  // namespace

PointSet PointSet::sumsOf(std::span<const Translation> translations) { return PointSet().spread(translations); }

int64_t PointSet::size() const {
  int64_t points = 0;
  for (const Run& run : runs_) points += run.count;
  return points;
}

int64_t PointSet::overlap(int64_t distance) const {
  if (distance % step_ != 0) return 0;
  if (isSingleRun()) return std::max<int64_t>(0, runs_[0].count - std::abs(distance) / step_);
  return size() - without(distance).size();
}

PointSet PointSet::without(int64_t distance) const {
  if (distance % step_ != 0 || runs_.empty()) return *this;
  PointSet rest;
  rest.step_ = step_;
  rest.runs_.clear();
  if (isSingleRun()) {
    const int64_t fresh = std::min(runs_[0].count, std::abs(distance) / step_);
    const int64_t first = distance < 0 ? runs_[0].first + (runs_[0].count - fresh) * step_ : runs_[0].first;
    if (fresh > 0) rest.runs_.push_back({first, fresh});
    return rest;
  }
  return minus(moved(distance));
}

PointSet PointSet::empty() {
  PointSet none;
  none.runs_.clear();
  return none;
}

PointSet PointSet::minus(const PointSet& other) const {
  if (runs_.empty() || other.runs_.empty() || last() < other.runs_[0].first || other.last() < runs_[0].first)
    return *this;
  if (other.contains(*this)) return empty();
  PointSet left = *this, right = other;
  alignSteps(left, right);
  const int64_t step = left.step_;
  PointSet rest = empty();
  rest.step_ = step;
  // A sweep over both sets. The first run that can meet a run only moves on.
  size_t from = 0;
  for (const Run& run : left.runs_) {
    int64_t at = run.first;
    const int64_t end = run.first + run.count * step;
    while (from < right.runs_.size() && right.runs_[from].first + right.runs_[from].count * step <= run.first) ++from;
    for (size_t i = from; i < right.runs_.size() && at < end; ++i) {
      const int64_t begin = right.runs_[i].first, stop = begin + right.runs_[i].count * step;
      if ((begin - at) % step != 0) continue;  // other remainders of the spacing: no common point
      if (begin >= end) break;
      if (begin > at) rest.runs_.push_back({at, (begin - at) / step});
      at = std::max(at, stop);
    }
    if (at < end) rest.runs_.push_back({at, (end - at) / step});
  }
  return rest;
}

void PointSet::alignSteps(PointSet& left, PointSet& right) {
  if (left.step_ == right.step_) return;
  const auto isPoint = [](const PointSet& set) { return set.isSingleRun() && set.runs_[0].count == 1; };
  if (isPoint(left)) {
    left.step_ = right.step_;
  } else if (isPoint(right)) {
    right.step_ = left.step_;
  } else if (left.size() + right.size() <= static_cast<int64_t>(kMaxTimedRuns)) {
    left.refine(1);
    right.refine(1);
  } else {
    for (PointSet* set : {&left, &right}) *set = set->hull();
  }
}

PointSet PointSet::hull() const {
  PointSet interval;
  interval.runs_ = {{runs_[0].first, last() - runs_[0].first + 1}};
  return interval;
}

PointSet PointSet::moved(int64_t distance) const {
  PointSet result = *this;
  for (Run& run : result.runs_) run.first += distance;
  return result;
}

void PointSet::refine(int64_t step) {
  if (step == step_) return;
  Runs points;
  for (const Run& run : runs_)
    for (int64_t i = 0; i < run.count; ++i) points.push_back({run.first + i * step_, 1});
  step_ = step;
  runs_ = std::move(points);
}

void PointSet::normalize() {
  std::ranges::sort(runs_, {}, &Run::first);
  Runs merged;
  for (const Run& run : runs_) {
    if (!merged.empty()) {
      Run& before = merged.back();
      const int64_t end = before.first + before.count * step_;
      if (run.first <= end && (run.first - before.first) % step_ == 0) {
        before.count = std::max(before.count, (run.first - before.first) / step_ + run.count);
        continue;
      }
    }
    merged.push_back(run);
  }
  runs_ = std::move(merged);
}

void PointSet::spreadBy(Translation translation) {
  const int64_t stride = std::abs(translation.stride);
  const int64_t back = translation.stride < 0 ? (translation.count - 1) * stride : 0;
  if (runs_.empty()) return;
  for (Run& run : runs_) run.first -= back;
  if (isSingleRun() && runs_[0].count == 1) {
    step_ = stride;
    runs_[0].count = translation.count;
    return;
  }
  if (isSingleRun() && stride % step_ == 0 && stride / step_ <= runs_[0].count) {
    runs_[0].count += (translation.count - 1) * (stride / step_);
    return;
  }
  // Spacing 1 keeps runs of different remainders comparable.
  const int64_t copies = translation.count;
  const int64_t pieces = stride % step_ == 0 ? static_cast<int64_t>(runs_.size()) : size();
  if (pieces > static_cast<int64_t>(kMaxTimedRuns) / copies) {
    const int64_t first = runs_.front().first, end = last() + (copies - 1) * stride;
    step_ = 1;
    runs_ = {{first, end - first + 1}};
    return;
  }
  if (stride % step_ != 0) refine(1);
  const Runs once = runs_;
  for (int64_t copy = 1; copy < copies; ++copy)
    for (const Run& run : once) runs_.push_back({run.first + copy * stride, run.count});
  normalize();
}

PointSet PointSet::spread(std::span<const Translation> translations) const {
  PointSet result = *this;
  for (const Translation& each : ascending(translations)) result.spreadBy(each);
  return result;
}

int64_t PointSet::spreadSize(std::span<const Translation> translations) const {
  if (runs_.empty()) return 0;
  const Translations moving = ascending(translations);
  if (moving.empty()) return size();
  int64_t points = size(), span = last() - runs_.front().first + 1;
  bool closed = isSingleRun();
  for (const Translation& each : moving) {
    const int64_t stride = std::abs(each.stride);
    if (closed && stride % step_ == 0 && stride / step_ <= points) {
      points += (each.count - 1) * (stride / step_);
    } else if (stride >= span) {
      points *= each.count;
      closed = false;
    } else {
      return spread(translations).size();
    }
    span += (each.count - 1) * stride;
  }
  return points;
}

PointSet PointSet::unionWith(const PointSet& other) const {
  if (contains(other)) return *this;
  if (other.contains(*this)) return other;
  PointSet left = *this, right = other;
  alignSteps(left, right);
  if ((left.runs_[0].first - right.runs_[0].first) % left.step_ != 0) {
    if (left.size() + right.size() > static_cast<int64_t>(kMaxTimedRuns)) {
      left = left.hull();
      right = right.hull();
    }
    left.refine(1);
    right.refine(1);
  }
  left.runs_.insert(left.runs_.end(), right.runs_.begin(), right.runs_.end());
  left.normalize();
  return left;
}

bool PointSet::contains(const PointSet& other) const {
  if (other.runs_.empty()) return true;
  if (runs_.empty()) return false;
  if (isSingleRun() && other.isSingleRun()) {
    const int64_t gap = other.runs_[0].first - runs_[0].first;
    return gap >= 0 && gap % step_ == 0 && other.last() <= last() &&
           (other.runs_[0].count == 1 || other.step_ % step_ == 0);
  }
  const auto has = [&](int64_t point) {
    return std::ranges::any_of(runs_, [&](const Run& run) {
      const int64_t gap = point - run.first;
      return gap >= 0 && gap % step_ == 0 && gap / step_ < run.count;
    });
  };
  for (const Run& run : other.runs_)
    for (int64_t i = 0; i < run.count; ++i)
      if (!has(run.first + i * other.step_)) return false;
  return true;
}

bool PointSet::operator==(const PointSet& other) const { return size() == other.size() && contains(other); }

}  // namespace tessera::compiler::cost
