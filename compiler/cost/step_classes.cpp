#include "compiler/cost/step_classes.h"

#include <algorithm>

namespace tessera::compiler::cost {

StepClasses::StepClasses(const BoundTree& tree, const std::vector<BoundLoop>& path, std::vector<size_t> positions)
    : tree_(tree), path_(path), positions_(std::move(positions)) {
  std::vector<StepExtents> steps = {StepExtents(tree)};
  for (size_t k = 0; k < positions_.size(); ++k) {
    absl::InlinedVector<int64_t, 8> borders;
    std::vector<StepExtents> inside;
    for (const StepExtents& step : steps) {
      const int64_t iterations = step.entering(loop(k)), last = step.count(loop(k)) - 1;
      borders.insert(borders.end(), {0, iterations / loop(k).step, last + 1});
      for (const int64_t index : {int64_t{0}, last}) {
        StepExtents next = step;
        if (next.enter(loop(k), positions_[k], index) && std::ranges::find(inside, next) == inside.end())
          inside.push_back(std::move(next));
      }
    }
    steps = std::move(inside);
    std::ranges::sort(borders);
    StepClassList& classes = classes_.emplace_back();
    for (size_t b = 0; b + 1 < borders.size(); ++b)
      if (borders[b] < borders[b + 1]) classes.push_back({borders[b], borders[b + 1]});
  }
}

StepClass StepClasses::at(size_t k, int64_t index) const {
  return *std::ranges::find_if(classes_[k], [&](const StepClass& each) { return index < each.end; });
}

std::optional<StepExtents> StepClasses::step(absl::Span<const int64_t> indices) const {
  StepExtents step(tree_);
  for (size_t k = 0; k < positions_.size(); ++k)
    if (!step.enter(loop(k), positions_[k], indices[k])) return std::nullopt;
  return step;
}

void uniteLoops(Components& components, const loopnest::Subscript& subscript) {
  for (const loopnest::Term& term : subscript.terms) {
    const int from = components[static_cast<size_t>(term.loop)];
    const int to = components[static_cast<size_t>(subscript.terms.front().loop)];
    std::ranges::replace(components, from, to);
  }
}

}  // namespace tessera::compiler::cost
