#include "compiler/runtime/loop_control.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace tessera::compiler {
namespace {

class HostLoopMemory final : public LoopMemory {
 public:
  int64_t number(const uint8_t* address) override {
    int64_t value = 0;
    std::memcpy(&value, address, sizeof(value));
    return value;
  }
  bool condition(const uint8_t* address) override { return *address != 0; }
  void store(uint8_t* address, int64_t value) override { std::memcpy(address, &value, sizeof(value)); }
  void copy(uint8_t* to, const uint8_t* from, size_t bytes) override { std::memcpy(to, from, bytes); }
};

}  // namespace

LoopMemory& hostLoopMemory() {
  static HostLoopMemory memory;
  return memory;
}

LoopControl::LoopControl(const tessera_module_variant& variant, LoopMemory& memory)
    : variant_(&variant), memory_(&memory) {
  if (variant.num_loops == 0) return;
  std::vector<size_t> first_calls = {0};
  // All operand slots of each buffer, so that moving a buffer updates exactly these pointers.
  std::vector<std::vector<size_t>> operands_of(static_cast<size_t>(variant.num_buffers));
  size_t operand = 0;
  for (int32_t s = 0; s < variant.num_steps; ++s) {
    const tessera_module_step& step = variant.steps[s];
    first_calls.push_back(first_calls.back() + static_cast<size_t>(step.num_phases));
    for (int32_t i = 0; i < step.num_operands; ++i)
      operands_of[static_cast<size_t>(step.operands[i])].push_back(operand++);
  }
  const auto part = [&](int32_t buffer) {
    const auto index = static_cast<size_t>(buffer);
    return Part{index, operands_of[index]};
  };
  addresses_.resize(static_cast<size_t>(variant.num_buffers));
  first_at_.assign(first_calls.back() + 1, -1);
  active_.reserve(static_cast<size_t>(variant.num_loops));
  for (int32_t l = 0; l < variant.num_loops; ++l) {
    const tessera_module_loop& table = variant.loops[l];
    Loop loop{.table = &table,
              .first_call = first_calls[static_cast<size_t>(table.first_step)],
              .last_call = first_calls[static_cast<size_t>(table.last_step)],
              .before = {},
              .after = {},
              .scans = {}};
    for (int32_t i = 0; i < table.num_carried; ++i) {
      loop.before.push_back(part(table.carried[i].before));
      loop.after.push_back(part(table.carried[i].after));
    }
    for (int32_t i = 0; i < table.num_scans; ++i) loop.scans.push_back(part(table.scans[i].part));
    if (first_at_[loop.first_call] < 0) first_at_[loop.first_call] = l;
    loops_.push_back(std::move(loop));
  }
}

size_t LoopControl::begin(std::span<void*> operands) {
  operands_ = operands;
  active_.clear();
  return advance(0);
}

/// Advances from a position between two calls: repeats or leaves loops that end there, and enters loops that begin
/// there.
size_t LoopControl::advance(size_t at) {
  while (true) {
    size_t next = loops_.size();  // the loop that may begin here
    if (!active_.empty() && loops_[active_.back()].last_call == at) {
      Loop& loop = loops_[active_.back()];
      if (!again(loop)) {
        leave(loop);
        active_.pop_back();
        continue;
      }
      at = loop.first_call;
      next = active_.back() + 1;
    } else if (first_at_[at] >= 0) {
      next = static_cast<size_t>(first_at_[at]);
      // Loops already in progress that begin here enclose the next one.
      if (!active_.empty() && loops_[active_.back()].first_call == at) next = active_.back() + 1;
    }
    // A loop nested in the active one that begins at the same call.
    while (next < loops_.size() && loops_[next].first_call == at && enter(loops_[next])) active_.push_back(next++);
    if (next >= loops_.size() || loops_[next].first_call != at) return at;
    at = loops_[next].last_call;  // the loop has no iterations
  }
}

bool LoopControl::enter(Loop& loop) {
  const tessera_module_loop& table = *loop.table;
  // The table's bound also limits trip counts that the model computes, since scanned buffers are sized by it.
  loop.trips = table.max_iterations > 0 ? table.max_iterations : std::numeric_limits<int64_t>::max();
  if (table.trip_count >= 0)
    loop.trips = std::clamp<int64_t>(memory_->number(addresses_[static_cast<size_t>(table.trip_count)]), 0, loop.trips);
  if (table.initial_condition >= 0 && !memory_->condition(addresses_[static_cast<size_t>(table.initial_condition)]))
    loop.trips = 0;
  loop.ended = 0;
  if (loop.trips == 0) {
    leave(loop);
    return false;
  }
  bindIteration(loop);
  return true;
}

bool LoopControl::again(Loop& loop) {
  ++loop.ended;
  const int32_t condition = loop.table->condition;
  if (loop.ended == loop.trips) return false;
  if (condition >= 0 && !memory_->condition(addresses_[static_cast<size_t>(condition)])) return false;
  bindIteration(loop);
  return true;
}

void LoopControl::leave(Loop& loop) {
  const tessera_module_loop& table = *loop.table;
  for (int32_t i = 0; i < table.num_carried; ++i) {
    const tessera_module_carried& carried = table.carried[i];
    // After zero iterations the result is the initial value.
    const int32_t last = loop.ended == 0 ? carried.initial : written(loop, carried, loop.ended - 1);
    uint8_t* const result = addresses_[static_cast<size_t>(carried.result)];
    const uint8_t* const from = addresses_[static_cast<size_t>(last)];
    if (from != result && bytes(carried.result) > 0) memory_->copy(result, from, bytes(carried.result));
  }
  if (table.executed >= 0) memory_->store(addresses_[static_cast<size_t>(table.executed)], loop.ended);
}

void LoopControl::bindIteration(Loop& loop) {
  const tessera_module_loop& table = *loop.table;
  const int64_t i = loop.ended;
  if (table.iteration >= 0) memory_->store(addresses_[static_cast<size_t>(table.iteration)], i);
  for (int32_t c = 0; c < table.num_carried; ++c) {
    const tessera_module_carried& carried = table.carried[c];
    // Carried values alternate between two buffers: iteration i reads the one that iteration i - 1 wrote.
    const int32_t before = i == 0 ? carried.initial : written(loop, carried, i - 1);
    move(loop.before[static_cast<size_t>(c)], addresses_[static_cast<size_t>(before)]);
    move(loop.after[static_cast<size_t>(c)], addresses_[static_cast<size_t>(written(loop, carried, i))]);
  }
  for (int32_t s = 0; s < table.num_scans; ++s) {
    const tessera_module_scan& scan = table.scans[s];
    // A reversed scan counts from the end of the whole buffer.
    const int64_t part = scan.reversed != 0 ? table.max_iterations - 1 - i : i;
    move(loop.scans[static_cast<size_t>(s)],
         addresses_[static_cast<size_t>(scan.whole)] + (static_cast<size_t>(part) * bytes(scan.part)));
  }
}

void LoopControl::move(const Part& part, uint8_t* address) {
  addresses_[part.buffer] = address;
  for (const size_t operand : part.operands) operands_[operand] = address;
}

}  // namespace tessera::compiler
