// GFLOP/s of generated kernels, of the machine's FMA peak, of oneDNN and of OpenBLAS, single thread, measured
// alternately so that other load slows all of them alike. Not a test.
//   codegen_benchmark [name part] [options], see --help
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/backends/cpu/benchmark/cases.h"
#include "compiler/backends/cpu/benchmark/fma_peak.h"
#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/schedule/summary.h"
#include "compiler/schedule/text.h"
#include "proto/support/cli11.h"

namespace {

using namespace tessera::compiler::codegen::benchmark;  // NOLINT: this file is that namespace's program
using tessera::compiler::codegen::LoadedUnit;
using Clock = std::chrono::steady_clock;

/// Processor time of this thread, so that being preempted does not count.
double seconds(const std::function<void()>& work) {
  auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct AlignedBuffer {
  explicit AlignedBuffer(size_t floats) : storage(floats + 16) {
    data = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(storage.data()) + 63) / 64 * 64);
    for (size_t i = 0; i < floats; ++i) data[i] = static_cast<float>(i % 17) * 0.0625F - 0.5F;
  }
  std::vector<float> storage;
  float* data;
};

absl::StatusOr<tessera::v1::Schedule> readTree(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return tessera::compiler::parseSchedule(text.str());
}

}  // namespace

int main(int argc, char** argv) {
  if (!getenv("OMP_NUM_THREADS")) {  // read at program start, therefore re-execute
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 1);  // operands of both sides on huge pages, as in an arena
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    execv("/proc/self/exe", argv);
  }
  std::string only, emit;
  int rounds = 40, sweep = 0;
  unsigned seed = 1;
  int64_t block = 16;
  std::vector<int64_t> slice;
  std::string tree;
  bool show = false;
  CLI::App app("Generated kernels beside the machine's peak and libraries");
  app.add_option("name", only, "only workloads whose name has this part");
  app.add_option("--rounds", rounds)->check(CLI::Range(1, 1 << 20));
  app.add_option("--sweep", sweep, "so many random matrix products instead of the fixed workloads");
  app.add_option("--seed", seed, "of the sweep");
  app.add_option("--schedule", tree, "file with the tile tree to follow")->check(CLI::ExistingFile);
  app.add_flag("--show", show, "prints the tile tree");
  app.add_option("--slice", slice, "of workloads of several stages: a dimension of the result and its extent")
      ->expected(2);
  app.add_option("--block", block, "channels in a block of a convolution's layout")->check(CLI::Range(1, 1 << 20));
  app.add_option("--emit", emit, "where the object of the last workload is written");
  CLI11_PARSE(app, argc, argv);
  std::printf("%-32s %8s %8s %8s %8s %7s %7s  %s\n", "case", "GFLOP/s", "peak", "oneDNN", "OpenBLAS", "of peak",
              "/best", "noise, compile, tile");
  double worst = 1e9;
  std::string worst_name;
  int below = 0;
  for (const Case& each : sweep > 0 ? gemmSweep(sweep, seed) : allCases(block)) {
    if (each.name.find(only) == std::string::npos) continue;
    auto unit = tessera::compiler::codegen::hostUnit(each.ir);
    tessera::compiler::ScheduleRequest request;
    if (!slice.empty()) {
      request.slices.add_order("d" + std::to_string(slice[0]));
      request.slices.add_tile(slice[1]);
    }
    const auto start = Clock::now();
    auto schedule = tree.empty() ? tessera::compiler::defaultSchedule(unit, request) : readTree(tree);
    if (schedule.ok()) *unit.mutable_schedule() = *schedule;
    auto built = schedule.ok() ? tessera::compiler::buildObject(unit) : schedule.status();
    const double compile_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    if (!built.ok()) {
      std::printf("%-32s %s\n", each.name.c_str(), std::string(built.status().message()).c_str());
      continue;
    }
    if (!emit.empty()) std::ofstream(emit, std::ios::binary) << built->object();
    if (show) std::fputs(tessera::compiler::printSchedule(*schedule).c_str(), stdout);
    auto loaded = LoadedUnit::load(*built);
    if (!loaded.ok()) return 1;
    std::vector<AlignedBuffer> buffers;
    std::vector<void*> pointers;
    for (size_t floats : each.operands) buffers.emplace_back(floats);
    for (AlignedBuffer& buffer : buffers) pointers.push_back(buffer.data);
    std::vector<Work> works{[&] { (*loaded)->run(pointers, 1); }};
    for (const auto& peer : each.peers) works.push_back(peer());
    std::vector<std::vector<double>> rates(works.size());
    std::vector<double> peaks;
    for (const Work& work : works) work();
    const int repeats = std::max(1, static_cast<int>(0.002 / std::max(1e-7, seconds(works[0]))));
    for (int round = 0; round < rounds; ++round) {
      double flops = 0;
      const double peak = seconds([&] { flops = fma512(10000); });
      peaks.push_back(flops / peak * 1e-9);
      for (size_t w = 0; w < works.size(); ++w)
        rates[w].push_back(each.flops * repeats * 1e-9 / seconds([&] {
                             for (int i = 0; i < repeats; ++i) works[w]();
                           }));
    }
    std::string phases;
    if ((*loaded)->phases() > 1) {
      std::vector<double> least((*loaded)->phases(), 1e9);
      for (int round = 0; round < rounds; ++round)
        for (int phase = 0; phase < (*loaded)->phases(); ++phase)
          least[phase] = std::min(least[phase], seconds([&] { (*loaded)->runPhase(phase, pointers, 1); }));
      for (double time : least)
        phases += (phases.empty() ? " phases us " : "+") + std::to_string(std::lround(time * 1e6));
    }
    // The fastest round of each, which is least affected by other users of the caches.
    auto best = [](const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); };
    const double mine = best(rates[0]), peak = best(peaks);
    const double dnnl = works.size() > 1 ? best(rates[1]) : 0, blas = works.size() > 2 ? best(rates[2]) : 0;
    const double ratio = dnnl > 0 ? mine / std::max(dnnl, blas) : 0;
    std::string chosen;
    chosen = tessera::compiler::summarizeSchedule(*schedule) + phases;
    std::printf("%-32s %8.1f %8.1f %8.1f %8.1f %6.0f%% %7.2f  %.0f%% %.0f ms, %s\n", each.name.c_str(), mine, peak,
                dnnl, blas, 100 * mine / peak, ratio, 100 * (1 - median(rates[0]) / mine), compile_ms, chosen.c_str());
    std::fflush(stdout);
    if (dnnl > 0 && mine / dnnl < worst) {
      worst = mine / dnnl;
      worst_name = each.name;
    }
    below += dnnl > 0 && mine / dnnl < 0.8;
  }
  std::printf("worst against oneDNN: %.2f (%s); %d below 0.8\n", worst, worst_name.c_str(), below);
  return 0;
}
