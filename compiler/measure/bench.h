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

/// A measured operation, timed repeatedly.
struct Series {
  enum class Where {
    kOneCore,   ///< by the thread's CPU clock, on one core
    kEachCore,  ///< the same on all cores at once; the mean
    kTeam,      ///< by wall-clock time, on the thread team that the work itself uses
  };
  std::string what;
  std::function<void(int thread, int64_t times)> work;
  double units = 1;  ///< units of work of one execution: cycles are reported per unit
  Where where = Where::kOneCore;
  bool in_nanoseconds = false;  ///< nanoseconds instead of cycles: for the measurement that defines the cycle

  int64_t times = 1;                ///< executions per sample, determined by the first one
  std::vector<double> cycles = {};  ///< per unit, for each sample
  double ran_seconds = 0, passed_seconds = 0;

  /// Share of the time in which the threads were not running.
  double away() const { return passed_seconds > 0 ? std::max(0.0, 1 - ran_seconds / passed_seconds) : 0; }
};

/// Cores and memory to measure with.
class Bench {
 public:
  /// Errors: as measureHost(): INCOMPATIBLE_HOST, RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<Bench>> of(const v1::Target& target, const HostPaths& paths);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  const Kernels& kernels() const { return *kernels_; }
  /// Cores that this program may use; hardware threads of one core count once.
  int cores() const { return static_cast<int>(cpus_.size()); }
  WorkerTeam& team() { return team_; }

  static constexpr int64_t kNearBytes = 64 * 1024;
  /// A few pages private to a thread.
  float* near(int thread) const { return near_ + thread * kNearBytes / int64_t{sizeof(float)}; }
  /// A thread's part of a memory area larger than all caches: all of it if the thread runs alone.
  float* far(int thread, int threads) const;
  int64_t farBytes(int threads) const { return far_bytes_ / threads / kNearBytes * kNearBytes; }

  /// Takes one sample. The first call determines the number of executions per sample and records nothing. Fails with
  /// errors of the operating system.
  absl::Status sample(Series& series, bool first);

 private:
  struct Elapsed {
    double ran = 0, passed = 0;  // seconds
  };
  Bench(const Kernels& kernels, std::vector<int> cpus, const cpu_set_t& allowed, int64_t far_bytes);
  Elapsed alone(const Series& series, int thread, int64_t times) const;
  Elapsed once(const Series& series);
  /// Current duration of a cycle in seconds, under vector load.
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
