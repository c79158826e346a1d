#include "compiler/dataflow_search/evolution.h"

#include <algorithm>
#include <limits>

#include "compiler/dataflow_search/tiling_search.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::dataflow_search {
namespace {

constexpr v1::Tile::Join kJoinChoices[] = {v1::Tile::SEQ, v1::Tile::SHAR, v1::Tile::PIPE};

class Evolution {
 public:
  Evolution(const loopnest::Nest& nest, const cost::Machine& machine, const EvolutionOptions& options)
      : nest_(nest), machine_(machine), options_(options), random_(options.seed) {}

  EvolutionAnswer run() {
    std::vector<Structure> generation;
    for (int i = 0; i < options_.population; ++i) generation.push_back(randomStructure());
    generation.front().fused.assign(generation.front().fused.size(), false);  // one operator after another
    for (int round = 0; round < options_.rounds && !options_.stopped(); ++round) {
      for (const Structure& structure : generation) {
        if (options_.stopped()) break;
        evaluate(structure);
      }
      answer_.rounds.push_back(survivors_.empty() ? std::numeric_limits<double>::infinity()
                                                  : survivors_.front().found.score);
      generation.clear();
      while (generation.size() < static_cast<size_t>(options_.population)) {
        if (survivors_.empty() || below(8) == 0) {
          generation.push_back(randomStructure());
        } else {
          generation.push_back(mutated(
              crossed(survivors_[below(survivors_.size())].structure, survivors_[below(survivors_.size())].structure)));
        }
      }
    }
    for (Survivor& survivor : survivors_) answer_.best.push_back(std::move(survivor.found));
    return std::move(answer_);
  }

 private:
  struct Survivor {
    Structure structure;
    Found found;
  };

  uint64_t below(uint64_t limit) { return random_() % limit; }

  Structure randomStructure() {
    const size_t statements = nest_.statements.size();
    Structure structure;
    for (size_t s = 0; s + 1 < statements; ++s) structure.fused.push_back(below(2) == 0);
    for (size_t s = 0; s < statements; ++s) {
      structure.split.push_back(randomSplit());
      structure.joins.push_back(kJoinChoices[below(3)]);
    }
    for (size_t level = 0; level < machine_.memories.size(); ++level) {
      auto& ranks = structure.rank.emplace_back();
      for (size_t loop = 0; loop < nest_.loops.size(); ++loop) ranks.push_back(static_cast<int>(below(1000)));
    }
    return structure;
  }

  int randomSplit() { return 1 + static_cast<int>(below(machine_.memories.size() - 1)); }

  Structure crossed(Structure left, const Structure& right) {
    for (size_t s = 0; s < left.fused.size(); ++s)
      if (below(2) == 0) left.fused[s] = right.fused[s];
    for (size_t s = 0; s < left.split.size(); ++s) {
      if (below(2) == 0) left.split[s] = right.split[s];
      if (below(2) == 0) left.joins[s] = right.joins[s];
    }
    for (size_t level = 0; level < left.rank.size(); ++level)
      if (below(2) == 0) left.rank[level] = right.rank[level];
    return left;
  }

  Structure mutated(Structure structure) {
    const size_t statements = structure.split.size();
    switch (below(4)) {
      case 0:
        if (!structure.fused.empty()) structure.fused[below(structure.fused.size())].flip();
        break;
      case 1:
        structure.joins[below(statements)] = kJoinChoices[below(3)];
        break;
      case 2:
        structure.split[below(statements)] = randomSplit();
        break;
      default: {
        auto& ranks = structure.rank[below(structure.rank.size())];
        ranks[below(ranks.size())] = static_cast<int>(below(1000));
      }
    }
    return structure;
  }

  void evaluate(const Structure& structure) {
    Found best;
    best.score = std::numeric_limits<double>::infinity();
    TilingSearch tiles(nest_, machine_, structure, [&](const v1::Schedule& tree) {
      ++answer_.priced;
      auto cost = analyzeDataflow(nest_, tree, machine_);
      if (!cost.ok() || !cost->violations.empty()) return std::numeric_limits<double>::infinity();
      const double score = scoreOf(valueOf(*cost), options_.objective);
      if (score < best.score) best = {.tree = tree, .cost = *std::move(cost), .score = score};
      return score;
    });
    for (int sample = 0; sample < options_.samples && !options_.stopped(); ++sample) tiles.sample(random_);
    if (best.score == std::numeric_limits<double>::infinity()) return;
    const bool is_best = survivors_.empty() || best.score < survivors_.front().found.score;
    if (is_best && options_.better) options_.better(best);
    const auto same = std::ranges::find(survivors_, structure, &Survivor::structure);
    if (same != survivors_.end()) {
      if (best.score < same->found.score) same->found = std::move(best);
    } else {
      survivors_.push_back({.structure = structure, .found = std::move(best)});
    }
    std::ranges::sort(survivors_, {}, [](const Survivor& each) { return each.found.score; });
    if (survivors_.size() > options_.keep)
      survivors_.erase(survivors_.begin() + static_cast<std::ptrdiff_t>(options_.keep), survivors_.end());
  }

  const loopnest::Nest& nest_;
  const cost::Machine& machine_;
  const EvolutionOptions& options_;
  std::mt19937_64 random_;
  std::vector<Survivor> survivors_;  ///< best first
  EvolutionAnswer answer_;
};

}  // namespace

absl::StatusOr<EvolutionAnswer> searchByEvolution(const loopnest::Nest& nest, const cost::Machine& machine,
                                                  const EvolutionOptions& options) {
  TESSERA_RETURN_IF_ERROR(checkSearchable(nest, machine));
  return Evolution(nest, machine, options).run();
}

}  // namespace tessera::compiler::dataflow_search
