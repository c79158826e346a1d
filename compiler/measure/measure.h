#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/measure/statistics.h"
#include "compiler/target/host.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// What was measured of one field of a description.
struct Figure {
  /// From here on a figure is told to be noisy: the deviation as part of the median, and time that the system gave to
  /// others as part of all.
  static constexpr double kNoisyShare = 0.05;

  std::string field = {};  ///< "memory[0].bandwidth_bytes_per_cycle"
  std::string unit = {};   ///< "bytes a cycle"
  std::string how = {};    ///< "16 KiB are read again and again"
  int cores = 1;           ///< at work; more than one is of each while all are, and has no place in a description
  Spread value = {};
  int repetitions = 0;
  double away = 0;  ///< share of the time in which what was measured did not run

  bool isWritten() const { return cores == 1; }
  bool isNoisy() const { return value.share() > kNoisyShare || away > kNoisyShare; }
};

struct Measured {
  v1::Target target = {};              ///< the host's description with the figures in their fields; valid
  std::vector<Figure> figures = {};    ///< the frequency first
  std::vector<std::string> left = {};  ///< what was tried and is not in the description, and why
};

struct MeasureOptions {
  std::string name = {};  ///< of the target; empty: that of the chip, and "-measured"
  int repetitions = 31;   ///< of each figure, in turns with the others; at least 3
  /// After so long no further round begins, if there were three; where even three take twice as long, that is an error.
  double seconds = 120;
  HostPaths paths = {};
  /// Told before each sample; unless null.
  std::function<void(int done, int total, const std::string& what)> progress = {};
};

/// This host's figures, each the median of repetitions in turns, so that what else runs for a while disturbs all a
/// little and none much. Cycles are counted by a chain of additions beside vector work, time by the thread's own clock
/// where one core is measured. Takes seconds to a minute, all cores, and memory of four times the last cache. Fails
/// with INCOMPATIBLE_HOST where detectHostTarget() does or this program has no loops for the host's vectors, with
/// RESOURCE_EXHAUSTED where memory is short, with DEADLINE_EXCEEDED on a machine that has no time for it, and with
/// INVALID_ARGUMENT for a name that no target may have.
absl::StatusOr<Measured> measureHost(const MeasureOptions& options);

}  // namespace tessera::compiler
