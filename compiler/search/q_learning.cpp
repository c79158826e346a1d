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

constexpr int kActions = 512;   // outputs of the network: types of directions, more of them share
constexpr int kTrainEvery = 5;  // trials
constexpr int kPasses = 60;     // of each training
constexpr size_t kBatch = 32;
constexpr int kStarts = 16;           // that are drawn for a trial
constexpr double kUnknownGain = 0.1;  // expected of a direction that nobody has tried: it is tried early
constexpr double kBack = 0.5;         // of what the opposite of such a direction gained is expected to be lost, ...
constexpr double kMostBack = 0.5;     // ... up to so much
constexpr double kMean = 2;           // trials that the mean of a direction's gains stands for beside the network
constexpr double kAnywhere = 0.1;     // share of steps that do not ask the network
constexpr double kMostReward = 2;     // beyond, a lucky step would drown all others

class QLearning final : public Search {
 public:
  QLearning(const v1::Schedule& start, const SearchOptions& options)
      : Search(start, options), network_(kActions, kUnknownGain, options.seed ^ 0x9e3779b97f4a7c15ULL) {}

 private:
  static std::string nameOf(const Direction& direction) { return direction.path + " " + direction.type(); }
  /// Its number among the network's outputs, in the order in which directions were met.
  int actionOf(const Direction& direction) {
    const auto [place, met] = actions_.try_emplace(nameOf(direction), 0);
    if (met) place->second = static_cast<int>((actions_.size() - 1) % kActions);
    return place->second;
  }

  /// The network's say, `values`, is worth as much as the trials of the direction that it has seen: it answers for
  /// those that nobody tried as well, which is an echo of the others.
  double expected(const Direction& direction, const std::vector<float>& values) {
    const int action = actionOf(direction);
    if (const auto known = gains_.find(action); known != gains_.end())
      return (kMean * known->second.mean +
              known->second.count * static_cast<double>(values[static_cast<size_t>(action)])) /
             (kMean + known->second.count);
    const auto back = actions_.find(nameOf(direction.opposite()));
    const auto gain = back == actions_.end() ? gains_.end() : gains_.find(back->second);
    return kUnknownGain - (gain == gains_.end() ? 0 : kBack * std::clamp(gain->second.mean, -kMostBack, kMostBack));
  }

  /// The best that a step from a point is expected to gain.
  double mostExpected(size_t point) {
    const std::vector<float> values = network_.values(points_[point].features);
    double most = kRefused;
    for (const Neighbour& each : openOf(point)) most = std::max(most, expected(each.direction, values));
    return most;
  }

  /// Of several that are drawn, the start from which a step is expected to lead farthest: a fast point around which
  /// nothing is left gives way to a slower one that has a good direction.
  size_t chooseStart(const std::vector<size_t>& points) override {
    std::set<size_t> drawn;
    for (int draw = 0; draw < kStarts; ++draw) drawn.insert(drawStart(points));
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
    step.reward = std::min(reward, kMostReward);
    gains_[step.action].add(step.reward);
    // A step changes little of what directions there are: those of its start stand for those of its end, whose
    // neighbours nobody may ever want to know.
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
  std::map<size_t, std::vector<int>> directions_;  ///< of each start there was
  std::vector<Transition> seen_;
};

}  // namespace

std::unique_ptr<Search> makeQLearning(const v1::Schedule& start, const SearchOptions& options) {
  return std::make_unique<QLearning>(start, options);
}

}  // namespace tessera::compiler::search
