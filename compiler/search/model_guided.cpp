// Candidates that a cost model predicts to be fastest.
#include <algorithm>
#include <cmath>

#include "compiler/search/cost_model.h"
#include "compiler/search/draw.h"
#include "compiler/search/methods.h"

namespace tessera::compiler::search {
namespace {

constexpr size_t kFirst = 6;        // examples before the model is used
constexpr size_t kLearnEvery = 3;   // trials between fits
constexpr size_t kFastest = 4;      // points whose neighbours, and their neighbours, are ranked
constexpr size_t kFarther = 3;      // trees two steps away that are ranked as well
constexpr double kAnywhere = 0.1;   // share of trials without the model
constexpr double kFailed = -1.5;    // log speed assigned to trees that fail
constexpr size_t kMaxKnown = 4000;  // samples of other searches that are used; further ones are ignored

class ModelGuided final : public Search {
 public:
  ModelGuided(const v1::Schedule& start, const SearchOptions& options) : Search(start, options) {
    examples_.push_back({points_[0].features, 0});
    for (const Sample& sample : options.known) {
      if (examples_.size() > kMaxKnown) break;
      if (sample.speed <= 0 && sample.try_first) continue;  // not compared yet
      examples_.push_back({featuresOf(sample.schedule), sample.speed > 0 ? std::log(sample.speed) : kFailed});
    }
    if (examples_.size() >= kFirst) fit();
  }

 private:
  void fit() {
    // A failed fit does not end the search: it continues at random.
    auto fitted = CostModel::fit(examples_, ++fits_);
    if (fitted.ok()) model_ = std::make_unique<CostModel>(*std::move(fitted));
  }

  std::optional<Candidate> proposeNonNeighbour() override {
    if (!model_ || share(random_) < kAnywhere) return std::nullopt;
    std::vector<Candidate> pool;
    for (const size_t point : fastest(kFastest))
      for (const Neighbour& each : openOf(point)) pool.push_back({each.schedule, each.direction, point});
    const size_t near = pool.size();
    for (size_t farther = 0; farther < kFarther && near > 0; ++farther) {
      const Candidate& first = pool[below(random_, near)];
      const std::vector<Neighbour> second = legalNeighbours(first.schedule);
      if (second.empty()) continue;
      const Neighbour& step = second[below(random_, second.size())];
      if (!visited(step.text)) pool.push_back({step.schedule, {}, first.start});
    }
    if (pool.empty()) return std::nullopt;
    std::vector<Features> features;
    for (const Candidate& candidate : pool) features.push_back(featuresOf(candidate.schedule));
    std::vector<const Features*> rows;
    for (const Features& row : features) rows.push_back(&row);
    const auto expected = model_->predict(rows);
    if (!expected.ok()) return std::nullopt;
    return pool[greatest(random_, pool.size(), [&](size_t at) { return (*expected)[at]; })];
  }

  size_t chooseNeighbour(size_t /*point*/, const std::vector<Neighbour>& open) override {
    return below(random_, open.size());
  }

  void learn(const Candidate& candidate, double reward) override {
    const bool ran = reward > kRefused;
    examples_.push_back({featuresOf(candidate.schedule), ran ? std::log(points_.back().speed) : kFailed});
    if (++heard_ % kLearnEvery == 0 && examples_.size() >= kFirst) fit();
  }

  std::vector<CostModel::Example> examples_;
  std::unique_ptr<CostModel> model_;
  int fits_ = 0;
  size_t heard_ = 0;
};

}  // namespace

std::unique_ptr<Search> makeModelGuided(const v1::Schedule& start, const SearchOptions& options) {
  return std::make_unique<ModelGuided>(start, options);
}

}  // namespace tessera::compiler::search
