#include "compiler/cost/step_extents.h"

#include <algorithm>
#include <cstdlib>

namespace tessera::compiler::cost {

int64_t spanOf(const loopnest::Subscript& subscript, absl::Span<const int64_t> extents) {
  int64_t span = 1;
  for (const loopnest::Term& term : subscript.terms)
    span += std::abs(term.coefficient) * (extents[static_cast<size_t>(term.loop)] - 1);
  return span;
}

StepExtents::StepExtents(const BoundTree& tree) : tree_(&tree) {
  for (const StatementView& view : tree.statements) {
    extents_.insert(extents_.end(), view.extents.front().begin(), view.extents.front().end());
    if (!tree.has_follower) break;
  }
}

absl::Span<const int64_t> StepExtents::of(int statement) const {
  const size_t loops = tree_->linked.size();
  return absl::MakeConstSpan(extents_).subspan(row(statement) * loops, loops);
}

int64_t StepExtents::entering(const BoundLoop& loop) const {
  const auto position = static_cast<size_t>(loop.loop);
  if (!tree_->has_follower) return extents_[position];
  for (const int s : tree_->nodes[static_cast<size_t>(loop.node)].statements)
    if (tree_->statements[static_cast<size_t>(s)].runs[position]) return of(s)[position];
  return 0;
}

bool StepExtents::enter(const BoundLoop& loop, size_t position, int64_t index) {
  if (!tree_->has_follower) {
    int64_t& iterations = extents_[static_cast<size_t>(loop.loop)];
    iterations = std::min(loop.step, iterations - index * loop.step);
    return iterations > 0;
  }
  const BoundNode& node = tree_->nodes[static_cast<size_t>(loop.node)];
  for (const int s : node.statements) {
    if (!tree_->statements[static_cast<size_t>(s)].runs[static_cast<size_t>(loop.loop)]) continue;
    int64_t& iterations = extent(s, static_cast<size_t>(loop.loop));
    iterations = std::min(loop.step, iterations - index * loop.step);
    if (iterations <= 0) return false;
  }
  // Consumers come after their producers, so they have their extents first.
  for (auto s = node.statements.rbegin(); s != node.statements.rend(); ++s) {
    for (const Followed& followed : tree_->statements[static_cast<size_t>(*s)].follows[position]) {
      const int tensor = tree_->accesses[static_cast<size_t>(*s)].back().tensor;
      int64_t span = 0;
      for (const int reader : tree_->readers[static_cast<size_t>(tensor)]) {
        if (std::ranges::find(node.statements, reader) == node.statements.end()) continue;
        for (const BoundAccess& access : tree_->accesses[static_cast<size_t>(reader)])
          if (access.tensor == tensor)
            span = std::max(span, spanOf(access.access->subscripts[followed.dimension], of(reader)));
      }
      int64_t& iterations = extent(*s, followed.own);
      iterations = std::min(iterations, span);
    }
  }
  return true;
}

std::vector<StepExtents> stepsInside(const BoundTree& tree, const StatementView& view, size_t depth,
                                     absl::Span<const int> loops) {
  std::vector<StepExtents> steps = {StepExtents(tree)};
  for (size_t i = 0; i < depth; ++i) {
    const BoundLoop& loop = view.loops[i];
    const int component = tree.linked[static_cast<size_t>(loop.loop)];
    if (std::ranges::none_of(loops, [&](int l) { return tree.linked[static_cast<size_t>(l)] == component; })) continue;
    std::vector<StepExtents> inside;
    for (const StepExtents& step : steps) {
      for (const int64_t index : {int64_t{0}, step.count(loop) - 1}) {
        StepExtents next = step;
        if (next.enter(loop, i, index) && std::ranges::find(inside, next) == inside.end())
          inside.push_back(std::move(next));
      }
    }
    steps = std::move(inside);
  }
  return steps;
}

}  // namespace tessera::compiler::cost
