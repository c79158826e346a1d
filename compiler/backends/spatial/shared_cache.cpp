#include "compiler/backends/spatial/shared_cache.h"

#include <algorithm>

#include "compiler/target/hierarchy.h"
#include "compiler/target/instruction_sets.h"

namespace tessera::compiler::simulator {
namespace {

/// Whether units compute on the level, or statements of an instruction name it: its content is the program's.
bool isNamed(const std::string& level, const v1::Target& target) {
  if (std::ranges::find(target.units(), level, &v1::ComputeUnit::memory) != target.units().end()) return true;
  return std::ranges::any_of(instructionsOf(target), [&](const v1::Intrinsic& intrinsic) {
    return std::ranges::any_of(intrinsic.operands(), [&](const auto& operand) { return operand.memory() == level; }) ||
           std::ranges::any_of(intrinsic.transfers(), [&](const auto& transfer) {
             return transfer.from() == level || transfer.to() == level;
           });
  });
}

}  // namespace

SharedCache::SharedCache(const v1::Target& target) {
  const Hierarchy chip(target);
  if (chip.levels().size() < 3) return;
  const Hierarchy::Level& level = chip.levels()[chip.levels().size() - 2];
  if (level.instances != 1 || level.unit >= 0 || level.capacity_bytes <= 0 || isNamed(level.name, target)) return;
  level_ = level.name;
  capacity_ = level.capacity_bytes;
}

void SharedCache::drop(int64_t tensor) {
  const auto found = places_.find(tensor);
  if (found == places_.end()) return;
  used_ -= found->second->bytes;
  order_.erase(found->second);
  places_.erase(found);
}

WarmTensors SharedCache::use(std::span<const Use> uses) {
  WarmTensors warm{.level = level_, .tensors = std::vector<bool>(uses.size(), false)};
  if (level_.empty()) return warm;
  std::map<int64_t, int64_t> distinct;
  for (const Use& each : uses) distinct[each.tensor] = each.bytes;
  int64_t all = 0;
  for (const auto& [tensor, bytes] : distinct) all = std::min(capacity_ + 1, all + std::min(bytes, capacity_ + 1));
  if (all > capacity_) {
    order_.clear();
    places_.clear();
    used_ = 0;
    return warm;
  }
  for (size_t i = 0; i < uses.size(); ++i) warm.tensors[i] = places_.contains(uses[i].tensor);
  for (const auto& [tensor, bytes] : distinct) {
    drop(tensor);
    order_.push_front({tensor, bytes});
    places_[tensor] = order_.begin();
    used_ += bytes;
  }
  while (used_ > capacity_) drop(order_.back().tensor);
  return warm;
}

}  // namespace tessera::compiler::simulator
