#include "compiler/search/search.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/text.h"

namespace tessera::compiler::search {
namespace {

constexpr double kGamma = 8;          // of the walk's starts: one that takes 10 % longer is half as likely
constexpr double kAnywhere = 0.15;    // share of the walk's steps that do not ask what was learned
constexpr double kUnknownGain = 0.1;  // expected of a direction that nobody has tried: it is tried early
constexpr double kRefused = -1;       // reward of a tree that could not be built or was wrong

size_t below(std::mt19937_64& random, size_t count) { return random() % count; }
double share(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

class RandomSearch final : public Search {
 public:
  RandomSearch(const v1::Schedule& start, uint64_t seed) : Search(start, seed) {}

 private:
  std::pair<size_t, size_t> choose(const std::vector<size_t>& points) override {
    const size_t point = points[below(random_, points.size())];
    return {point, below(random_, points_[point].open.size())};
  }
};

class Walk final : public Search {
 public:
  Walk(const v1::Schedule& start, uint64_t seed) : Search(start, seed) {}

 private:
  std::pair<size_t, size_t> choose(const std::vector<size_t>& points) override {
    std::vector<double> weights;
    double sum = 0;
    for (const size_t point : points) {
      weights.push_back(std::exp(-kGamma * (speed() - points_[point].speed) / speed()));
      sum += weights.back();
    }
    double left = share(random_) * sum;
    size_t at = 0;
    while (at + 1 < points.size() && left >= weights[at]) left -= weights[at++];
    const std::vector<Neighbour>& open = points_[points[at]].open;
    if (share(random_) < kAnywhere) return {points[at], below(random_, open.size())};
    // The best expectation; any of those that share it.
    double best = -HUGE_VAL;
    std::vector<size_t> ties;
    for (size_t n = 0; n < open.size(); ++n) {
      const auto known = gains_.find(open[n].direction.type());
      const double gain = known == gains_.end() ? kUnknownGain : known->second.mean;
      if (gain > best) ties.clear();
      best = std::max(best, gain);
      if (gain == best) ties.push_back(n);
    }
    return {points[at], ties[below(random_, ties.size())]};
  }

  void learn(const Direction& direction, double reward) override {
    Gain& gain = gains_[direction.type()];
    gain.mean += (reward - gain.mean) / ++gain.count;
  }

  struct Gain {
    double mean = 0;
    int count = 0;
  };
  std::map<std::string, Gain> gains_;
};

}  // namespace

Search::Search(const v1::Schedule& start, uint64_t seed) : random_(seed) {
  visited_.insert(printSchedule(start));
  addPoint(start, 1);
}

void Search::addPoint(const v1::Schedule& schedule, double speed) {
  points_.push_back({schedule, speed, neighboursOf(schedule)});
  if (speed > points_[best_].speed) best_ = points_.size() - 1;
}

void Search::suggest(const v1::Schedule& schedule) { suggested_.push_back(schedule); }

std::optional<Candidate> Search::propose() {
  while (!suggested_.empty()) {
    v1::Schedule next = std::move(suggested_.front());
    suggested_.erase(suggested_.begin());
    if (visited_.insert(printSchedule(next)).second) return Candidate{std::move(next), {}, 0};
  }
  while (true) {
    std::vector<size_t> points;
    for (size_t point = 0; point < points_.size(); ++point)
      if (!points_[point].open.empty()) points.push_back(point);
    if (points.empty()) return std::nullopt;
    const auto [point, neighbour] = choose(points);
    std::vector<Neighbour>& open = points_[point].open;
    Neighbour next = std::move(open[neighbour]);
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(neighbour));
    if (visited_.insert(printSchedule(next.schedule)).second)
      return Candidate{std::move(next.schedule), next.direction, point};
  }
}

void Search::observe(const Candidate& candidate, Outcome outcome) {
  const double from = points_[candidate.start].speed;
  if (!candidate.direction.kind.empty())
    learn(candidate.direction, outcome.speed > 0 ? (outcome.speed - from) / from : kRefused);
  if (outcome.speed > 0) addPoint(candidate.schedule, outcome.speed);
}

absl::StatusOr<std::unique_ptr<Search>> makeSearch(const std::string& method, const v1::Schedule& start,
                                                   uint64_t seed) {
  if (method == "walk") return std::make_unique<Walk>(start, seed);
  if (method == "random") return std::make_unique<RandomSearch>(start, seed);
  return absl::InvalidArgumentError(absl::StrCat("search method '", method, "' is unknown; accepted: walk, random"));
}

}  // namespace tessera::compiler::search
