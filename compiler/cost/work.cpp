#include "compiler/cost/work.h"

#include <algorithm>
#include <map>

#include "compiler/cost/step_classes.h"

namespace tessera::compiler::cost {
namespace {

LeafWork evenWork(const StatementView& view, double flops, double operations_per_cycle) {
  double operations = flops, copies = 1;
  LeafWork work{.steps = 1};
  for (size_t loop = 0; loop < view.runs.size(); ++loop)
    if (view.runs[loop]) operations *= static_cast<double>(view.extents.back()[loop]);
  for (const BoundLoop& loop : view.loops) (loop.spatial ? copies : work.steps) *= static_cast<double>(loop.count);
  work.operations = operations * work.steps * copies;
  work.cycles = work.steps * std::max(1.0, operations / operations_per_cycle);
  return work;
}

/// Iterations that the loops of one component leave in one step of the leaf.
class ComponentWork {
 public:
  ComponentWork(const BoundTree& tree, const StatementView& view, int component)
      : statement_(tree.nodes[static_cast<size_t>(view.leaf)].statement) {
    for (size_t loop = 0; loop < view.runs.size(); ++loop)
      if (tree.linked[loop] == component && view.runs[loop]) own_.push_back(loop);
    std::vector<size_t> positions;
    for (size_t i = 0; i < view.loops.size(); ++i)
      if (tree.linked[static_cast<size_t>(view.loops[i].loop)] == component) positions.push_back(i);
    const StepClasses classes(tree, view.loops, std::move(positions));
    absl::InlinedVector<int64_t, 8> indices(classes.positions().size(), 0);
    choose(classes, 0, 1, true, indices);
  }

  double total() const { return total_; }  ///< iterations of all steps and units
  /// Steps of the first unit, which has the most work in each step, by their iterations.
  const std::map<double, double>& steps() const { return steps_; }

 private:
  void choose(const StepClasses& classes, size_t k, double weight, bool is_first_unit,
              absl::InlinedVector<int64_t, 8>& indices) {
    if (k < indices.size()) {
      for (const StepClass& each : classes.of(k)) {
        indices[k] = each.begin;
        const auto length = static_cast<double>(each.end - each.begin);
        const bool split = is_first_unit && classes.loop(k).spatial;
        // The first unit of a class is one of its units.
        if (split && each.begin == 0) {
          choose(classes, k + 1, weight, true, indices);
          if (each.end > 1) choose(classes, k + 1, weight * (length - 1), false, indices);
        } else {
          choose(classes, k + 1, weight * length, is_first_unit && !split, indices);
        }
      }
      return;
    }
    const std::optional<StepExtents> step = classes.step(indices);
    if (!step) return;
    double iterations = 1;
    for (const size_t loop : own_) iterations *= static_cast<double>(step->of(statement_)[loop]);
    total_ += weight * iterations;
    if (is_first_unit) steps_[iterations] += weight;
  }

  int statement_;
  std::vector<size_t> own_;
  double total_ = 0;
  std::map<double, double> steps_;
};

Components componentsOf(const BoundTree& tree) {
  Components components = tree.linked;
  std::ranges::sort(components);
  components.erase(std::unique(components.begin(), components.end()), components.end());
  return components;
}

/// Steps of the first `depth` of the loops for the first unit, from loop k on.
double countSteps(const StepClasses& classes, size_t k, size_t depth, const StepExtents& outside) {
  if (k == depth) return 1;
  double steps = 0;
  for (const StepClass& each : classes.of(k)) {
    StepExtents inside = outside;
    if (inside.enter(classes.loop(k), classes.positions()[k], each.begin))
      steps += static_cast<double>(each.end - each.begin) * countSteps(classes, k + 1, depth, inside);
    if (classes.loop(k).spatial) return steps / static_cast<double>(each.end - each.begin);
  }
  return steps;
}

}  // namespace

std::vector<double> stepsOf(const BoundTree& tree, const StatementView& view) {
  std::vector<double> steps(view.loops.size() + 1, 1);
  if (tree.is_even) {
    for (size_t i = 0; i < view.loops.size(); ++i)
      steps[i + 1] = steps[i] * (view.loops[i].spatial ? 1 : static_cast<double>(view.loops[i].count));
    return steps;
  }
  for (const int component : componentsOf(tree)) {
    std::vector<size_t> positions;
    for (size_t i = 0; i < view.loops.size(); ++i)
      if (tree.linked[static_cast<size_t>(view.loops[i].loop)] == component) positions.push_back(i);
    const StepClasses classes(tree, view.loops, std::move(positions));
    double own = 1;
    for (size_t i = 0, k = 0; i < view.loops.size(); ++i) {
      if (k < classes.positions().size() && classes.positions()[k] == i)
        own = countSteps(classes, 0, ++k, StepExtents(tree));
      steps[i + 1] *= own;
    }
  }
  return steps;
}

LeafWork workOf(const BoundTree& tree, const StatementView& view, double flops, double operations_per_cycle) {
  if (tree.is_even) return evenWork(view, flops, operations_per_cycle);
  LeafWork work{.operations = flops};
  std::map<double, double> steps = {{flops, 1}};
  for (const int component : componentsOf(tree)) {
    const ComponentWork part(tree, view, component);
    work.operations *= part.total();
    std::map<double, double> combined;
    for (const auto& [operations, times] : steps)
      for (const auto& [iterations, more] : part.steps()) combined[operations * iterations] += times * more;
    steps = std::move(combined);
  }
  for (const auto& [operations, times] : steps) {
    work.steps += times;
    work.cycles += times * std::max(1.0, operations / operations_per_cycle);
  }
  return work;
}

}  // namespace tessera::compiler::cost
