#include "compiler/import/ops/tree_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kMaxNodes = size_t{1} << 30;  ///< keys and children are 32-bit integers

/// A branch as a step function of x: outcomes[j] for splits[j - 1] < x <= splits[j]; `missing` for NaN.
struct StepFunction {
  std::vector<double> splits;
  std::vector<bool> outcomes;
  bool missing;
};

class Tabulator {
 public:
  Tabulator(const TreeEnsemble& ensemble, bool single) : ensemble_(ensemble), single_(single) {}

  absl::StatusOr<TreeTable> run() {
    slot_of_branch_.assign(ensemble_.branches.size(), -1);
    // Breadth first: the first steps of all rows read neighbouring nodes.
    for (const TreePlace& root : ensemble_.roots) {
      table_.roots.push_back(add());
      waiting_.emplace(table_.roots.back(), root);
      while (!waiting_.empty()) {
        const auto [slot, place] = waiting_.front();
        waiting_.pop();
        TESSERA_RETURN_IF_ERROR(fill(slot, place));
        if (table_.keys.size() > kMaxNodes) return absl::InvalidArgumentError("the trees have too many nodes");
      }
    }
    // Copies are made at the end, when their originals have their children.
    for (const auto& [slot, original] : copies_) {
      table_.keys[slot] = table_.keys[original];
      table_.children[slot] = table_.children[original];
      table_.splits[slot] = table_.splits[original];
    }
    measure();
    return std::move(table_);
  }

 private:
  int64_t add(int64_t count = 1) {
    const auto first = static_cast<int64_t>(table_.keys.size());
    const size_t size = table_.keys.size() + count;
    table_.keys.resize(size, 1);
    table_.children.resize(size, 0);
    table_.splits.resize(size, kInfinity);
    table_.leaves.resize(size, 0);
    return first;
  }

  // x < split is x <= the number below split, so one comparison serves all modes.
  double below(double split) const {
    if (!single_) return std::nextafter(split, -kInfinity);
    return std::nextafter(static_cast<float>(split), -std::numeric_limits<float>::infinity());
  }

  StepFunction stepsOf(const TreeBranch& branch) const {
    const bool missing = branch.missing_is_true;
    const double split = branch.split;
    // A split at infinity holds for every number, and NaN takes the second outcome.
    auto always = [&](bool outcome) {
      return StepFunction{.splits = {kInfinity}, .outcomes = {outcome, missing}, .missing = missing};
    };
    switch (branch.mode) {
      case BranchMode::kLessOrEqual:
      case BranchMode::kGreater: {
        const bool first = branch.mode == BranchMode::kLessOrEqual;
        if (std::isnan(split)) return always(false);
        return {.splits = {split}, .outcomes = {first, !first}, .missing = missing};
      }
      case BranchMode::kLess:
      case BranchMode::kGreaterOrEqual: {
        const bool first = branch.mode == BranchMode::kLess;
        if (std::isnan(split)) return always(false);
        if (split == -kInfinity) return always(!first);
        return {.splits = {below(split)}, .outcomes = {first, !first}, .missing = missing};
      }
      case BranchMode::kEqual:
        return among({split}, true, missing);
      case BranchMode::kNotEqual:
        return among({split}, false, true);  // NaN equals nothing
      case BranchMode::kMember:
        return among(branch.members, true, missing);
    }
    return always(false);
  }

  /// Returns `inside` where x is one of `members`.
  StepFunction among(std::vector<double> members, bool inside, bool missing) const {
    StepFunction steps{.splits = {}, .outcomes = {!inside}, .missing = missing};
    // Each member is a step up and a step down: outcomes alternate between outside and inside.
    std::erase_if(members, [](double value) { return std::isnan(value); });
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    for (const double member : members) {
      const double before = below(member);
      if (member == -kInfinity) {  // nothing is below it
        steps.outcomes.back() = inside;
      } else if (!steps.splits.empty() && steps.splits.back() == before) {  // right behind the last member
        steps.splits.pop_back();
        steps.outcomes.pop_back();
      } else {
        steps.splits.push_back(before);
        steps.outcomes.push_back(inside);
      }
      steps.splits.push_back(member);
      steps.outcomes.push_back(!inside);
    }
    if (steps.splits.empty()) steps = {.splits = {kInfinity}, .outcomes = {!inside, missing}, .missing = missing};
    return steps;
  }

  absl::Status fill(int64_t slot, const TreePlace& place) {
    // A leaf is its own child, so a walk that arrives early stays there.
    if (place.leaf) {
      table_.children[slot] = slot;
      table_.leaves[slot] = place.index;
      return absl::OkStatus();
    }
    // A shared branch could make the table exponentially large.
    if (slot_of_branch_[place.index] >= 0) {
      return absl::InvalidArgumentError(absl::StrCat("branch ", place.index, " is reached twice"));
    }
    slot_of_branch_[place.index] = slot;
    const TreeBranch& branch = ensemble_.branches[place.index];
    const StepFunction steps = stepsOf(branch);
    int64_t slots[2] = {-1, -1};
    search(slot, branch, steps, 0, steps.outcomes.size(), slots);
    return absl::OkStatus();
  }

  /// Makes node `slot` the binary search for x among outcomes first to last - 1. `slots`: existing nodes of both
  /// outcomes.
  void search(int64_t slot, const TreeBranch& branch, const StepFunction& steps, size_t first, size_t last,
              int64_t (&slots)[2]) {
    const size_t middle = (first + last) / 2;  // x <= splits[middle - 1] means an outcome before `middle`
    // NaN walks with the first half if its outcome is there, because the comparison decides for the halves only.
    const auto missing = std::find(steps.outcomes.begin() + first, steps.outcomes.begin() + middle, steps.missing);
    const bool missing_first = missing != steps.outcomes.begin() + middle;
    table_.keys[slot] = 2 * branch.feature + (missing_first ? 1 : 0);
    table_.splits[slot] = steps.splits[middle - 1];
    const int64_t child = add(2);
    table_.children[slot] = child;
    const size_t bounds[3] = {first, middle, last};
    for (const int64_t side : {0, 1}) {
      if (bounds[side + 1] - bounds[side] > 1) {
        search(child + side, branch, steps, bounds[side], bounds[side + 1], slots);
        continue;
      }
      const bool outcome = steps.outcomes[bounds[side]];
      const TreePlace& place = outcome ? branch.when_true : branch.when_false;
      // Several ranges of a member test lead to the same subtree, which must not be built twice.
      if (slots[outcome] >= 0 && !place.leaf) {
        copies_.emplace_back(child + side, slots[outcome]);
      } else {
        slots[outcome] = child + side;
        waiting_.emplace(child + side, place);
      }
    }
  }

  /// Computes the greatest number of steps from a root. Every branch has one parent, so there is no cycle.
  void measure() {
    std::vector<int64_t> height(table_.keys.size(), -1);
    std::vector<int64_t> stack;
    for (const int64_t root : table_.roots) {
      stack.push_back(root);
      while (!stack.empty()) {
        const int64_t node = stack.back(), child = table_.children[node];
        if (child == node) {
          height[node] = 0;
        } else if (height[child] < 0 || height[child + 1] < 0) {
          for (const int64_t next : {child, child + 1}) {
            if (height[next] < 0) stack.push_back(next);
          }
          continue;
        } else {
          height[node] = 1 + std::max(height[child], height[child + 1]);
        }
        stack.pop_back();
      }
      table_.depths.push_back(height[root]);
      table_.depth = std::max(table_.depth, height[root]);
    }
  }

  const TreeEnsemble& ensemble_;
  const bool single_;
  TreeTable table_ = {};
  std::vector<int64_t> slot_of_branch_ = {};
  std::queue<std::pair<int64_t, TreePlace>> waiting_ = {};
  std::vector<std::pair<int64_t, int64_t>> copies_ = {};  ///< a node, and its equal
};

}  // namespace

absl::StatusOr<TreeTable> tabulateTrees(const TreeEnsemble& ensemble, bool single) {
  return Tabulator(ensemble, single).run();
}

}  // namespace tessera::compiler
