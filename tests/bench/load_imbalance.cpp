// Load balance of models on many cores, without that many cores:
//   load_imbalance [--target NAME] [--cores A,B,...] [--worst N] MODEL.onnx...
// Plans each model for the target with N cores and times each phase of its kernels on one core of this machine.
// Distributes the phases as the runtime does: the points of a grid are equal, each core takes whole points, and all
// cores wait for the last. Prints the idle share of all cores' time, without and with the fixed cost of a phase
// (phase_cycles of the target), and the phases that lose most. Not a test.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/driver/pipeline.h"
#include "compiler/target/chip.h"
#include "compiler/target/target.h"

namespace tessera {
namespace {

constexpr int kRepetitions = 7;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

struct Phase {
  std::string summary;   // of its workload
  std::string strategy;  // of this phase
  int64_t grid = 0;
  double seconds = 0;  // on one core
  int times = 0;       // steps of the model that run it
};

/// Memory of a step's operand: small positive numbers, and zeros for indices.
std::unique_ptr<char, void (*)(void*)> operandOf(const v1::Buffer& buffer) {
  const auto bytes = (static_cast<size_t>(buffer.size_bytes()) + 63) / 64 * 64 + 64;
  std::unique_ptr<char, void (*)(void*)> memory(static_cast<char*>(std::aligned_alloc(64, bytes)), std::free);
  if (!memory) fail("no memory");
  std::memset(memory.get(), buffer.spec().dtype() == v1::DATA_TYPE_F32 ? 0x3c : 0, bytes);
  return memory;
}

/// Times of one workload's phases, each the median of consecutive repetitions.
std::vector<Phase> phasesOf(const v1::Plan& plan, const v1::Step& step, const v1::BuildUnit& unit) {
  const auto built = compiler::build(unit);
  if (!built.ok()) fail(std::string(built.status().message()));
  auto loaded = compiler::codegen::LoadedUnit::load(*built);
  if (!loaded.ok()) fail(std::string(loaded.status().message()));
  std::vector<std::unique_ptr<char, void (*)(void*)>> memory;
  std::vector<void*> operands;
  for (int operand : step.operands()) {
    memory.push_back(operandOf(plan.buffers(operand)));
    operands.push_back(memory.back().get());
  }
  std::vector<Phase> phases;
  for (const v1::KernelInfo::Phase& phase : built->info().phases())
    phases.push_back({.summary = plan.workloads(step.workload()).summary(),
                      .strategy = phase.strategy(),
                      .grid = phase.grid(),
                      .seconds = 0,
                      .times = 0});
  std::vector<std::vector<double>> seconds(phases.size());
  for (int i = 0; i <= kRepetitions; ++i) {
    for (size_t phase = 0; phase < phases.size(); ++phase) {
      const auto begin = std::chrono::steady_clock::now();
      (*loaded)->runPhase(static_cast<int>(phase), operands, 1);
      if (i > 0)
        seconds[phase].push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  }
  for (size_t phase = 0; phase < phases.size(); ++phase) {
    std::ranges::nth_element(seconds[phase], seconds[phase].begin() + kRepetitions / 2);
    phases[phase].seconds = seconds[phase][kRepetitions / 2];
  }
  return phases;
}

/// Seconds until all cores have finished, which the core with most grid points decides.
double dealt(const Phase& phase, int cores) {
  const int64_t most = (phase.grid + cores - 1) / cores;
  return phase.seconds * static_cast<double>(most) / static_cast<double>(phase.grid);
}

void print(const std::string& model, v1::Target target, int cores, size_t worst) {
  target.mutable_units(0)->set_count(cores);
  compiler::PlanRequest request;
  request.model_path = model;
  request.target = target;
  const auto planned = compiler::plan(request, [](const v1::Progress&) {});
  if (!planned.ok()) fail(model + ": " + std::string(planned.status().message()));
  const v1::Plan& plan = planned->plan;
  std::map<int, std::vector<Phase>> known;
  std::vector<Phase> all;
  for (const v1::Step& step : plan.steps()) {
    std::vector<Phase>& phases = known[step.workload()];
    if (phases.empty()) phases = phasesOf(plan, step, planned->units[static_cast<size_t>(step.workload())]);
    for (Phase& phase : phases) ++phase.times;
  }
  for (auto& [workload, phases] : known) all.insert(all.end(), phases.begin(), phases.end());

  const compiler::Chip chip(target);
  const double barrier = chip.seconds(chip.costParameters().overheads().phase_cycles());
  double work = 0, passed = 0, barriers = 0;
  for (const Phase& phase : all) {
    work += phase.times * phase.seconds;
    passed += phase.times * dealt(phase, cores);
    barriers += phase.times * barrier;
  }
  std::printf("%s for %s, %d cores: work %.3f ms, %.4f ms on all, idle %.1f %%; with %.4f ms of phases %.1f %%\n",
              std::filesystem::path(model).stem().c_str(), target.name().c_str(), cores, 1e3 * work, 1e3 * passed,
              100 * (1 - work / (cores * passed)), 1e3 * barriers, 100 * (1 - work / (cores * (passed + barriers))));
  const auto lost = [&](const Phase& phase) { return phase.times * (cores * dealt(phase, cores) - phase.seconds); };
  std::ranges::sort(all, std::ranges::greater{}, lost);
  for (size_t i = 0; i < std::min(worst, all.size()) && lost(all[i]) > 0; ++i)
    std::printf("  %4.1f %% of it: %d times %.4f ms, grid %lld, %s of %s\n",
                100 * lost(all[i]) / (cores * passed - work), all[i].times, 1e3 * all[i].seconds,
                static_cast<long long>(all[i].grid), all[i].strategy.c_str(), all[i].summary.c_str());
  std::fflush(stdout);
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  std::string target = "cascadelake";
  std::vector<int> cores = {8, 28, 64};
  size_t worst = 3;
  std::vector<std::string> models;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--target" && i + 1 < count) {
      target = arguments[++i];
    } else if (argument == "--cores" && i + 1 < count) {
      cores.clear();
      for (const std::string& number : std::vector<std::string>(absl::StrSplit(arguments[++i], ',')))
        if (!absl::SimpleAtoi(number, &cores.emplace_back()) || cores.back() < 1) tessera::fail("--cores N,N,...");
    } else if (argument == "--worst" && i + 1 < count) {
      if (!absl::SimpleAtoi(arguments[++i], &worst)) tessera::fail("--worst N");
    } else {
      models.push_back(argument);
    }
  }
  const tessera::v1::Target* described = tessera::compiler::findBuiltinTarget(target);
  if (!described) tessera::fail("no built-in target " + target);
  for (const std::string& model : models)
    for (int each : cores) tessera::print(model, *described, each, worst);
  return 0;
}
