#include "compiler/measure/bench.h"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <system_error>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

constexpr double kSampleSeconds = 3e-3;
constexpr int64_t kClockSteps = 20'000;  // 32 cycles each: a quarter of a millisecond
constexpr int64_t kMegabyte = int64_t{1} << 20;

double secondsOf(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

absl::Status runOn(const cpu_set_t& cpus) {
  if (sched_setaffinity(0, sizeof(cpus), &cpus) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "cannot choose a core to measure on");
}

cpu_set_t only(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(static_cast<size_t>(cpu), &cpus);
  return cpus;
}

/// One hardware thread of each core among the allowed ones: the first that the kernel lists.
std::vector<int> oneOfEachCore(const cpu_set_t& allowed, const std::string& folder) {
  std::vector<int> cpus;
  std::vector<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<size_t>(cpu), &allowed)) continue;
    std::ifstream file(absl::StrCat(folder, "/cpu", cpu, "/topology/thread_siblings_list"));
    std::string siblings;
    std::getline(file, siblings);
    if (siblings.empty()) siblings = absl::StrCat(cpu);
    // A second hardware thread of a core that is listed already.
    if (std::ranges::find(cores, siblings) != cores.end()) continue;
    cores.push_back(siblings);
    cpus.push_back(cpu);
  }
  return cpus;
}

/// Bytes available without evicting other memory; 0 if the kernel does not report it.
int64_t availableBytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    int64_t kilobytes = 0;
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() > 1 && words[0] == "MemAvailable:" && absl::SimpleAtoi(words[1], &kilobytes))
      return kilobytes * 1024;
  }
  return 0;
}

/// Pages that have been written, huge ones if available; null if there is no memory.
float* pages(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, size, MADV_HUGEPAGE);
  auto* values = static_cast<float*>(memory);
  // Touched before any timing, so that page faults are not measured.
  std::fill_n(values, size / sizeof(float), 1.0F);
  return values;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Bench>> Bench::of(const v1::Target& target, const HostPaths& paths) {
  const Kernels* kernels = kernelsFor(target.registers().vector_bits());
  if (!kernels) {
    v1::Failure failure;
    failure.set_reason(v1::Failure::INCOMPATIBLE_HOST);
    failure.set_message("this program has no loops to measure vectors of this machine's width with");
    failure.set_found(absl::StrCat(target.registers().vector_bits(), " bits"));
    failure.set_accepted("AVX-512, AVX2 with FMA, NEON");
    return failureStatus(failure);
  }
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
    return absl::ErrnoToStatus(errno, "cannot ask which cores may be used");
  std::vector<int> cpus = oneOfEachCore(allowed, paths.cpus);

  // Four times the total capacity of the last-level caches.
  const auto cores = static_cast<int64_t>(cpus.size());
  int64_t cached = 0;
  for (int i = 0; i + 1 < target.memory_size(); ++i) {
    const v1::MemoryLevel& level = target.memory(i);
    cached = std::max(cached, level.capacity_bytes() * ((cores + level.shared_by() - 1) / level.shared_by()));
  }
  const int64_t wanted = std::max(128 * kMegabyte, 4 * cached);
  if (const int64_t available = availableBytes(); available > 0 && available < 2 * wanted) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("measuring memory that no cache holds takes %d MiB, and half of the memory is left to others; "
                        "%d MiB are available",
                        wanted / kMegabyte, available / kMegabyte));
  }
  try {
    std::unique_ptr<Bench> bench(new Bench(*kernels, std::move(cpus), allowed, wanted));
    if (!bench->near_ || !bench->far_)
      return absl::ResourceExhaustedError(absl::StrCat("no ", wanted / kMegabyte, " MiB of memory to measure with"));
    return bench;
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("no threads to measure with: ", error.what()));
  }
}

Bench::Bench(const Kernels& kernels, std::vector<int> cpus, const cpu_set_t& allowed, int64_t far_bytes)
    : kernels_(&kernels),
      cpus_(std::move(cpus)),
      allowed_(allowed),
      far_bytes_(far_bytes),
      near_(pages(static_cast<int64_t>(cpus_.size()) * kNearBytes)),
      far_(pages(far_bytes)),
      team_(static_cast<int>(cpus_.size())) {}

Bench::~Bench() {
  if (near_) munmap(near_, cpus_.size() * static_cast<size_t>(kNearBytes));
  if (far_) munmap(far_, static_cast<size_t>(far_bytes_));
  sched_setaffinity(0, sizeof(allowed_), &allowed_);
}

float* Bench::far(int thread, int threads) const {
  return far_ + thread * farBytes(threads) / static_cast<int64_t>(sizeof(float));
}

Bench::Elapsed Bench::alone(const Series& series, int thread, int64_t times) const {
  const double ran = secondsOf(CLOCK_THREAD_CPUTIME_ID), passed = secondsOf(CLOCK_MONOTONIC);
  series.work(thread, times);
  return {.ran = secondsOf(CLOCK_THREAD_CPUTIME_ID) - ran, .passed = secondsOf(CLOCK_MONOTONIC) - passed};
}

Bench::Elapsed Bench::once(const Series& series) {
  if (series.where == Series::Where::kOneCore) return alone(series, 0, series.times);
  if (series.where == Series::Where::kTeam) {
    Elapsed elapsed = alone(series, 0, series.times);
    elapsed.ran = elapsed.passed;
    return elapsed;
  }
  std::vector<Elapsed> each(cpus_.size());
  std::atomic<int> missing{cores()};
  const auto work = [&](int thread) {
    const cpu_set_t cpu = only(cpus_[static_cast<size_t>(thread)]);
    sched_setaffinity(0, sizeof(cpu), &cpu);  // it succeeded for the first thread
    missing.fetch_sub(1);
    // All threads start together, so that they compete for shared levels the whole time.
    while (missing.load() > 0) std::this_thread::yield();
    each[static_cast<size_t>(thread)] = alone(series, thread, series.times);
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < cores(); ++thread) others.emplace_back(work, thread);
  work(0);
  for (std::thread& other : others) other.join();
  Elapsed mean;
  for (const Elapsed& one : each) {
    mean.ran += one.ran / cores();
    mean.passed += one.passed / cores();
  }
  return mean;
}

double Bench::cycleSeconds() const {
  const double before = secondsOf(CLOCK_THREAD_CPUTIME_ID);
  kernels_->clock(kClockSteps);
  return (secondsOf(CLOCK_THREAD_CPUTIME_ID) - before) / (32.0 * kClockSteps);
}

absl::Status Bench::sample(Series& series, bool first) {
  // A team's threads are not pinned; its caller may run on all cores, as in a program that runs a model.
  const bool team = series.where == Series::Where::kTeam;
  TESSERA_RETURN_IF_ERROR(runOn(team ? allowed_ : only(cpus_[0])));
  const double cycle = cycleSeconds();
  Elapsed elapsed = once(series);
  if (first) {
    // Finds the number of repetitions that takes long enough to be timed.
    while (elapsed.ran < kSampleSeconds) {
      series.times =
          std::max(2 * series.times, static_cast<int64_t>(static_cast<double>(series.times) * kSampleSeconds /
                                                          std::max(elapsed.ran, kSampleSeconds / 16)));
      elapsed = once(series);
    }
    return absl::OkStatus();
  }
  const double unit = elapsed.ran / (static_cast<double>(series.times) * series.units);
  series.cycles.push_back(series.in_nanoseconds ? 1e9 * unit : unit / cycle);
  series.ran_seconds += elapsed.ran;
  series.passed_seconds += elapsed.passed;
  return absl::OkStatus();
}

}  // namespace tessera::compiler
