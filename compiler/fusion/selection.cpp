#include "compiler/fusion/selection.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tessera::compiler::fusion {
namespace {

bool meet(const std::vector<int>& sorted, const std::vector<int>& groups) {
  return std::ranges::any_of(groups, [&](int group) { return std::ranges::binary_search(sorted, group); });
}

/// Splits offers into parts that overlap directly or through others, each in the order of its offers.
std::vector<std::vector<int>> partsOf(std::span<const Offer> offers) {
  std::vector<int> part(offers.size());
  std::iota(part.begin(), part.end(), 0);
  auto rootOf = [&](int offer) {
    while (part[offer] != offer) offer = part[offer] = part[part[offer]];
    return offer;
  };
  std::map<int, int> first;  // by group
  for (int offer = 0; offer < static_cast<int>(offers.size()); ++offer) {
    for (const int group : offers[offer].groups) {
      const int a = rootOf(offer), b = rootOf(first.try_emplace(group, offer).first->second);
      part[std::max(a, b)] = std::min(a, b);
    }
  }
  std::map<int, std::vector<int>> parts;
  for (int offer = 0; offer < static_cast<int>(offers.size()); ++offer) parts[rootOf(offer)].push_back(offer);
  std::vector<std::vector<int>> all;
  for (auto& [root, members] : parts) all.push_back(std::move(members));
  return all;
}

/// Solves one part, with its offers in the order of their first groups.
class Programme {
 public:
  Programme(std::span<const Offer> offers, std::vector<int> part, size_t most_open)
      : offers_(offers), part_(std::move(part)), most_open_(most_open) {
    std::ranges::sort(part_, {}, [&](int offer) { return std::pair(firstOf(offer), offer); });
  }

  /// Adds the part's best selection to `selection`.
  void run(Selection& selection) {
    Layer layer = {{{}, -1}};
    for (size_t at = 0; at < part_.size(); ++at) {
      Layer next;
      const Offer& offer = offers_[part_[at]];
      for (const auto& [used, choice] : layer) {
        // Later offers do not begin before this one, so earlier groups no longer matter.
        std::vector<int> open(std::ranges::lower_bound(used, firstOf(part_[at])), used.end());
        if (!meet(open, offer.groups)) {
          std::vector<int> more = open;
          more.insert(more.end(), offer.groups.begin(), offer.groups.end());
          std::ranges::sort(more);
          reach(next, more, {gainOf(choice) + offer.gain, part_[at], choice});
        }
        reach(next, open, {gainOf(choice), -1, choice});
      }
      layer = std::move(next);
      if (layer.size() > most_open_) dropFrom(layer, at + 1);
    }
    double best = -1;
    int choice = -1;
    for (const auto& [used, end] : layer) {
      if (gainOf(end) <= best) continue;
      best = gainOf(end);
      choice = end;
    }
    std::vector<int> taken;
    for (; choice >= 0; choice = choices_[choice].before)
      if (choices_[choice].offer >= 0) taken.push_back(choices_[choice].offer);
    best += takeWhatIsFree(taken);
    selection.taken.insert(selection.taken.end(), taken.begin(), taken.end());
    selection.gain += best;
    selection.missed += std::max(0.0, dropped_ - best);
    selection.largest = std::max(selection.largest, part_.size());
  }

 private:
  struct Choice {
    double gain = 0;
    int offer = -1;   // -1: not taken
    int before = -1;  // position in choices_
  };
  /// For each set of taken groups that later offers may contain: the choice with the largest gain so far.
  using Layer = std::map<std::vector<int>, int>;

  int firstOf(int offer) const { return std::ranges::min(offers_[offer].groups); }
  double gainOf(int choice) const { return choice < 0 ? 0 : choices_[choice].gain; }

  void reach(Layer& layer, const std::vector<int>& used, const Choice& choice) {
    auto [at, fresh] = layer.try_emplace(used, -1);
    if (!fresh && choices_[at->second].gain >= choice.gain) return;
    at->second = static_cast<int>(choices_.size());
    choices_.push_back(choice);
  }

  /// Returns a bound per group on the gain of any selection of the offers from `at` on: the best gain per group of an
  /// offer.
  std::map<int, double> sharesFrom(size_t at) const {
    std::map<int, double> shares;
    for (; at < part_.size(); ++at) {
      const Offer& offer = offers_[part_[at]];
      for (const int group : offer.groups)
        shares[group] = std::max(shares[group], offer.gain / static_cast<double>(offer.groups.size()));
    }
    return shares;
  }

  void dropFrom(Layer& layer, size_t at) {
    const std::map<int, double> shares = sharesFrom(at);
    double all = 0;
    for (const auto& [group, share] : shares) all += share;
    std::vector<std::pair<double, Layer::const_iterator>> promise;
    for (auto state = layer.cbegin(); state != layer.cend(); ++state) {
      double most = gainOf(state->second) + all;
      for (const int group : state->first)
        if (const auto share = shares.find(group); share != shares.end()) most -= share->second;
      promise.emplace_back(most, state);
    }
    std::ranges::sort(promise, [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second->first < b.second->first;
    });
    dropped_ = std::max(dropped_, promise[most_open_].first);
    for (size_t i = most_open_; i < promise.size(); ++i) layer.erase(promise[i].second);
  }

  /// After choices were dropped: takes all offers that fit the remaining groups. Returns their gain.
  double takeWhatIsFree(std::vector<int>& taken) const {
    if (dropped_ == 0) return 0;
    std::vector<int> used;
    for (const int offer : taken) used.insert(used.end(), offers_[offer].groups.begin(), offers_[offer].groups.end());
    std::ranges::sort(used);
    double gain = 0;
    for (const int offer : part_) {
      const std::vector<int>& groups = offers_[offer].groups;
      if (meet(used, groups)) continue;
      taken.push_back(offer);
      gain += offers_[offer].gain;
      used.insert(used.end(), groups.begin(), groups.end());
      std::ranges::sort(used);
    }
    return gain;
  }

  std::span<const Offer> offers_;
  std::vector<int> part_;
  size_t most_open_;
  std::vector<Choice> choices_;
  double dropped_ = 0;  ///< upper bound on the gain of any dropped selection
};

}  // namespace

Selection select(std::span<const Offer> offers, size_t most_open) {
  Selection selection;
  for (std::vector<int>& part : partsOf(offers)) Programme(offers, std::move(part), most_open).run(selection);
  std::ranges::sort(selection.taken);
  return selection;
}

}  // namespace tessera::compiler::fusion
