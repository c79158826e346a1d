// Searches that move from a point to a neighbour by simple rules.
#include <map>

#include "compiler/search/draw.h"
#include "compiler/search/mean_gain.h"
#include "compiler/search/methods.h"

namespace tessera::compiler::search {
namespace {

constexpr double kAnywhere = 0.15;    // share of the walk's steps that ignore what was learned
constexpr double kUnknownGain = 0.1;  // expected of an untried direction, so that it is tried early

class RandomSearch final : public Search {
 public:
  RandomSearch(const v1::Schedule& start, const SearchOptions& options) : Search(start, options) {}

 private:
  size_t chooseStart(const std::vector<size_t>& points) override { return points[below(random_, points.size())]; }
  size_t chooseNeighbour(size_t /*point*/, const std::vector<Neighbour>& open) override {
    return below(random_, open.size());
  }
};

/// Tries all neighbours of a start before those of the next one: the method P that FlexTensor is compared with.
class EveryDirection final : public Search {
 public:
  EveryDirection(const v1::Schedule& start, const SearchOptions& options) : Search(start, options) {}

 private:
  size_t chooseStart(const std::vector<size_t>& points) override {
    if (openOf(start_).empty()) start_ = sampleStart(points);
    return start_;
  }
  size_t chooseNeighbour(size_t /*point*/, const std::vector<Neighbour>& /*open*/) override { return 0; }

  size_t start_ = 0;
};

class Walk final : public Search {
 public:
  Walk(const v1::Schedule& start, const SearchOptions& options) : Search(start, options) {}

 private:
  size_t chooseNeighbour(size_t /*point*/, const std::vector<Neighbour>& open) override {
    if (share(random_) < kAnywhere) return below(random_, open.size());
    return greatest(random_, open.size(), [&](size_t n) {
      const auto known = gains_.find(open[n].direction.type());
      return known == gains_.end() ? kUnknownGain : known->second.mean;
    });
  }

  void learn(const Candidate& candidate, double reward) override {
    if (candidate.direction.kind.empty()) return;
    gains_[candidate.direction.type()].add(reward);
  }

  std::map<std::string, MeanGain> gains_;
};

}  // namespace

std::unique_ptr<Search> makeWalk(const v1::Schedule& start, const SearchOptions& options) {
  return std::make_unique<Walk>(start, options);
}
std::unique_ptr<Search> makeRandom(const v1::Schedule& start, const SearchOptions& options) {
  return std::make_unique<RandomSearch>(start, options);
}
std::unique_ptr<Search> makeEveryDirection(const v1::Schedule& start, const SearchOptions& options) {
  return std::make_unique<EveryDirection>(start, options);
}

}  // namespace tessera::compiler::search
