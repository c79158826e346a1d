#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/hls/device.h"
#include "compiler/backends/hls/form.h"

/// The hardware of one nest: read, compute and write processes that run concurrently over double buffers (thesis,
/// figure 4.4c), and what it costs.
namespace tessera::compiler::hls {

/// The decisions about a nest; everything else of a design follows from them and the device.
struct Tiling {
  std::vector<int64_t> tile;    ///< iterations of each loop per step of the processes
  std::vector<int64_t> unroll;  ///< iterations of each loop at the same time, on processing elements of their own
  bool operator==(const Tiling&) const = default;
};

enum class Storage : uint8_t { kRegisters, kLutRam, kBram, kUram };
const char* storageName(Storage storage);  ///< "registers", "lutram", "bram", "uram"

/// On-chip memory for one tile of an access.
struct Buffer {
  size_t access = 0;
  bool written = false;  ///< filled by the compute process and emptied by a write process; otherwise the other way
  Box box = {};
  std::vector<int64_t> shape = {};      ///< elements per dimension of the box
  std::vector<int64_t> partition = {};  ///< factor of the cyclic partition of each dimension
  Storage storage = Storage::kBram;
  int64_t copies = 2;  ///< two: a double buffer
  int64_t element_bits = 32;
  int64_t beat = 1;        ///< elements per transfer cycle
  double beat_cycles = 1;  ///< at least 1; more where the memory bank is slower than the port
  int bank = 0;            ///< bank of the external memory

  int64_t memories() const;  ///< number of separately addressed memories in one copy
  int64_t depth() const;     ///< elements of each
  /// Of all copies, in this storage.
  Resources resources(Storage in) const;
};

struct Design {
  const Form* form = nullptr;
  Tiling tiling = {};
  std::vector<Buffer> buffers = {};  ///< inputs, then outputs; none if the nest accesses external memory directly
  std::vector<Buffer> sums = {};  ///< per output: partial sums between steps of reductions; empty: the output's buffer
  int64_t interval = 1;           ///< cycles between iterations of the compute pipeline
  int64_t depth = 1;              ///< cycles of one iteration
  int64_t distance = 0;           ///< iterations between two sums into one element; 0: no reduction
  Resources resources = {};
  double cycles = 0;  ///< predicted by equation 4.6

  bool isDirect() const { return buffers.empty(); }
  int64_t processingElements() const;
};

/// The design of a nest. FAILED_PRECONDITION naming the operation that the device's description has no cost for, or the
/// resource that is exceeded and by how much; INVALID_ARGUMENT naming the loop whose tile or unroll factor is wrong.
absl::StatusOr<Design> designOf(const Form& form, const Tiling& tiling, const Device& device, const Resources& limits);

/// Resources of one processing element: all operations of the body. Errors as designOf().
absl::StatusOr<Resources> elementOf(const Form& form, const Device& device);

/// Extents of one step's tile, and its position among the steps of each loop.
struct Step {
  std::vector<int64_t> extents = {};
  bool first_sum = true, last_sum = true;  ///< whether it is the first or the last step of the reductions
};

/// Durations of the processes in one step, in cycles: reads in the order of the buffers, compute, writes. A process
/// without work in the step takes 0.
struct StepCycles {
  std::vector<double> reads = {}, writes = {};
  double compute = 0;
  double bytes = 0;  ///< moved by all transfers
};
StepCycles cyclesOf(const Design& design, const Step& step, const Device& device);

/// Equation 4.6 for tiles that need not be equal: while a step is computed, the next one is read and the previous one
/// written, and the slowest process ends the round. The first read and the last write are not hidden.
double predictedCycles(const Design& design, const Device& device);

/// Bytes that all transfers of all steps move.
double movedBytes(const Design& design, const Device& device);

/// Number of steps.
double stepsOf(const Design& design);

}  // namespace tessera::compiler::hls
