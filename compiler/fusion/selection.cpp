#include "compiler/fusion/selection.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tessera::compiler::fusion {
namespace {

bool meet(const std::vector<int>& sorted, const std::vector<int>& groups) {
  return std::ranges::any_of(groups, [&](int group) { return std::ranges::binary_search(sorted, group); });
}

/// Splits sets into components that overlap directly or through others, each in the order of its sets.
std::vector<std::vector<int>> componentsOf(std::span<const FusionSet> sets) {
  std::vector<int> component(sets.size());
  std::iota(component.begin(), component.end(), 0);
  auto rootOf = [&](int set) {
    while (component[set] != set) set = component[set] = component[component[set]];
    return set;
  };
  std::map<int, int> first;  // by group
  for (int set = 0; set < static_cast<int>(sets.size()); ++set) {
    for (const int group : sets[set].groups) {
      const int a = rootOf(set), b = rootOf(first.try_emplace(group, set).first->second);
      component[std::max(a, b)] = std::min(a, b);
    }
  }
  std::map<int, std::vector<int>> components;
  for (int set = 0; set < static_cast<int>(sets.size()); ++set) components[rootOf(set)].push_back(set);
  std::vector<std::vector<int>> all;
  for (auto& [root, members] : components) all.push_back(std::move(members));
  return all;
}

/// Solves one component, with its sets in the order of their first groups.
class ComponentSelector {
 public:
  ComponentSelector(std::span<const FusionSet> sets, std::vector<int> component, size_t max_states)
      : sets_(sets), component_(std::move(component)), max_states_(max_states) {
    std::ranges::sort(component_, {}, [&](int set) { return std::pair(firstOf(set), set); });
  }

  /// Adds the component's best selection to `selection`.
  void run(Selection& selection) {
    Layer layer = {{{}, -1}};
    for (size_t at = 0; at < component_.size(); ++at) {
      Layer next;
      const FusionSet& set = sets_[component_[at]];
      for (const auto& [used, choice] : layer) {
        // Later sets do not begin before this one, so earlier groups no longer matter.
        std::vector<int> open(std::ranges::lower_bound(used, firstOf(component_[at])), used.end());
        if (!meet(open, set.groups)) {
          std::vector<int> more = open;
          more.insert(more.end(), set.groups.begin(), set.groups.end());
          std::ranges::sort(more);
          reach(next, more, {gainOf(choice) + set.gain, component_[at], choice});
        }
        reach(next, open, {gainOf(choice), -1, choice});
      }
      layer = std::move(next);
      if (layer.size() > max_states_) dropFrom(layer, at + 1);
    }
    double best = -1;
    int choice = -1;
    for (const auto& [used, end] : layer) {
      if (gainOf(end) <= best) continue;
      best = gainOf(end);
      choice = end;
    }
    std::vector<int> selected;
    for (; choice >= 0; choice = choices_[choice].before)
      if (choices_[choice].set >= 0) selected.push_back(choices_[choice].set);
    best += addDisjointSets(selected);
    selection.selected.insert(selection.selected.end(), selected.begin(), selected.end());
    selection.gain += best;
    selection.optimality_gap += std::max(0.0, dropped_ - best);
    selection.largest_part = std::max(selection.largest_part, component_.size());
  }

 private:
  struct Choice {
    double gain = 0;
    int set = -1;     // -1: not selected
    int before = -1;  // position in choices_
  };
  /// For each set of used groups that later sets may contain: the choice with the largest gain so far.
  using Layer = std::map<std::vector<int>, int>;

  int firstOf(int set) const { return std::ranges::min(sets_[set].groups); }
  double gainOf(int choice) const { return choice < 0 ? 0 : choices_[choice].gain; }

  void reach(Layer& layer, const std::vector<int>& used, const Choice& choice) {
    auto [at, fresh] = layer.try_emplace(used, -1);
    if (!fresh && choices_[at->second].gain >= choice.gain) return;
    at->second = static_cast<int>(choices_.size());
    choices_.push_back(choice);
  }

  /// Returns a bound per group on the gain of any selection of the sets from `at` on: the best gain per group of a
  /// set.
  std::map<int, double> sharesFrom(size_t at) const {
    std::map<int, double> shares;
    for (; at < component_.size(); ++at) {
      const FusionSet& set = sets_[component_[at]];
      for (const int group : set.groups)
        shares[group] = std::max(shares[group], set.gain / static_cast<double>(set.groups.size()));
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
    dropped_ = std::max(dropped_, promise[max_states_].first);
    for (size_t i = max_states_; i < promise.size(); ++i) layer.erase(promise[i].second);
  }

  /// If states were dropped, the selection may be incomplete: adds every set that has no group in common with it.
  /// Returns the gain of the added sets.
  double addDisjointSets(std::vector<int>& selected) const {
    if (dropped_ == 0) return 0;
    std::vector<int> used;
    for (const int set : selected) used.insert(used.end(), sets_[set].groups.begin(), sets_[set].groups.end());
    std::ranges::sort(used);
    double gain = 0;
    for (const int set : component_) {
      const std::vector<int>& groups = sets_[set].groups;
      if (meet(used, groups)) continue;
      selected.push_back(set);
      gain += sets_[set].gain;
      used.insert(used.end(), groups.begin(), groups.end());
      std::ranges::sort(used);
    }
    return gain;
  }

  std::span<const FusionSet> sets_;
  std::vector<int> component_;
  size_t max_states_;
  std::vector<Choice> choices_;
  double dropped_ = 0;  ///< upper bound on the gain of any dropped selection
};

}  // namespace

Selection select(std::span<const FusionSet> sets, size_t max_states) {
  Selection selection;
  for (std::vector<int>& component : componentsOf(sets))
    ComponentSelector(sets, std::move(component), max_states).run(selection);
  std::ranges::sort(selection.selected);
  return selection;
}

}  // namespace tessera::compiler::fusion
