#include "compiler/search/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/schedule/text.h"
#include "compiler/search/draw.h"
#include "compiler/search/methods.h"
#include "compiler/search/transfer.h"
#include "proto/messages/search_methods.h"

namespace tessera::compiler::search {
namespace {

constexpr double kGamma = 8;  // a start that is 10 % slower than the best is half as likely

/// In the order of kSearchMethods.
constexpr std::array<std::unique_ptr<Search> (*)(const v1::Schedule&, const SearchOptions&), kSearchMethods.size()>
    kMakers = {&makeModelGuided, &makeQLearning, &makeWalk, &makeEveryDirection, &makeRandom, &makeEvolutionary};

}  // namespace

Search::Search(const v1::Schedule& start, const SearchOptions& options)
    : random_(options.seed), legality_(start, options.extents, options.registers) {
  visited_.insert(printSchedule(start));
  addPoint(start, 1);
  for (const Sample& sample : options.known) {
    if (!sample.try_first) continue;
    if (sample.same_workload) {
      suggest(sample.schedule);
    } else if (const auto carried = transferSchedule(start, sample.schedule, legality_.extents())) {
      if (legality_.refusal(*carried).empty()) suggest(*carried);
    }
  }
}

std::vector<Neighbour> Search::legalNeighbours(const v1::Schedule& schedule) const {
  std::vector<Neighbour> neighbours = neighboursOf(schedule, legality_.extents());
  // Filters before proposing: a refusal by code generation costs a trial.
  std::erase_if(neighbours, [&](const Neighbour& each) {
    return legality_.hopeless(each.direction) || !legality_.refusal(each.schedule).empty();
  });
  return neighbours;
}

std::vector<size_t> Search::fastest(size_t most) const {
  std::vector<size_t> points(points_.size());
  std::iota(points.begin(), points.end(), size_t{0});
  const size_t count = std::min(most, points.size());
  std::ranges::partial_sort(points, points.begin() + static_cast<ptrdiff_t>(count), [&](size_t a, size_t b) {
    return std::pair(-points_[a].speed, a) < std::pair(-points_[b].speed, b);
  });
  points.resize(count);
  return points;
}

const std::vector<Neighbour>& Search::openOf(size_t point) {
  Point& at = points_[point];
  if (!at.expanded) {
    at.expanded = true;
    at.open = legalNeighbours(at.schedule);
  }
  // Again at each use: directions may have become hopeless, and trees may have been visited from elsewhere.
  std::erase_if(at.open,
                [&](const Neighbour& each) { return visited(each.text) || legality_.hopeless(each.direction); });
  return at.open;
}

void Search::addPoint(const v1::Schedule& schedule, double speed) {
  points_.push_back({schedule, speed, featuresOf(schedule)});
  if (speed > points_[best_].speed) best_ = points_.size() - 1;
}

void Search::suggest(const v1::Schedule& schedule) { suggested_.push_back(schedule); }

size_t Search::sampleStart(const std::vector<size_t>& points) {
  std::vector<double> weights;
  double sum = 0;
  for (const size_t point : points) {
    // Simulated annealing's acceptance (thesis, 4.4): the weight falls exponentially with the relative distance from
    // the best speed.
    weights.push_back(std::exp(-kGamma * (speed() - points_[point].speed) / speed()));
    sum += weights.back();
  }
  double left = share(random_) * sum;
  size_t at = 0;
  while (at + 1 < points.size() && left >= weights[at]) left -= weights[at++];
  return points[at];
}

std::optional<Candidate> Search::take(Candidate candidate, const std::string& text) {
  if (!visited_.insert(text).second) return std::nullopt;
  return candidate;
}

std::optional<Candidate> Search::propose() {
  while (!suggested_.empty()) {
    v1::Schedule next = std::move(suggested_.front());
    suggested_.erase(suggested_.begin());
    const std::string text = printSchedule(next);
    if (auto taken = take({std::move(next), {}, 0}, text)) return taken;
  }
  while (true) {
    std::vector<size_t> points;
    for (size_t point = 0; point < points_.size(); ++point)
      if (!points_[point].expanded || !points_[point].open.empty()) points.push_back(point);
    if (auto invented = proposeNonNeighbour()) {
      const std::string text = printSchedule(invented->schedule);
      if (auto taken = take(*std::move(invented), text)) return taken;
    }
    // After proposeNonNeighbour(): a method may know trees that are no neighbours of any point.
    if (points.empty()) return std::nullopt;
    const size_t point = chooseStart(points);
    // Expanding the point has removed it from the candidates, so the loop ends.
    if (openOf(point).empty()) continue;
    const size_t neighbour = chooseNeighbour(point, points_[point].open);
    std::vector<Neighbour>& open = points_[point].open;
    Neighbour next = std::move(open[neighbour]);
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(neighbour));
    if (auto taken = take({std::move(next.schedule), next.direction, point}, next.text)) return taken;
  }
}

void Search::observe(const Candidate& candidate, Outcome outcome) {
  ++trials_;
  const double from = points_[candidate.start].speed;
  const double reward = outcome.speed > 0 ? (outcome.speed - from) / from : kRefused;
  if (!candidate.direction.kind.empty()) legality_.recordTrial(candidate.direction, outcome.speed > 0);
  if (outcome.speed > 0) addPoint(candidate.schedule, outcome.speed);
  learn(candidate, reward);
}

absl::StatusOr<std::unique_ptr<Search>> makeSearch(const std::string& method, const v1::Schedule& start,
                                                   const SearchOptions& options) {
  for (size_t i = 0; i < kSearchMethods.size(); ++i)
    if (method == kSearchMethods[i]) return kMakers[i](start, options);
  return absl::InvalidArgumentError(
      absl::StrCat("search method '", method, "' is unknown; accepted: ", absl::StrJoin(kSearchMethods, ", ")));
}

absl::StatusOr<std::unique_ptr<Search>> makeSearch(const std::string& method, const v1::Schedule& start,
                                                   uint64_t seed) {
  SearchOptions options;
  options.seed = seed;
  return makeSearch(method, start, options);
}

}  // namespace tessera::compiler::search
