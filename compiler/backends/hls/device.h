#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/backends/spatial/spatial_nest.h"
#include "tessera/v1/target.pb.h"

/// An FPGA as designs use it.
namespace tessera::compiler::hls {

/// Amounts of each kind of resource. `bram` counts 18-Kbit halves of block RAMs.
struct Resources {
  int64_t dsp = 0, bram = 0, uram = 0, lut = 0, ff = 0;

  Resources& operator+=(const Resources& other);
  Resources operator*(int64_t count) const;
  /// The share of `this`, rounded down.
  Resources scaled(double share) const;
  /// "DSP", "BRAM", "URAM", "LUT" or "FF": the first resource that exceeds `limit`; empty: none does.
  std::string exceeding(const Resources& limit) const;
  bool operator==(const Resources&) const = default;
};
Resources operator+(Resources left, const Resources& right);

/// "DSP 12, BRAM 3, URAM 0, LUT 400, FF 500".
std::string print(const Resources& resources);

struct OperatorCost {
  Resources resources;
  int64_t latency = 0;  ///< cycles
};

/// Figures of a target of family HLS. The target outlives it.
class Device {
 public:
  /// INVALID_ARGUMENT unless the target describes programmable logic. `target` must pass validateTarget.
  static absl::StatusOr<Device> of(const v1::Target& target);

  const std::string& name() const { return target_->name(); }
  /// The resources of designs: the device without its shell, LUTs and flip-flops up to the routable share.
  const Resources& limits() const { return limits_; }
  Resources port() const;     ///< of one memory port
  Resources process() const;  ///< of one process
  int64_t portBytes() const { return target_->logic().port_bits() / 8; }
  int64_t banks() const;
  double bankBytesPerCycle() const;  ///< of one bank
  double memoryLatency() const;      ///< cycles until the first data of a transfer
  double processCycles() const { return target_->logic().process_cycles(); }
  double burstCycles() const { return target_->logic().burst_cycles(); }
  double gigahertz() const { return target_->units(0).frequency_ghz(); }
  const std::string& externalLevel() const;  ///< name of the external memory
  const std::string& onChipLevel() const { return target_->memory(0).name(); }

  /// Cost of one instance of an operation of a nest's body. A product of extended bytes or 16-bit integers costs a
  /// product of the narrow type; with a sum that is its only reader it is one fused operator, and the sum is free.
  /// FAILED_PRECONDITION naming the operation and its type: the description has no cost for it.
  absl::StatusOr<OperatorCost> costOf(const simulator::SpatialNest& nest, int operation) const;

 private:
  const v1::ProgrammableLogic::Operator* find(const std::string& name, v1::DataType type) const;

  const v1::Target* target_ = nullptr;
  Resources limits_;
};

}  // namespace tessera::compiler::hls
