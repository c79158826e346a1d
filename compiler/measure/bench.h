#pragma once

#include <sched.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/measure/kernels.h"
#include "compiler/runtime/worker_team.h"
#include "compiler/target/host.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// One thing that is timed, again and again.
struct Series {
  enum class Where {
    kOneCore,   ///< by the thread's own clock, on one core
    kEachCore,  ///< the same on all cores at once; the mean
    kTeam,      ///< by the wall's clock, on all that the work itself uses
  };
  std::string what;
  std::function<void(int thread, int64_t times)> work;
  double units = 1;  ///< of one time: what the cycles are counted for
  Where where = Where::kOneCore;
  bool in_nanoseconds = false;  ///< not cycles: what cycles are found by

  int64_t times = 1;                ///< of one sample, found by the first
  std::vector<double> cycles = {};  ///< of a unit, by sample
  double ran_seconds = 0, passed_seconds = 0;

  /// Share of the time in which the threads did not run.
  double away() const { return passed_seconds > 0 ? std::max(0.0, 1 - ran_seconds / passed_seconds) : 0; }
};

/// Cores to measure on, and memory.
class Bench {
 public:
  /// As measureHost() fails: INCOMPATIBLE_HOST, RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<Bench>> of(const v1::Target& target, const HostPaths& paths);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  const Kernels& kernels() const { return *kernels_; }
  /// That this program may use; hardware threads of one core are one.
  int cores() const { return static_cast<int>(cpus_.size()); }
  WorkerTeam& team() { return team_; }

  static constexpr int64_t kNearBytes = 64 * 1024;
  /// A thread's own few pages.
  float* near(int thread) const { return near_ + thread * kNearBytes / int64_t{sizeof(float)}; }
  /// A thread's part of memory that no cache holds: all of it where it is alone.
  float* far(int thread, int threads) const;
  int64_t farBytes(int threads) const { return far_bytes_ / threads / kNearBytes * kNearBytes; }

  /// Adds one sample; the first one finds out how many times make one, and adds none. An error of the system.
  absl::Status sample(Series& series, bool first);

 private:
  struct Elapsed {
    double ran = 0, passed = 0;  // seconds
  };
  Bench(const Kernels& kernels, std::vector<int> cpus, const cpu_set_t& allowed, int64_t far_bytes);
  Elapsed alone(const Series& series, int thread, int64_t times) const;
  Elapsed once(const Series& series);
  /// Seconds of a cycle at this moment, under vector load.
  double cycleSeconds() const;

  const Kernels* kernels_;
  std::vector<int> cpus_;
  cpu_set_t allowed_;
  int64_t far_bytes_;
  float* near_ = nullptr;
  float* far_ = nullptr;
  WorkerTeam team_;
};

}  // namespace tessera::compiler
