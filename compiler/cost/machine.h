#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/v1/target.pb.h"

namespace tessera::compiler::cost {

/// A chip as the analysis of dataflows sees it: memories with their instances and ports, and units.
struct Machine {
  struct Memory {
    std::string name;
    int64_t instances = 1;
    int64_t capacity_bytes = 0;                                  ///< of one instance; 0: unlimited
    double read_bytes_per_cycle = 0, write_bytes_per_cycle = 0;  ///< of one instance
    double energy_pj_per_byte = 0;                               ///< of a read
    std::optional<double> write_energy_pj_per_byte = {};         ///< without one, as of a read

    /// Of words that the level sends and receives.
    double energyOf(double sent_bytes, double received_bytes) const {
      return sent_bytes * energy_pj_per_byte + received_bytes * write_energy_pj_per_byte.value_or(energy_pj_per_byte);
    }
  };
  struct Unit {
    std::string name;
    int64_t count = 1;
    double operations_per_cycle = 1;  ///< of one unit
  };
  std::vector<Memory> memories;  ///< innermost first
  std::vector<Unit> units;       ///< the first one is the default
  double energy_pj_per_operation = 0;

  /// Cycles of a transfer. Rates from kUnlimited on take no time.
  static double cyclesFor(double bytes, double bytes_per_cycle) {
    return bytes_per_cycle >= kUnlimited ? 0 : bytes / bytes_per_cycle;
  }
  static constexpr double kUnlimited = 1e12;

  /// Positions, -1 if there is none of this name.
  int memoryNamed(std::string_view name) const;
  int unitNamed(std::string_view name) const;
};

/// The machine of a valid description. Its bandwidths are those of one core, so an instance that n cores share delivers
/// n times as much.
Machine machineOf(const v1::Target& target);

}  // namespace tessera::compiler::cost
