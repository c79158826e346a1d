// Evolutionary search: offspring of the fastest trees.
#include <algorithm>

#include "compiler/search/draw.h"
#include "compiler/search/methods.h"

namespace tessera::compiler::search {
namespace {

constexpr size_t kPopulation = 16;  // number of fastest points that have offspring
constexpr size_t kTournament = 3;
constexpr double kInherits = 0.3;  // share of offspring that take a step from the other parent
constexpr size_t kMaxSteps = 3;    // of a mutation

class Evolutionary final : public Search {
 public:
  Evolutionary(const v1::Schedule& start, const SearchOptions& options) : Search(start, options) {}

 private:
  /// The fastest of a few randomly drawn members of the population (tournament selection).
  size_t parent() {
    const std::vector<size_t> population = fastest(kPopulation);
    size_t best = population.size() - 1;
    for (size_t round = 0; round < kTournament; ++round) best = std::min(best, below(random_, population.size()));
    return population[best];
  }

  std::optional<Candidate> proposeNonNeighbour() override {
    const size_t one = parent();
    if (points_.size() > 1 && share(random_) < kInherits) return inherit(one, parent());
    const size_t steps = 1 + below(random_, kMaxSteps);
    if (steps == 1) return std::nullopt;  // a single step is a neighbour
    v1::Schedule tree = points_[one].schedule;
    for (size_t step = 0; step < steps; ++step) {
      const std::vector<Neighbour> neighbours = legalNeighbours(tree);
      if (neighbours.empty()) return std::nullopt;
      tree = neighbours[below(random_, neighbours.size())].schedule;
    }
    return Candidate{std::move(tree), {}, one};
  }

  /// Applies to tree `one` the last step that led to `other`, if `one` has that direction.
  std::optional<Candidate> inherit(size_t one, size_t other) {
    const auto origin = came_by_.find(other);
    if (origin == came_by_.end()) return std::nullopt;
    for (const Neighbour& each : openOf(one))
      if (each.direction.path == origin->second.path && each.direction.type() == origin->second.type())
        return Candidate{each.schedule, each.direction, one};
    return std::nullopt;
  }

  size_t chooseStart(const std::vector<size_t>& points) override {
    const size_t one = parent();
    return openOf(one).empty() ? points[below(random_, points.size())] : one;
  }
  size_t chooseNeighbour(size_t /*point*/, const std::vector<Neighbour>& open) override {
    return below(random_, open.size());
  }

  void learn(const Candidate& candidate, double reward) override {
    if (reward > kRefused && !candidate.direction.kind.empty()) came_by_[points_.size() - 1] = candidate.direction;
  }

  std::map<size_t, Direction> came_by_;
};

}  // namespace

std::unique_ptr<Search> makeEvolutionary(const v1::Schedule& start, const SearchOptions& options) {
  return std::make_unique<Evolutionary>(start, options);
}

}  // namespace tessera::compiler::search
