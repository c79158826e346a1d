#include "compiler/target/chip.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "compiler/target/builtin_texts.h"
#include "compiler/target/element_text.h"
#include "compiler/target/hierarchy.h"
#include "compiler/target/instruction_sets.h"

namespace tessera::compiler {
namespace {

/// The file of a family, or null.
const v1::Target* defaultsOf(v1::Target::Family family) {
  static const std::vector<v1::Target> families = [] {
    std::vector<v1::Target> parsed;
    for (std::string_view text : builtinFamilyTexts())
      // A broken file aborts the process: chip_test parses all of them.
      if (!google::protobuf::TextFormat::ParseFromString(std::string(text), &parsed.emplace_back())) std::abort();
    return parsed;
  }();
  const auto found = std::ranges::find(families, family, &v1::Target::family);
  return found == families.end() ? nullptr : &*found;
}

/// Replaces fields of `message` that are zero and have no presence by those of `defaults`.
template <typename Message>
void complete(Message& message, const Message& defaults) {
  Message whole = defaults;
  whole.MergeFrom(message);
  message = std::move(whole);
}

/// Figures that a unit leaves to the units inside of it. The lanes are those of the widest one.
void completeContainers(v1::Target& target) {
  const Hierarchy hierarchy(target);
  const v1::Target described = target;
  for (int u = 0; u < target.units_size(); ++u) {
    if (!hierarchy.containsUnits(u)) continue;
    v1::ComputeUnit& unit = *target.mutable_units(u);
    if (unit.ops_per_cycle() <= 0)
      unit.set_ops_per_cycle(hierarchy.units()[static_cast<size_t>(u)].operations_per_cycle);
    if (unit.lanes() > 0) continue;
    for (int other = 0; other < target.units_size(); ++other) {
      if (hierarchy.isInside(other, u)) unit.set_lanes(std::max(unit.lanes(), described.units(other).lanes()));
    }
  }
}

void completeMemory(v1::Target& target, const v1::Target& defaults) {
  if (target.memory().empty()) *target.mutable_memory() = defaults.memory();
  const Hierarchy hierarchy(target);
  for (int i = 0; i < target.memory_size(); ++i) {
    v1::MemoryLevel& level = *target.mutable_memory(i);
    const v1::MemoryLevel& like = defaults.memory(std::min(i, defaults.memory_size() - 1));
    if (level.bandwidth_bytes_per_cycle() <= 0) level.set_bandwidth_bytes_per_cycle(like.bandwidth_bytes_per_cycle());
    if (level.line_bytes() == 0) level.set_line_bytes(like.line_bytes());
    if (level.associativity() == 0) level.set_associativity(like.associativity());
    if (level.shared_by() == 0) {
      const int64_t sharers = hierarchy.units()[0].instances / hierarchy.levels()[static_cast<size_t>(i)].instances;
      level.set_shared_by(level.unit().empty() ? 1 : static_cast<int32_t>(std::max<int64_t>(1, sharers)));
    }
    if (level.sustained_bytes_per_cycle() <= 0) {
      const double most = level.bandwidth_bytes_per_cycle(), usual = like.sustained_bytes_per_cycle();
      level.set_sustained_bytes_per_cycle(usual > 0 ? std::min(usual, most) : most);
    }
  }
}

/// Latency in cycles of the widest fused multiply-add of f32 among these; 0 without one.
double latencyIn(const v1::Target& target) {
  double latency = 0;
  int64_t widest = 0;
  for (const v1::Intrinsic& each : target.intrinsics()) {
    if (!isMultiplyAdd(each) || each.latency_cycles() <= 0 || each.iterations(0).extent() <= widest) continue;
    widest = each.iterations(0).extent();
    latency = each.latency_cycles();
  }
  return latency;
}

/// The largest reduction extent of an instruction that multiplies matrices: one with two or more parallel loops and at
/// least one reduction loop. Floating-point instructions come before integer ones, which sum more and shorter elements.
int64_t matrixChannelsOf(const v1::Target& target) {
  if (target.family() != v1::Target::SPATIAL && target.family() != v1::Target::NVPTX) return 0;
  std::pair<bool, int64_t> most = {false, 0};
  for (const v1::Intrinsic& intrinsic : instructionsOf(target)) {
    int parallel = 0;
    int64_t summed = 1;
    for (const v1::Intrinsic::IterDim& loop : intrinsic.iterations()) {
      parallel += !loop.reduction() && loop.extent() > 1;
      if (loop.reduction()) summed *= loop.extent();
    }
    const bool real = intrinsic.operands_size() > 1 && isFloatingPoint(intrinsic.operands(1).dtype());
    if (parallel >= 2 && summed > 1) most = std::max(most, {real, summed});
  }
  return most.second;
}

}  // namespace

v1::CostParameters completedCostParameters(const v1::Target& target) {
  v1::CostParameters parameters = defaultsOf(v1::Target::X86_64)->cost_parameters();
  if (const v1::Target* own = defaultsOf(target.family()); own && own->family() != v1::Target::X86_64)
    parameters.MergeFrom(own->cost_parameters());
  parameters.MergeFrom(target.cost_parameters());
  return parameters;
}

v1::Target completedTarget(v1::Target target) {
  const v1::Target& base = *defaultsOf(v1::Target::X86_64);
  const v1::Target* own = target.family() == v1::Target::FAMILY_UNSPECIFIED ? &base : defaultsOf(target.family());
  if (own) complete(*target.mutable_registers(), own->registers());
  if (target.units().empty()) target.add_units();
  completeContainers(target);
  for (v1::ComputeUnit& unit : *target.mutable_units()) {
    if (own && own != &base && own->units_size() > 0) complete(unit, own->units(0));
    complete(unit, base.units(0));
    const int lanes = std::max({1, unit.lanes(), target.registers().vector_bits() / 32});
    if (unit.lanes() == 0) unit.set_lanes(lanes);
    if (unit.ops_per_cycle() <= 0) unit.set_ops_per_cycle(4.0 * lanes);  // two multiply-adds
  }
  completeMemory(target, base);
  *target.mutable_cost_parameters() = completedCostParameters(target);
  return target;
}

int64_t Chip::Level::sets() const { return std::max<int64_t>(1, capacity_bytes / (line_bytes * ways)); }

Chip::Chip(const v1::Target& target) : Chip(target, usableInstructions(target)) {}

Chip::Chip(const v1::Target& target, const google::protobuf::RepeatedPtrField<v1::Intrinsic>& instructions)
    : target_(completedTarget(target)),
      dot_products_(compiler::dotProducts(instructions)),
      pair_products_(compiler::pairProducts(instructions)),
      tile_products_(compiler::tileProducts(instructions)),
      matrix_channels_(matrixChannelsOf(target)),
      multiply_add_latency_(latencyIn(target)) {
  if (multiply_add_latency_ == 0) multiply_add_latency_ = latencyIn(*defaultsOf(v1::Target::X86_64));
  const Hierarchy hierarchy(target_);
  cores_ = static_cast<int>(hierarchy.units()[0].instances);
  for (int l = 0; l < target_.memory_size(); ++l) {
    const v1::MemoryLevel& level = target_.memory(l);
    const Hierarchy::Level& part = hierarchy.levels()[static_cast<size_t>(l)];
    // Instances from which a core reads, or the part of one: levels of units state figures of an instance.
    const double instances = part.unit < 0 ? 1 : static_cast<double>(part.instances) / static_cast<double>(cores());
    levels_.push_back({.name = level.name(),
                       .capacity_bytes = level.capacity_bytes(),
                       .line_bytes = level.line_bytes(),
                       .ways = level.associativity(),
                       .sharers = level.shared_by(),
                       .bytes_per_cycle = level.bandwidth_bytes_per_cycle() * instances,
                       .sustained_per_cycle = level.sustained_bytes_per_cycle() * instances});
  }
}

bool Chip::multipliesPairs() const {
  return !pair_products_.empty() && std::none_of(dot_products_.begin(), dot_products_.end(),
                                                 [](const DotProduct& each) { return each.bits == 8; });
}

int64_t Chip::lanes() const { return std::max(1, vectorBits() / 32); }

double Chip::multiplyAddsPerCycle() const {
  const v1::ComputeUnit& unit = target_.units(0);
  return unit.ops_per_cycle() / (2.0 * unit.lanes());
}

bool Chip::fusesMultiplyAdd() const {
  const auto& features = target_.code().features();
  return target_.family() == v1::Target::AARCH64 || std::ranges::find(features, "fma") != features.end();
}

const Chip::Level& Chip::second() const {
  return levels_.size() > 1 && levels_[1].capacity_bytes > 0 ? levels_[1] : levels_[0];
}

std::optional<size_t> Chip::ownLevel() const {
  std::optional<size_t> own;
  for (size_t i = 0; i + 1 < levels_.size() && !levels_[i].isShared(); ++i) own = i;
  return own;
}

const Chip::Level& Chip::levelHolding(double bytes) const {
  for (const Level& level : levels_)
    if (level.capacity_bytes == 0 || bytes <= static_cast<double>(level.capacity_bytes)) return level;
  return levels_.back();
}

double Chip::share(const Level& level, int threads) const {
  const auto whole = static_cast<double>(level.capacity_bytes);
  const int using_it = std::min(level.sharers, threads);
  return using_it <= 1 ? whole : whole * std::max(costParameters().memory().min_core_share(), 1.0 / using_it);
}

int64_t Chip::farBytes() const {
  const int64_t least = 2 * second().capacity_bytes;
  if (levels_.size() < 3) return least;
  return std::max(least, static_cast<int64_t>(share(levels_[2], levels_[2].sharers)));
}

}  // namespace tessera::compiler
