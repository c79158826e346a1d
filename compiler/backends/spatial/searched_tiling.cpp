#include "compiler/backends/spatial/searched_tiling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/dataflow_search/search.h"
#include "compiler/target/hierarchy.h"

namespace tessera::compiler::simulator {
namespace {

using cost::Machine;
using intrinsic::Choice;
using intrinsic::PhysicalMapping;
using intrinsic::Stage;
using intrinsic::Tiling;

// Work of the search of one mapping, instead of a time: equal requests give equal programs.
constexpr int64_t kProposals = 1500, kPolls = 3000;

/// The element types that stand for blocks, by their bytes.
constexpr std::array<std::pair<double, v1::DataType>, 4> kWords = {
    {{1, v1::DATA_TYPE_I8}, {2, v1::DATA_TYPE_F16}, {4, v1::DATA_TYPE_F32}, {8, v1::DATA_TYPE_F64}}};

/// Bytes of blocks for each byte of the element that stands for them, so that the largest block is an f32.
double scaleOf(const PhysicalMapping& mapping) {
  int64_t largest = 1;
  for (const intrinsic::Placement& operand : mapping.operands) largest = std::max(largest, operand.block_bytes);
  return std::max(1.0, static_cast<double>(largest) / 4);
}

bool moves(const intrinsic::Placement& operand, const PhysicalMapping& mapping, size_t dimension) {
  const size_t groups = mapping.groups.size();
  if (dimension < groups) return std::ranges::find(operand.order, static_cast<int>(dimension)) != operand.order.end();
  return std::ranges::find(operand.outer, mapping.outer[dimension - groups]) != operand.outer.end();
}

/// One iteration for each call of the instruction. Elements are blocks of operands.
loopnest::Nest callsOf(const Choice& choice) {
  const PhysicalMapping& mapping = choice.mapping;
  const std::vector<int64_t> extents = intrinsic::dimensionsOf(choice.software, mapping);
  loopnest::Nest nest{.name = "calls"};
  loopnest::Statement statement{.name = "call"};
  for (size_t d = 0; d < extents.size(); ++d) {
    nest.loops.push_back({.name = absl::StrCat("d", d), .extent = extents[d]});
    statement.loops.push_back(static_cast<int>(d));
  }
  const double scale = scaleOf(mapping);
  for (size_t operand = 0; operand < mapping.operands.size(); ++operand) {
    const intrinsic::Placement& placement = mapping.operands[operand];
    loopnest::Access access{.name = absl::StrCat("t", operand)};
    const double bytes = std::log(static_cast<double>(placement.block_bytes) / scale);
    access.dtype =
        std::ranges::min(kWords, {}, [&](const auto& word) { return std::abs(std::log(word.first) - bytes); }).second;
    for (size_t d = 0; d < extents.size(); ++d) {
      if (!moves(placement, mapping, d)) continue;
      access.subscripts.push_back({.terms = {{.loop = static_cast<int>(d)}}});
    }
    if (operand > 0) statement.inputs.push_back(static_cast<int>(operand));
    nest.accesses.push_back(std::move(access));
  }
  statement.body.combine = loopnest::Combine::kSum;
  statement.body.opaque = true;
  nest.statements.push_back(std::move(statement));
  return nest;
}

/// The levels of the cost model of mappings. Bytes are divided by scaleOf().
Machine machineOf(const Choice& choice, const std::vector<Stage>& stages, const v1::Target& target) {
  const Hierarchy chip(target);
  const v1::Intrinsic& intrinsic = choice.intrinsic;
  const int unit = chip.unitOf(intrinsic);
  const int64_t units = unit < 0 ? 1 : chip.units()[static_cast<size_t>(unit)].instances;
  const double interval =
      intrinsic.cycles_per_issue() > 0 ? intrinsic.cycles_per_issue() : std::max<double>(1, intrinsic.latency_cycles());
  const double scale = scaleOf(choice.mapping);
  Machine machine;
  const auto rate = [&](double bytes_per_cycle) {
    return bytes_per_cycle > 0 ? bytes_per_cycle / scale : Machine::kUnlimited;
  };
  for (size_t l = 0; l < stages.size(); ++l) {
    const Stage& stage = stages[l];
    Machine::Memory& memory = machine.memories.emplace_back();
    memory.name = absl::StrCat("level", l);
    const int level = l == 0 ? -1 : chip.levelNamed(stage.name);
    const bool last = l + 1 == stages.size();
    const int64_t sharers = last ? units : level < 0 ? 1 : std::max<int64_t>(1, chip.shareOf(level, unit).sharers);
    memory.instances = std::max<int64_t>(1, units / sharers);
    double capacity = 0, width = 0;
    for (size_t each = 0; each < stage.memories.size(); ++each) {
      // Operands in one memory share its capacity.
      const auto first = std::ranges::find(stage.memories, stage.memories[each]) - stage.memories.begin();
      if (static_cast<size_t>(first) != each) continue;
      capacity += static_cast<double>(std::max<int64_t>(0, stage.capacities[each]));
      width += stage.widths[each];
    }
    capacity *= static_cast<double>(sharers) / scale;
    // Sums are kept in place and sources are double buffered: the search has no word for either.
    if (!last && capacity >= 2) memory.capacity_bytes = static_cast<int64_t>(capacity / 2);
    memory.write_bytes_per_cycle = rate(width * static_cast<double>(sharers));
    // Instructions read their own buffers at the rate at which they are issued.
    memory.read_bytes_per_cycle =
        l == 0 ? Machine::kUnlimited : rate(stages[l - 1].in_bandwidth * static_cast<double>(sharers));
  }
  // Instances are nested.
  for (size_t l = machine.memories.size() - 1; l > 0; --l)
    machine.memories[l - 1].instances = std::max(machine.memories[l - 1].instances, machine.memories[l].instances);
  machine.units.push_back({.name = "unit", .count = units, .operations_per_cycle = 2 / std::max(interval, 1e-3)});
  return machine;
}

/// The blocks that each level holds for one unit.
Tiling tilingOf(const v1::Schedule& tree, const Choice& choice, const std::vector<int64_t>& extents) {
  const size_t levels = choice.tiling.size();
  Tiling inside(levels, extents);
  std::vector<std::vector<int64_t>> spatial(levels, std::vector<int64_t>(extents.size(), 1));
  std::vector<int64_t> left = extents;
  const v1::Tile* tile = &tree.phases(0);
  for (size_t level = levels; level-- > 0;) {
    inside[level] = left;
    for (const v1::Loop& loop : tile->loops()) {
      size_t d = 0;
      while (d + 1 < extents.size() && loop.dimension() != absl::StrCat("d", d)) ++d;
      if (!loop.unit().empty()) spatial[level][d] *= left[d] / loop.step();
      left[d] = loop.step();
    }
    if (tile->children_size() == 0) break;
    tile = &tile->children(0);
  }
  Tiling tiling = choice.tiling;
  std::vector<int64_t> units(extents.size(), 1);
  for (size_t level = 0; level + 1 < levels; ++level)
    for (size_t d = 0; d < extents.size(); ++d) {
      units[d] *= spatial[level][d];
      tiling[level][d] = std::max<int64_t>(1, inside[level][d] / units[d]);
    }
  return tiling;
}

}  // namespace

std::vector<Choice> searchedTilings(const Choice& choice, const v1::Target& target, size_t most) {
  const intrinsic::MappingCostModel model(choice.software, choice.intrinsic, choice.mapping, target);
  const loopnest::Nest nest = callsOf(choice);
  const Machine machine = machineOf(choice, model.stages(), target);
  const std::vector<int64_t> extents = nest.extents();
  std::vector<Choice> found;
  int64_t polls = 0;
  dataflow_search::Options options;
  options.most_proposals = kProposals;
  options.stopped = [&] { return ++polls > kPolls; };
  options.better = [&](const dataflow_search::Found& better, double) {
    Choice next = choice;
    next.tiling = tilingOf(better.tree, choice, extents);
    std::erase_if(found, [&](const Choice& each) { return each.tiling == next.tiling; });
    if (auto price = model.of(next.tiling); price.ok()) next.price = *std::move(price);
    found.push_back(std::move(next));
  };
  if (!dataflow_search::searchExact(nest, machine, options).ok()) return {};
  if (found.size() > most) found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(most));
  std::ranges::reverse(found);
  return found;
}

}  // namespace tessera::compiler::simulator
