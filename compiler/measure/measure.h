#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/measure/statistics.h"
#include "compiler/target/host.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// The measurement of one field of a description.
struct Figure {
  /// Threshold from which a figure is reported as noisy: for the deviation relative to the median, and for the share of
  /// time in which other work ran.
  static constexpr double kNoisyShare = 0.05;

  std::string field = {};  ///< "memory[0].bandwidth_bytes_per_cycle"
  std::string unit = {};   ///< "bytes a cycle"
  std::string how = {};    ///< method: "16 KiB are read again and again"
  /// number of busy cores; figures with more than one are per core while all are busy, and are not part of the
  /// description
  int cores = 1;
  Spread value = {};
  int repetitions = 0;
  double away = 0;  ///< share of the time in which the measured threads did not run

  bool isWritten() const { return cores == 1; }
  bool isNoisy() const { return value.share() > kNoisyShare || away > kNoisyShare; }
};

struct Measured {
  v1::Target target = {};              ///< the host's description with the figures filled in; valid
  std::vector<Figure> figures = {};    ///< the frequency first
  std::vector<std::string> left = {};  ///< figures that were measured but left out of the description, with reasons
};

struct MeasureOptions {
  std::string name = {};  ///< of the target; empty: the chip's name with "-measured"
  int repetitions = 31;   ///< of each figure, interleaved with the others; at least 3
  /// No further round begins after this time, provided that three are complete; if even three rounds take twice as
  /// long, that is an error.
  double seconds = 120;
  HostPaths paths = {};
  /// Called before each sample, unless null.
  std::function<void(int done, int total, const std::string& what)> progress = {};
};

/// Measures this host's figures, each as the median of interleaved repetitions, so that temporary load disturbs all
/// figures slightly rather than one strongly. Cycles are counted by a chain of additions that runs along with vector
/// work; on one core, time is the thread's CPU time. Takes seconds to a minute, all cores, and memory of four times the
/// last cache. Fails with INCOMPATIBLE_HOST if detectHostTarget() does or this program has no loops for the host's
/// vectors, with RESOURCE_EXHAUSTED if memory is short, with DEADLINE_EXCEEDED if the machine is too busy, and with
/// INVALID_ARGUMENT for an invalid target name.
absl::StatusOr<Measured> measureHost(const MeasureOptions& options);

}  // namespace tessera::compiler
