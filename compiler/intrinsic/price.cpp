#include "compiler/intrinsic/price.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/target/validate_intrinsic.h"

namespace tessera::compiler::intrinsic {
namespace {

std::string homeOf(const v1::Intrinsic::Operand& operand) {
  return operand.memory().empty() ? kRegisters : operand.memory();
}

double outBandwidth(const v1::MemoryLevel& level) {
  return level.write_bandwidth_bytes_per_cycle() > 0 ? level.write_bandwidth_bytes_per_cycle()
                                                     : level.bandwidth_bytes_per_cycle();
}

/// Whether dimension `d` walks the blocks of an operand.
bool walks(const Placement& placement, const PhysicalMapping& mapping, size_t d) {
  const size_t iterations = mapping.groups.size();
  const std::vector<int>& which = d < iterations ? placement.order : placement.outer;
  const int wanted = d < iterations ? static_cast<int>(d) : mapping.outer[d - iterations];
  return std::find(which.begin(), which.end(), wanted) != which.end();
}

double bytesOf(const Placement& placement, const PhysicalMapping& mapping, const std::vector<int64_t>& tile) {
  double bytes = static_cast<double>(placement.block_bytes);
  for (size_t d = 0; d < tile.size(); ++d) {
    if (walks(placement, mapping, d)) bytes *= static_cast<double>(tile[d]);
  }
  return bytes;
}

bool isSum(const Nest& software, const v1::Intrinsic& intrinsic, const PhysicalMapping& mapping, size_t d) {
  const size_t iterations = mapping.groups.size();
  return d < iterations ? intrinsic.iterations(static_cast<int>(d)).reduction()
                        : software.loops[mapping.outer[d - iterations]].reduction;
}

int64_t unitsOf(const v1::Intrinsic& intrinsic, const v1::Target& target) {
  for (const v1::ComputeUnit& unit : target.units()) {
    if (intrinsic.unit().empty() || unit.name() == intrinsic.unit()) return std::max(1, unit.count());
  }
  return 1;
}

}  // namespace

std::vector<Stage> stagesOf(const v1::Intrinsic& intrinsic, const v1::Target& target) {
  Stage inner;
  std::set<std::string> homes;
  for (const auto& operand : intrinsic.operands()) {
    inner.memories.push_back(homeOf(operand));
    if (homes.insert(homeOf(operand)).second) {
      absl::StrAppend(&inner.name, inner.name.empty() ? "" : "+", homeOf(operand));
    }
  }
  const int64_t registers = int64_t{target.registers().vector_bits()} / 8 * target.registers().vector_count();
  for (const std::string& memory : inner.memories) {
    int64_t capacity = memory == kRegisters && registers > 0 ? registers : -1;
    for (const v1::MemoryLevel& level : target.memory()) {
      if (level.name() == memory && level.capacity_bytes() > 0) capacity = level.capacity_bytes();
    }
    inner.capacities.push_back(capacity);
  }
  std::vector<Stage> stages = {inner};
  for (const v1::MemoryLevel& level : target.memory()) {
    const bool last = &level == &target.memory(target.memory_size() - 1);
    if (!last && (homes.contains(level.name()) || level.beside_inner())) continue;
    stages.back().in_bandwidth = level.bandwidth_bytes_per_cycle();
    stages.back().out_bandwidth = outBandwidth(level);
    Stage stage;
    stage.name = level.name();
    stage.memories = {level.name()};
    stage.capacities = {level.capacity_bytes() > 0 && !last ? level.capacity_bytes() : -1};
    stages.push_back(std::move(stage));
  }
  return stages;
}

std::vector<int64_t> dimensionsOf(const Nest& software, const PhysicalMapping& mapping) {
  std::vector<int64_t> extents;
  for (const Group& group : mapping.groups) extents.push_back(group.steps);
  for (int loop : mapping.outer) extents.push_back(software.loops[loop].extent);
  return extents;
}

absl::StatusOr<Price> priceOf(const Nest& software, const v1::Intrinsic& intrinsic, const Matching&,
                              const PhysicalMapping& mapping, const v1::Target& target, const Tiling& tiling) {
  const std::vector<Stage> stages = stagesOf(intrinsic, target);
  if (tiling.size() != stages.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tiling has ", tiling.size(), " levels, ", target.name(), " has ", stages.size()));
  }
  Price price;
  for (size_t l = 0; l < stages.size(); ++l) {
    PricedLevel level;
    level.name = stages[l].name;
    double kept = 1, summed = 1;
    for (size_t d = 0; d < tiling[l].size(); ++d) {
      const int64_t inside = l == 0 ? 1 : tiling[l - 1][d];
      const auto trips = static_cast<double>((tiling[l][d] + inside - 1) / inside);
      (isSum(software, intrinsic, mapping, d) ? summed : kept) *= trips;
    }
    if (l > 0) price.levels[l - 1].out_cycles /= summed;
    if (l + 1 == stages.size()) {
      const auto units = static_cast<double>(unitsOf(intrinsic, target));
      kept = static_cast<double>((static_cast<int64_t>(kept) + static_cast<int64_t>(units) - 1) /
                                 static_cast<int64_t>(units));
    }
    level.loops = kept * summed;
    if (l == 0) {
      const double interval =
          intrinsic.cycles_per_issue() > 0 ? intrinsic.cycles_per_issue() : intrinsic.latency_cycles();
      const double time = std::max(interval, intrinsic.latency_cycles() / kept);
      level.cycles = level.loops * std::max(time, 1e-3);
    } else {
      const PricedLevel& inside = price.levels[l - 1];
      level.cycles = level.loops * std::max({inside.cycles, inside.in_cycles, inside.out_cycles});
    }
    std::map<std::string, double> used;
    for (size_t operand = 0; operand < mapping.operands.size(); ++operand) {
      const double bytes = bytesOf(mapping.operands[operand], mapping, tiling[l]);
      (operand == 0 ? level.out_bytes : level.in_bytes) += bytes;
      const size_t memory = l == 0 ? operand : 0;
      used[stages[l].memories[memory]] += bytes;
      if (stages[l].capacities[memory] < 0) continue;
      if (used[stages[l].memories[memory]] > static_cast<double>(stages[l].capacities[memory])) {
        return absl::FailedPreconditionError(absl::StrCat(stages[l].memories[memory], " is too small"));
      }
    }
    if (l + 1 < stages.size()) {
      level.in_cycles = level.in_bytes / stages[l].in_bandwidth;
      level.out_cycles = level.out_bytes / stages[l].out_bandwidth;
    }
    price.levels.push_back(std::move(level));
  }
  price.cycles = price.levels.back().cycles;
  return price;
}

}  // namespace tessera::compiler::intrinsic
