#include "compiler/backends/spatial/dataflow_problem.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/backends/spatial/vector_unit.h"
#include "compiler/dataflow_search/search.h"
#include "compiler/schedule/chip_words.h"
#include "compiler/schedule/summary.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::simulator {
namespace {

/// Groups of loops of different nests that become one loop. A group has at most one loop of each nest.
class LoopGroups {
 public:
  int add(int statement, int64_t extent) {
    groups_.push_back({.parent = static_cast<int>(groups_.size()), .extent = extent, .statements = {statement}});
    return static_cast<int>(groups_.size()) - 1;
  }

  int of(int loop) {
    while (group(loop).parent != loop) loop = group(loop).parent;
    return loop;
  }

  void join(int left, int right) {
    left = of(left);
    right = of(right);
    if (left == right || group(left).extent != group(right).extent) return;
    for (const int statement : group(right).statements)
      if (group(left).statements.contains(statement)) return;
    const auto [first, second] = std::minmax(left, right);
    group(second).parent = first;
    group(first).statements.insert(group(second).statements.begin(), group(second).statements.end());
  }

  int64_t extentOf(int loop) { return group(of(loop)).extent; }
  int size() const { return static_cast<int>(groups_.size()); }

 private:
  struct Group {
    int parent = 0;
    int64_t extent = 1;
    std::set<int> statements;
  };
  Group& group(int loop) { return groups_[static_cast<size_t>(loop)]; }
  std::vector<Group> groups_;
};

/// The loop of a subscript that is one loop; -1 for others.
int plainLoop(const loopnest::Subscript& subscript) {
  const bool plain = subscript.digits.empty() && subscript.constant == 0 && subscript.terms.size() == 1 &&
                     subscript.terms[0].coefficient == 1;
  return plain ? subscript.terms[0].loop : -1;
}

bool onlyFills(const SpatialNest& nest) {
  if (static_cast<int>(nest.accesses.size()) != nest.outputs) return false;
  for (int output = 0; output < nest.outputs; ++output)
    if (nest.reads(output)) return false;
  return std::ranges::none_of(nest.body, [](const SpatialOperation& each) { return each.name == "load"; });
}

class ProblemWriter {
 public:
  ProblemWriter(const cost::Machine& machine, const v1::Target& target) : units_(elementUnitsOf(target)) {
    for (const cost::Machine::Unit& unit : machine.units)
      rate_ = std::max(rate_, static_cast<double>(unit.count) * unit.operations_per_cycle);
  }

  absl::Status add(const KernelRun& run, int number) {
    std::set<int> on_instruction;
    for (const v1::Tile* leaf : leavesOf(*run.schedule))
      if (leaf->kernel().variant() == words::kCall) on_instruction.insert(leaf->kernel().nest());
    const auto nests = static_cast<int>(run.kernel->nests.size());
    for (int n = 0; n < nests; ++n) {
      const SpatialNest& nest = run.kernel->nests[static_cast<size_t>(n)];
      if (onlyFills(nest)) continue;
      TESSERA_RETURN_IF_ERROR(addNest(nest, run, number, on_instruction.contains(n)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<DataflowProblem> take() {
    if (problem_.nest.statements.empty()) return absl::FailedPreconditionError("it computes nothing");
    nameLoops();
    problem_.nest.name = "kernels";
    return std::move(problem_);
  }

 private:
  /// A tensor in one layout. A buffer that is written again becomes another tensor.
  struct Tensor {
    std::string name;
    std::vector<int64_t> strides;
    int64_t offset = 0;
    int written_by = -1;  ///< access of the statement that writes it
  };

  absl::Status addNest(const SpatialNest& nest, const KernelRun& run, int number, bool on_instruction) {
    if (nest.outputs != 1) return absl::FailedPreconditionError(absl::StrCat(nest.name, ": it has several results"));
    if (std::ranges::any_of(nest.body, [](const SpatialOperation& each) { return each.name == "load"; }))
      return absl::FailedPreconditionError(absl::StrCat(nest.name, ": it reads at computed positions"));
    const int statement = static_cast<int>(problem_.nest.statements.size());
    std::vector<int> loops;
    for (const loopnest::Loop& loop : nest.loops) {
      loops.push_back(groups_.add(statement, loop.extent));
      names_.push_back(loop.name);
    }
    loopnest::Statement added{.name = absl::StrCat("s", statement), .loops = loops};
    for (size_t a = 1; a < nest.accesses.size(); ++a)
      added.inputs.push_back(addAccess(nest.accesses[a], run, number, loops, /*writes=*/false));
    added.output = addAccess(nest.accesses[0], run, number, loops, /*writes=*/true);
    added.body.opaque = true;
    if (!on_instruction) {
      TESSERA_ASSIGN_OR_RETURN(added.body.flops, operationsOf(nest));
    }
    problem_.nest.statements.push_back(std::move(added));
    problem_.on_instruction.push_back(on_instruction);
    problem_.operators.push_back(nest.name);
    return absl::OkStatus();
  }

  /// Operations of one point that take the machine as long as the fastest vector units need.
  absl::StatusOr<double> operationsOf(const SpatialNest& nest) const {
    std::optional<double> least;
    std::string missing;
    for (const VectorUnit& unit : units_) {
      const std::optional<PointCost> cost = pointCostOf(nest, *unit.unit, missing);
      if (!cost) continue;
      const double cycles = cost->cycles / static_cast<double>(unit.instances);
      if (!least || cycles < *least) least = cycles;
    }
    if (!least) return absl::FailedPreconditionError(absl::StrCat(nest.name, ": no vector unit has a rate for it"));
    return *least * rate_;
  }

  int addAccess(const SpatialAccess& access, const KernelRun& run, int number, const std::vector<int>& loops,
                bool writes) {
    const auto buffer = static_cast<size_t>(access.buffer);
    // Temporaries belong to their kernel.
    const std::pair<int, int64_t> key = buffer < run.operands.size() ? std::pair(-1, run.operands[buffer])
                                                                     : std::pair(number, static_cast<int64_t>(buffer));
    std::vector<Tensor>& known = tensors_[key];
    loopnest::Access added{.name = "", .dtype = access.dtype};
    for (loopnest::Subscript subscript : access.subscripts) {
      for (loopnest::Term& term : subscript.terms) term.loop = loops[static_cast<size_t>(term.loop)];
      for (loopnest::Digit& digit : subscript.digits)
        for (loopnest::Term& term : digit.terms) term.loop = loops[static_cast<size_t>(term.loop)];
      added.subscripts.push_back(std::move(subscript));
    }
    const int position = static_cast<int>(problem_.nest.accesses.size());
    auto same = std::ranges::find_if(
        known, [&](const Tensor& each) { return each.strides == access.strides && each.offset == access.offset; });
    if (writes) {
      // What was in the buffer is another tensor now.
      known.clear();
      known.push_back({freshName(), access.strides, access.offset, position});
      added.name = known.back().name;
    } else {
      const bool written = std::ranges::any_of(known, [](const Tensor& each) { return each.written_by >= 0; });
      if (same == known.end()) {
        known.push_back({freshName(), access.strides, access.offset, -1});
        same = known.end() - 1;
        if (written) problem_.unlinked.push_back(same->name);
      }
      added.name = same->name;
      if (same->written_by >= 0) link(same->written_by, added);
    }
    problem_.nest.accesses.push_back(std::move(added));
    return position;
  }

  void link(int writer, const loopnest::Access& reader) {
    const std::vector<loopnest::Subscript>& written = problem_.nest.accesses[static_cast<size_t>(writer)].subscripts;
    for (size_t d = 0; d < written.size(); ++d) {
      const int left = plainLoop(written[d]), right = plainLoop(reader.subscripts[d]);
      if (left >= 0 && right >= 0) groups_.join(left, right);
    }
  }

  std::string freshName() { return absl::StrCat("t", tensor_count_++); }

  /// Replaces the loops of single nests by the groups, in the order of their first nests.
  void nameLoops() {
    loopnest::Nest& nest = problem_.nest;
    std::vector<int> position(static_cast<size_t>(groups_.size()), -1);
    std::set<std::string> used;
    for (int loop = 0; loop < groups_.size(); ++loop) {
      const int group = groups_.of(loop);
      int& place = position[static_cast<size_t>(group)];
      if (place < 0) {
        place = static_cast<int>(nest.loops.size());
        std::string name = names_[static_cast<size_t>(group)];
        for (int copy = 1; !used.insert(name).second; ++copy)
          name = absl::StrCat(names_[static_cast<size_t>(group)], "_", copy);
        nest.loops.push_back({.name = std::move(name), .extent = groups_.extentOf(group)});
      }
      position[static_cast<size_t>(loop)] = place;
    }
    const auto replace = [&](std::vector<loopnest::Term>& terms) {
      for (loopnest::Term& term : terms) term.loop = position[static_cast<size_t>(term.loop)];
    };
    for (loopnest::Access& access : nest.accesses) {
      for (loopnest::Subscript& subscript : access.subscripts) {
        replace(subscript.terms);
        for (loopnest::Digit& digit : subscript.digits) replace(digit.terms);
      }
    }
    for (loopnest::Statement& statement : nest.statements)
      for (int& loop : statement.loops) loop = position[static_cast<size_t>(loop)];
  }

  const std::vector<VectorUnit> units_;
  double rate_ = 1;
  DataflowProblem problem_;
  LoopGroups groups_;
  std::vector<std::string> names_;  ///< of each loop of each nest
  std::map<std::pair<int, int64_t>, std::vector<Tensor>> tensors_;
  int tensor_count_ = 0;
};

}  // namespace

absl::StatusOr<DataflowProblem> dataflowProblemOf(const std::vector<KernelRun>& runs, const cost::Machine& machine,
                                                  const v1::Target& target) {
  ProblemWriter writer(machine, target);
  for (size_t run = 0; run < runs.size(); ++run) TESSERA_RETURN_IF_ERROR(writer.add(runs[run], static_cast<int>(run)));
  TESSERA_ASSIGN_OR_RETURN(DataflowProblem problem, writer.take());
  if (absl::Status status = dataflow_search::checkSearchable(problem.nest, machine); !status.ok())
    return absl::FailedPreconditionError(status.message());
  return problem;
}

cost::Machine nestedMachineOf(const v1::Target& target) {
  cost::Machine machine = cost::machineOf(target);
  std::vector<cost::Machine::Memory> levels;
  for (size_t m = 0; m < machine.memories.size(); ++m) {
    cost::Machine::Memory& memory = machine.memories[m];
    if (levels.empty() || !target.memory(static_cast<int>(m)).peer_of_inner()) {
      levels.push_back(std::move(memory));
      continue;
    }
    cost::Machine::Memory& level = levels.back();
    const double share = static_cast<double>(memory.instances) / static_cast<double>(level.instances);
    absl::StrAppend(&level.name, "+", memory.name);
    if (level.capacity_bytes > 0)
      level.capacity_bytes =
          memory.capacity_bytes > 0
              ? level.capacity_bytes + static_cast<int64_t>(static_cast<double>(memory.capacity_bytes) * share)
              : 0;
    level.read_bytes_per_cycle += memory.read_bytes_per_cycle * share;
    level.write_bytes_per_cycle += memory.write_bytes_per_cycle * share;
    if (level.write_energy_pj_per_byte || memory.write_energy_pj_per_byte)
      level.write_energy_pj_per_byte = std::max(level.write_energy_pj_per_byte.value_or(level.energy_pj_per_byte),
                                                memory.write_energy_pj_per_byte.value_or(memory.energy_pj_per_byte));
    level.energy_pj_per_byte = std::max(level.energy_pj_per_byte, memory.energy_pj_per_byte);
  }
  machine.memories = std::move(levels);
  const auto fastest = std::ranges::max_element(machine.units, {}, [](const cost::Machine::Unit& unit) {
    return static_cast<double>(unit.count) * unit.operations_per_cycle;
  });
  if (fastest != machine.units.end()) machine.units = {*fastest};
  return machine;
}

}  // namespace tessera::compiler::simulator
