#include "compiler/backends/spatial/vector_unit.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/backends/spatial/scalar_operations.h"
#include "compiler/target/element_text.h"
#include "compiler/target/hierarchy.h"
#include "compiler/target/instruction_sets.h"
#include "compiler/target/rates.h"

namespace tessera::compiler::simulator {
namespace {

UnitLevel levelOf(const Hierarchy& chip, int position, int unit) {
  const Hierarchy::Level& level = chip.levels()[static_cast<size_t>(position)];
  const Hierarchy::Share share = chip.shareOf(position, unit);
  const bool outermost = position + 1 == static_cast<int>(chip.levels().size());
  const int64_t capacity = outermost ? level.capacity_bytes : share.capacity_bytes;
  return {.name = level.name,
          .capacity = level.capacity_bytes > 0 ? capacity : -1,
          .read = share.read_bytes_per_cycle,
          .write = share.write_bytes_per_cycle,
          .read_pj = level.read_pj_per_byte,
          .write_pj = level.write_pj_per_byte};
}

/// Values that depend on what an output holds before the point.
std::vector<bool> dependsOnOld(const SpatialNest& nest) {
  std::vector<bool> depends(nest.accesses.size() + nest.body.size(), false);
  for (int output = 0; output < nest.outputs; ++output) depends[static_cast<size_t>(output)] = true;
  for (size_t o = 0; o < nest.body.size(); ++o)
    depends[nest.accesses.size() + o] = std::ranges::any_of(
        nest.body[o].operands, [&](int value) { return static_cast<bool>(depends[static_cast<size_t>(value)]); });
  return depends;
}

/// The loop that walks an access element by element; -1 without one.
int innermostOf(const SpatialNest& nest, const SpatialAccess& access) {
  for (const loopnest::Term& term : access.position.terms)
    if ((term.coefficient == 1 || term.coefficient == -1) && nest.loops[static_cast<size_t>(term.loop)].extent > 1)
      return term.loop;
  return -1;
}

/// "copy", or "transpose" if the input and the output are contiguous along different loops.
std::string_view copyKind(const SpatialNest& nest) {
  const int out = innermostOf(nest, nest.accesses[0]);
  for (size_t a = static_cast<size_t>(nest.outputs); a < nest.accesses.size(); ++a) {
    const int in = innermostOf(nest, nest.accesses[a]);
    if (in >= 0 && out >= 0 && in != out) return "transpose";
  }
  return "copy";
}

/// The rate of an operation that accumulates: of its name, then of reductions.
const v1::ComputeUnit::Rate* rateOfReduction(const v1::ComputeUnit& unit, std::string_view name, v1::DataType type) {
  const v1::ComputeUnit::Rate* rate = rateOf(unit, name, type);
  if (rate != nullptr && rate->operation() == name) return rate;
  return rateOf(unit, "reduction", type);
}

}  // namespace

std::vector<VectorUnit> elementUnitsOf(const v1::Target& target) {
  const Hierarchy chip(target);
  std::set<std::string> homes, passed;
  std::set<int> busy;
  for (const v1::Intrinsic& intrinsic : instructionsOf(target)) {
    busy.insert(chip.unitOf(intrinsic));
    for (const auto& operand : intrinsic.operands()) homes.insert(operand.memory());
    for (const auto& transfer : intrinsic.transfers()) passed.insert({transfer.from(), transfer.to()});
  }
  const bool rated = std::ranges::any_of(target.units(), [](const auto& unit) { return unit.rates_size() > 0; });
  std::vector<VectorUnit> units;
  const int last = target.memory_size() - 1;
  for (int u = 0; u < target.units_size() && last >= 0; ++u) {
    const v1::ComputeUnit& unit = target.units(u);
    if (rated ? unit.rates_size() == 0 : unit.lanes() < 1 || busy.contains(u) || chip.containsUnits(u)) continue;
    VectorUnit& found = units.emplace_back();
    found.unit = &unit;
    found.instances = chip.units()[static_cast<size_t>(u)].instances;
    int home = std::max(0, chip.levelNamed(unit.memory()));
    while (unit.memory().empty() && home < last && homes.contains(target.memory(home).name())) ++home;
    for (int level = home; level < last; ++level) {
      const v1::MemoryLevel& memory = target.memory(level);
      // Copies between the unit and the buffers bypass memories of instructions.
      if (level > home && (passed.contains(memory.name()) || homes.contains(memory.name()) || memory.peer_of_inner()))
        continue;
      found.levels.push_back(levelOf(chip, level, u));
    }
    found.levels.push_back(levelOf(chip, last, u));
  }
  return units;
}

std::optional<PointCost> pointCostOf(const SpatialNest& nest, const v1::ComputeUnit& unit, std::string& missing) {
  PointCost cost;
  const std::vector<bool> depends = dependsOnOld(nest);
  const std::vector<bool> parallel = parallelLoopsOf(nest);
  bool reduces = false;
  for (size_t l = 0; l < parallel.size(); ++l) reduces = reduces || (!parallel[l] && nest.loops[l].extent > 1);
  const auto add = [&](std::string_view name, bool sums, v1::DataType type) {
    ++cost.operations;
    if (unit.rates_size() == 0) {
      cost.cycles += 1.0 / std::max(1, unit.lanes());
      return true;
    }
    const v1::ComputeUnit::Rate* rate = sums ? rateOfReduction(unit, name, type) : rateOf(unit, name, type);
    if (rate == nullptr) {
      missing = absl::StrCat(std::string(name), " of ", elementText(type));
      return false;
    }
    cost.cycles += 1 / rate->elements_per_cycle();
    cost.energy_pj += rate->energy_pj();
    return true;
  };
  for (size_t o = 0; o < nest.body.size(); ++o) {
    const SpatialOperation& operation = nest.body[o];
    const Work work = scalarOperation(operation.name)->work;
    if (work == Work::kNone) continue;
    const std::string_view name = std::string_view(operation.name).substr(0, operation.name.find('.'));
    const bool sums = reduces && depends[nest.accesses.size() + o];
    if (!add(name, sums, operation.dtype)) return std::nullopt;
  }
  if (cost.operations == 0) {
    const std::string_view kind = copyKind(nest);
    if (!add(kind, false, nest.accesses[0].dtype)) return std::nullopt;
  }
  return cost;
}

}  // namespace tessera::compiler::simulator
