#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/runtime/module_abi.h"

namespace tessera::compiler {

/// Access to the values that loops read and write, at the addresses given to LoopControl::setAddress(). A session whose
/// buffers are on a device passes one that reads and writes the device's memory.
class LoopMemory {
 public:
  LoopMemory() = default;
  LoopMemory(const LoopMemory&) = delete;
  LoopMemory& operator=(const LoopMemory&) = delete;

  virtual int64_t number(const uint8_t* address) = 0;  ///< a trip count
  virtual bool condition(const uint8_t* address) = 0;  ///< one byte
  virtual void store(uint8_t* address, int64_t value) = 0;
  /// The two parts do not overlap.
  virtual void copy(uint8_t* to, const uint8_t* from, size_t bytes) = 0;

 protected:
  ~LoopMemory() = default;
};

/// The memory of this process.
LoopMemory& hostLoopMemory();

/// For a run of a variant with loops: determines the next call, and the addresses of LOOP buffers in each iteration. A
/// call is one phase of a step; calls are numbered in the order of the steps. module_abi.h defines loops. Not
/// thread-safe: one run at a time. Does not allocate during a run.
class LoopControl {
 public:
  /// `memory` must outlive the object.
  explicit LoopControl(const tessera_module_variant& variant, LoopMemory& memory = hostLoopMemory());

  bool empty() const { return loops_.empty(); }

  /// Sets the address, in this run, of a buffer of a kind other than LOOP.
  void setAddress(size_t buffer, void* address) { addresses_[buffer] = static_cast<uint8_t*>(address); }

  /// Returns the first call of a run, or the number of calls if there is none. `operands`: those of all steps, one
  /// after another; the entries of LOOP buffers are set here before each iteration.
  size_t begin(std::span<void*> operands);
  /// The call after `call`, which has ended.
  size_t next(size_t call) { return advance(call + 1); }

 private:
  /// A LOOP buffer, and its positions in the list of operands.
  struct Part {
    size_t buffer = 0;
    std::vector<size_t> operands;
  };
  struct Loop {
    const tessera_module_loop* table = nullptr;
    size_t first_call = 0, last_call = 0;
    std::vector<Part> before, after, scans;
    // State of the run in progress.
    int64_t trips = 0, ended = 0;
  };

  size_t advance(size_t at);
  bool enter(Loop& loop);
  bool again(Loop& loop);
  void leave(Loop& loop);
  void bindIteration(Loop& loop);
  void move(const Part& part, uint8_t* address);
  /// The buffer to which iteration `i` of a loop writes a carried value: alternating, such that the last of all trips
  /// writes `result`.
  static int32_t written(const Loop& loop, const tessera_module_carried& carried, int64_t i) {
    return (loop.trips - 1 - i) % 2 == 0 ? carried.result : carried.spare;
  }
  size_t bytes(int32_t buffer) const { return static_cast<size_t>(variant_->buffers[buffer].size_bytes); }

  const tessera_module_variant* variant_;
  LoopMemory* memory_;
  std::vector<Loop> loops_;          // as in the variant
  std::vector<int32_t> first_at_;    // per call: the outermost loop that begins there; -1: none
  std::vector<uint8_t*> addresses_;  // per buffer
  std::vector<size_t> active_;       // loops in progress, innermost last
  std::span<void*> operands_;
};

}  // namespace tessera::compiler
