// Q-learning of directions (thesis, 4.4.1).
#include <algorithm>
#include <map>
#include <set>

#include "compiler/search/draw.h"
#include "compiler/search/mean_gain.h"
#include "compiler/search/methods.h"
#include "compiler/search/q_network.h"

namespace tessera::compiler::search {
namespace {

constexpr int kActions = 512;   // outputs of the network: types of directions; if there are more, they share outputs
constexpr int kTrainEvery = 5;  // trials between trainings
constexpr int kPasses = 60;     // of each training
constexpr size_t kBatch = 32;
constexpr int kStarts = 16;           // number drawn for a trial
constexpr double kUnknownGain = 0.1;  // expected of an untried direction, so that it is tried early
// share of the gain of its opposite that an untried direction is expected to lose, ...
constexpr double kOppositeShare = 0.5;
constexpr double kMaxOpposite = 0.5;  // ... up to this
constexpr double kMean = 2;           // weight of a direction's mean gain relative to the network, in trials
constexpr double kAnywhere = 0.1;     // share of steps without the network
constexpr double kMaxReward = 2;      // bound, so that a lucky step does not dominate all others

class QLearning final : public Search {
 public:
  QLearning(const v1::Schedule& start, const SearchOptions& options)
      : Search(start, options), network_(kActions, kUnknownGain, options.seed ^ 0x9e3779b97f4a7c15ULL) {}

 private:
  static std::string nameOf(const Direction& direction) { return direction.path + " " + direction.type(); }
  /// The direction's network output, numbered in the order in which directions were met.
  int actionOf(const Direction& direction) {
    const auto [place, met] = actions_.try_emplace(nameOf(direction), 0);
    if (met) place->second = static_cast<int>((actions_.size() - 1) % kActions);
    return place->second;
  }

  /// Combines the network's output (`values`) with the mean gain, weighting the network by the number of trials of the
  /// direction that it has seen: for untried directions its output only reflects other directions.
  double expected(const Direction& direction, const std::vector<float>& values) {
    const int action = actionOf(direction);
    if (const auto known = gains_.find(action); known != gains_.end())
      return (kMean * known->second.mean +
              known->second.count * static_cast<double>(values[static_cast<size_t>(action)])) /
             (kMean + known->second.count);
    const auto back = actions_.find(nameOf(direction.opposite()));
    const auto gain = back == actions_.end() ? gains_.end() : gains_.find(back->second);
    return kUnknownGain -
           (gain == gains_.end() ? 0 : kOppositeShare * std::clamp(gain->second.mean, -kMaxOpposite, kMaxOpposite));
  }

  /// The largest expected gain of a step from a point.
  double mostExpected(size_t point) {
    const std::vector<float> values = network_.values(points_[point].features);
    double most = kRefused;
    for (const Neighbour& each : openOf(point)) most = std::max(most, expected(each.direction, values));
    return most;
  }

  /// Draws several starts and takes the one from which a step is expected to reach the highest speed: a fast point
  /// without promising neighbours gives way to a slower one with a good direction.
  size_t chooseStart(const std::vector<size_t>& points) override {
    std::set<size_t> drawn;
    for (int draw = 0; draw < kStarts; ++draw) drawn.insert(sampleStart(points));
    const std::vector<size_t> starts(drawn.begin(), drawn.end());
    return starts[greatest(random_, starts.size(),
                           [&](size_t at) { return points_[starts[at]].speed * (1 + mostExpected(starts[at])); })];
  }

  size_t chooseNeighbour(size_t point, const std::vector<Neighbour>& open) override {
    if (!directions_.contains(point))
      for (const Neighbour& each : open) directions_[point].push_back(actionOf(each.direction));
    if (share(random_) < kAnywhere) return below(random_, open.size());
    const std::vector<float> values = network_.values(points_[point].features);
    return greatest(random_, open.size(), [&](size_t n) { return expected(open[n].direction, values); });
  }

  void learn(const Candidate& candidate, double reward) override {
    if (candidate.direction.kind.empty()) return;
    Transition& step = seen_.emplace_back();
    step.from = points_[candidate.start].features;
    step.to = featuresOf(candidate.schedule);
    step.action = actionOf(candidate.direction);
    step.reward = std::min(reward, kMaxReward);
    gains_[step.action].add(step.reward);
    // A step changes the available directions little: those of its start are used for its end, whose neighbours may
    // never be needed.
    if (reward > kRefused) step.open = directions_[candidate.start];
    if (seen_.size() % kTrainEvery != 0) return;
    for (int pass = 0; pass < kPasses; ++pass) {
      std::vector<const Transition*> batch;
      for (size_t at = 0; at < std::min(kBatch, seen_.size()); ++at)
        batch.push_back(&seen_[below(random_, seen_.size())]);
      network_.train(batch);
    }
  }

  QNetwork network_;
  std::map<int, MeanGain> gains_;  ///< by action
  std::map<std::string, int> actions_;
  std::map<size_t, std::vector<int>> directions_;  ///< for each start used so far
  std::vector<Transition> seen_;
};

}  // namespace

std::unique_ptr<Search> makeQLearning(const v1::Schedule& start, const SearchOptions& options) {
  return std::make_unique<QLearning>(start, options);
}

}  // namespace tessera::compiler::search
