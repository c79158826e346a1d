#include "compiler/backends/spatial/dataflow_groups.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::simulator {
namespace {

/// Longer chains are not searched: their spaces are large, and a chain ends at its second product.
constexpr size_t kMaxChain = 5, kMaxChainNests = 10;

/// Whether a nest sums products, on any unit.
bool hasProduct(const v1::SpatialKernel& kernel) {
  return std::ranges::any_of(kernel.nests(), [](const v1::SpatialKernel::Nest& nest) {
    const auto multiplies = [](const auto& each) { return each.name() == "mulf" || each.name() == "muli"; };
    const auto sums = [](const auto& loop) { return loop.name().starts_with("r"); };
    return std::ranges::any_of(nest.body(), multiplies) && std::ranges::any_of(nest.loops(), sums);
  });
}

class GroupFinder {
 public:
  GroupFinder(const SimulatedArtifact& artifact, const cost::Machine& machine)
      : plan_(artifact.plan()), program_(artifact.program()), machine_(machine) {
    for (const v1::Step& step : plan_.steps())
      for (const int32_t buffer : operandsOf(step).first) ++readers_[buffer];
  }

  absl::StatusOr<std::vector<DataflowGroup>> find() {
    for (int step = 0; step < plan_.steps_size(); ++step) TESSERA_RETURN_IF_ERROR(add({step}));
    // Values of loops have other addresses in each iteration.
    for (int step = 0; step < plan_.steps_size() && plan_.loops_size() == 0; ++step) {
      const std::vector<int> chain = chainFrom(step);
      if (!chain.empty()) TESSERA_RETURN_IF_ERROR(add(chain));
    }
    return std::move(groups_);
  }

 private:
  const v1::SpatialKernel& kernelOf(int step) const { return program_.kernels(plan_.steps(step).workload()); }

  std::pair<std::vector<int32_t>, std::vector<int32_t>> operandsOf(const v1::Step& step) const {
    const std::vector<int32_t> all(step.operands().begin(), step.operands().end());
    const auto results = std::min<size_t>(all.size(), static_cast<size_t>(program_.kernels(step.workload()).results()));
    return {{all.begin(), all.end() - static_cast<std::ptrdiff_t>(results)},
            {all.end() - static_cast<std::ptrdiff_t>(results), all.end()}};
  }

  /// The steps from this product to the next one; empty if they are no chain.
  std::vector<int> chainFrom(int first) const {
    if (!hasProduct(kernelOf(first))) return {};
    std::vector<int> chain = {first};
    std::set<int32_t> open;  // results that only later steps of the chain may read
    for (const int32_t buffer : operandsOf(plan_.steps(first)).second) open.insert(buffer);
    int nests = kernelOf(first).nests_size();
    for (int step = first + 1; step < plan_.steps_size() && chain.size() < kMaxChain; ++step) {
      const auto [arguments, results] = operandsOf(plan_.steps(step));
      const bool continues = std::ranges::any_of(arguments, [&](int32_t each) { return open.contains(each); });
      nests += kernelOf(step).nests_size();
      if (!continues || nests > static_cast<int>(kMaxChainNests)) return {};
      for (const int32_t each : arguments)
        if (open.contains(each) && (readers_.at(each) > 1 || plan_.buffers(each).kind() == v1::Buffer::OUTPUT))
          return {};
      chain.push_back(step);
      if (hasProduct(kernelOf(step))) return chain;
      open.insert(results.begin(), results.end());
    }
    return {};
  }

  absl::StatusOr<const CheckedKernel*> checked(int workload) {
    std::unique_ptr<CheckedKernel>& kernel = kernels_[workload];
    if (!kernel) {
      TESSERA_ASSIGN_OR_RETURN(CheckedKernel made, checkKernel(program_.kernels(workload)));
      kernel = std::make_unique<CheckedKernel>(std::move(made));
    }
    return kernel.get();
  }

  /// Simulated cycles of a kernel by itself.
  absl::StatusOr<double> cyclesOf(int workload) {
    const auto known = cycles_.find(workload);
    if (known != cycles_.end()) return known->second;
    TESSERA_ASSIGN_OR_RETURN(const auto loaded, LoadedKernel::load(program_.kernels(workload), plan_.target()));
    TESSERA_ASSIGN_OR_RETURN(const KernelCost cost, loaded->cost());
    return cycles_[workload] = cost.cycles();
  }

  absl::Status add(const std::vector<int>& steps) {
    // Equal groups have the same kernels, which exchange the same operands.
    std::vector<int64_t> key;
    std::map<int32_t, int64_t> numbers;
    for (const int step : steps) {
      key.push_back(-1 - plan_.steps(step).workload());
      for (const int32_t buffer : plan_.steps(step).operands())
        key.push_back(numbers.emplace(buffer, static_cast<int64_t>(numbers.size())).first->second);
    }
    const auto [found, fresh] = known_.emplace(std::move(key), groups_.size());
    if (!fresh) {
      ++groups_[found->second].runs;
      return absl::OkStatus();
    }
    DataflowGroup group{
        .title = absl::StrJoin(steps, " -> ", [&](std::string* out, int step) { *out += plan_.steps(step).name(); }),
        .steps = steps,
        .compiled = {}};
    std::vector<KernelRun> runs;
    for (const int step : steps) {
      const v1::Step& each = plan_.steps(step);
      TESSERA_ASSIGN_OR_RETURN(const CheckedKernel* kernel, checked(each.workload()));
      TESSERA_ASSIGN_OR_RETURN(const double cycles, cyclesOf(each.workload()));
      group.cycles += cycles;
      runs.push_back({kernel, &kernelOf(step).schedule(), {each.operands().begin(), each.operands().end()}});
    }
    if (steps.size() == 1) group.compiled = kernelOf(steps.front()).schedule();
    group.problem = dataflowProblemOf(runs, machine_, plan_.target());
    groups_.push_back(std::move(group));
    return absl::OkStatus();
  }

  const v1::Plan& plan_;
  const v1::SpatialProgram& program_;
  const cost::Machine& machine_;
  std::map<int32_t, int> readers_;  ///< steps that read a buffer
  std::map<int, std::unique_ptr<CheckedKernel>> kernels_;
  std::map<int, double> cycles_;
  std::map<std::vector<int64_t>, size_t> known_;
  std::vector<DataflowGroup> groups_;
};

/// The statements below a tile.
void collect(const v1::Tile& tile, std::vector<int>& statements) {
  if (tile.children_size() == 0) statements.push_back(tile.kernel().nest());
  for (const v1::Tile& child : tile.children()) collect(child, statements);
}

/// The join of the tile that has several children; unspecified without one.
v1::Tile::Join joinOf(const v1::Tile& tile) {
  const v1::Tile* here = &tile;
  while (here->children_size() == 1) here = &here->children(0);
  return here->children_size() > 1 ? here->join() : v1::Tile::JOIN_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<std::vector<DataflowGroup>> dataflowGroupsOf(const SimulatedArtifact& artifact,
                                                            const cost::Machine& machine) {
  return GroupFinder(artifact, machine).find();
}

std::string obstacleOf(const v1::Schedule& tree, const DataflowProblem& problem) {
  if (std::ranges::find(problem.on_instruction, true) == problem.on_instruction.end())
    return "nests of vector units have tiles of their own";
  for (const v1::Tile& phase : tree.phases()) {
    std::vector<int> statements;
    collect(phase, statements);
    const auto products = std::ranges::count_if(
        statements, [&](int statement) { return problem.on_instruction[static_cast<size_t>(statement)]; });
    if (statements.size() < 2) continue;
    std::vector<std::string> names;
    names.reserve(statements.size());
    for (const int statement : statements) names.push_back(problem.operators[static_cast<size_t>(statement)]);
    const std::string joined = absl::StrJoin(names, ", ");
    if (products > 1) return absl::StrCat("one phase has ", products, " products (", joined, "); a nest runs one");
    if (products == 0) return absl::StrCat("one phase has several nests of vector units (", joined, ")");
    if (statements.size() > 2)
      return absl::StrCat("one phase has ", statements.size(), " operators (", joined,
                          "); a product runs with one that follows it");
    if (!problem.on_instruction[static_cast<size_t>(statements.front())])
      return absl::StrCat("one phase runs a vector unit before the instruction (", joined, ")");
    if (joinOf(phase) == v1::Tile::PIPE) return absl::StrCat("one phase is a pipeline (", joined, ")");
  }
  return "";
}

}  // namespace tessera::compiler::simulator
