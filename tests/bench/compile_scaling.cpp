// Prints time and memory of each step of compiling one model, in one process and on one thread:
//   compile_scaling [--plan] [--target NAME] MODEL.onnx
// With --plan it generates no code. Prints one line for each step: name, milliseconds, peak resident memory in MB. Then
// the numbers of nodes, plan steps and workloads, and the totals. tests/bench/scaling runs it on models of growing
// size.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "compiler/driver/pipeline.h"
#include "compiler/target/host.h"
#include "compiler/target/target.h"

namespace tessera {
namespace {

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

/// Time and peak memory between two calls, summed by step name.
class StepTimes {
 public:
  StepTimes() { begin(); }

  void finished(const std::string& name) {
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
    auto [it, inserted] = steps_.try_emplace(name);
    if (inserted) order_.push_back(name);
    it->second.ms += ms;
    it->second.peak_mb = std::max(it->second.peak_mb, peakMb());
    begin();
  }

  void print() const {
    for (const std::string& name : order_)
      std::printf("step %s %.1f %.1f\n", name.c_str(), steps_.at(name).ms, steps_.at(name).peak_mb);
  }

 private:
  struct Step {
    double ms = 0, peak_mb = 0;
  };

  void begin() {
    std::ofstream("/proc/self/clear_refs") << "5";  // resets VmHWM
    start_ = std::chrono::steady_clock::now();
  }

  static double peakMb() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmHWM:")) return std::strtod(line.c_str() + 6, nullptr) / 1024;
    return 0;
  }

  std::map<std::string, Step> steps_;
  std::vector<std::string> order_;
  std::chrono::steady_clock::time_point start_;
};

void run(const std::string& model, const v1::Target& target, bool code) {
  const std::filesystem::path folder = std::filesystem::path(model).parent_path();
  StepTimes times;
  compiler::PlanRequest request;
  request.model_path = model;
  request.target = target;
  request.weights_path = folder / "weights.bin";
  request.finished = [&](const char* step) { times.finished(step); };
  auto planned = compiler::plan(request, nullptr);
  if (!planned.ok()) fail(std::string(planned.status().message()));
  const int steps = planned->plan.steps_size();
  const auto workloads = planned->units.size();

  compiler::AssembleRequest assembled;
  if (!code) planned->units.clear();
  for (const v1::BuildUnit& unit : planned->units) {
    auto built = compiler::build(unit);
    if (!built.ok()) fail(std::string(built.status().message()));
    assembled.objects.push_back(*std::move(built));
  }
  if (code) times.finished("build");
  assembled.name = "model";
  if (planned->has_weights) assembled.weights_path = request.weights_path;
  assembled.plan = std::move(planned->plan);
  assembled.artifact_path = folder / "model.tsra";
  if (code) {
    const auto manifest = compiler::assemble(assembled);
    if (!manifest.ok()) fail(std::string(manifest.status().message()));
    times.finished("assemble");
  }
  times.print();
  std::printf("steps %d\nworkloads %zu\n", steps, workloads);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  std::string name = "host", model;
  bool code = true;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--plan") {
      code = false;
    } else if (word == "--target" && i + 1 < argc) {
      name = argv[++i];
    } else {
      model = word;
    }
  }
  if (model.empty()) fail("usage: compile_scaling [--plan] [--target NAME] MODEL.onnx");
  if (name == "host") {
    const auto host = compiler::detectHostTarget();
    if (!host.ok()) fail(std::string(host.status().message()));
    run(model, *host, code);
    return 0;
  }
  const v1::Target* target = compiler::findBuiltinTarget(name);
  if (target == nullptr) fail("no target " + name);
  run(model, *target, code);
}
