#pragma once

#include <optional>
#include <vector>

#include "compiler/verification/plan_memory.h"

namespace tessera::compiler::verification {

/// The memory of each buffer of a plan. LOOP buffers have memory only during an iteration of their loop.
class BufferPlaces {
 public:
  explicit BufferPlaces(const v1::Plan& plan) : plan_(plan), bound_(plan.buffers_size()) {}

  absl::StatusOr<Place> of(int buffer) const;
  /// Fails with INTERNAL if the buffer is not a LOOP buffer of loop `loop`.
  absl::Status bind(int loop, int buffer, const Place& place);
  void release(int buffer) {
    if (exists(buffer)) bound_[static_cast<size_t>(buffer)].reset();
  }

 private:
  bool exists(int buffer) const { return buffer >= 0 && buffer < plan_.buffers_size(); }

  const v1::Plan& plan_;
  std::vector<std::optional<Place>> bound_;
};

/// Fails with INTERNAL if loops are out of order, overlap partially or leave the plan's steps.
absl::Status checkLoops(const v1::Plan& plan);

/// The iterations of one loop of a plan since its entry: how many run, and the memory of its buffers in each.
class LoopState {
 public:
  /// `loop`: position in Plan.loops.
  LoopState(const v1::Plan& plan, int loop, BufferPlaces& places, PlanMemory& memory)
      : loop_(plan.loops(loop)), number_(loop), places_(places), memory_(memory) {}

  /// Reads trip count and condition. Fails with FAILED_PRECONDITION if they depend on rounding.
  absl::Status enter();
  /// Whether another iteration runs.
  bool goesOn() const { return condition_ && ended_ < trips_; }
  absl::Status beginIteration();
  absl::Status endIteration();
  /// Moves the carried values to where readers after the loop expect them.
  absl::Status leave();

 private:
  absl::StatusOr<int64_t> readInteger(int buffer, unsigned bits) const;
  absl::Status writeInteger(int buffer, int64_t value);
  /// The buffer that holds a carried value after `iterations` iterations.
  int holderAfter(const v1::StepLoop::Carried& carried, int64_t iterations) const;
  absl::Status bindPart(const v1::StepLoop::Scan& scan);

  const v1::StepLoop& loop_;
  const int number_;
  BufferPlaces& places_;
  PlanMemory& memory_;
  int64_t trips_ = 0, ended_ = 0;
  bool condition_ = true;
};

}  // namespace tessera::compiler::verification
