// Predicted against measured gains of running groups slice by slice: each model is compiled twice, with every chain and
// region that has a price taken and with none, and both are run by turns on one thread. Not a test; prints a table.
//   fusion_gains [--rounds N] MODEL.onnx...
// The models of the table in compiler/fusion/README.md: tests/bench/fusion_gains_models.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "compiler/pipeline.h"
#include "compiler/runtime/tessera.h"
#include "compiler/target/host.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using compiler::fusion::Merging;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

void check(tessera_status status) {
  if (status != TESSERA_OK) fail(tessera_last_error());
}

/// One way of compiling a model, loaded.
class Side {
 public:
  Side(const fs::path& model, const v1::Target& target, Merging merging, const fs::path& folder) {
    fs::create_directories(folder);
    compiler::PlanRequest request;
    request.model_path = model;
    request.spec.set_name(model.stem());
    request.target = target;
    request.weights_path = folder / "weights";
    request.merging = merging;
    auto planned = compiler::plan(request, [](const v1::Progress&) {});
    if (!planned.ok()) fail(model.string() + ": " + std::string(planned.status().message()));
    compiler::AssembleRequest assemble;
    assemble.name = model.stem();
    assemble.plan = planned->plan;
    for (const v1::BuildUnit& unit : planned->units) {
      auto built = compiler::build(unit);
      if (!built.ok()) fail(model.string() + ": " + std::string(built.status().message()));
      assemble.objects.push_back(*std::move(built));
    }
    if (planned->has_weights) assemble.weights_path = request.weights_path;
    assemble.artifact_path = folder / "model.tsra";
    if (auto manifest = compiler::assemble(assemble); !manifest.ok()) fail(std::string(manifest.status().message()));
    plan = std::move(planned->plan);
    check(tessera_artifact_load(assemble.artifact_path.c_str(), 0, &artifact_));
    check(tessera_session_create(artifact_, 1, &session_));
    tessera_tensor_info info;
    for (size_t i = 0; i < tessera_artifact_num_inputs(artifact_); ++i) {
      check(tessera_artifact_input(artifact_, i, &info));
      const tessera_buffer made = buffer(info);
      inputs_.push_back({made.data, made.size_bytes});
    }
    for (size_t i = 0; i < tessera_artifact_num_outputs(artifact_); ++i) {
      check(tessera_artifact_output(artifact_, i, &info));
      outputs_.push_back(buffer(info));
    }
  }
  Side(const Side&) = delete;
  ~Side() {
    tessera_session_destroy(session_);
    tessera_artifact_destroy(artifact_);
    for (const tessera_buffer& each : made_) std::free(each.data);
  }

  double milliseconds() {
    const auto start = std::chrono::steady_clock::now();
    check(tessera_session_run(session_, inputs_.data(), inputs_.size(), outputs_.data(), outputs_.size()));
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

  /// The largest difference of an output to the other side's, relative to its largest magnitude.
  double difference(const Side& other) const {
    double worst = 0;
    for (size_t o = 0; o < outputs_.size(); ++o) {
      const auto *a = static_cast<const float*>(outputs_[o].data),
                 *b = static_cast<const float*>(other.outputs_[o].data);
      double most = 0, apart = 0;
      for (size_t i = 0; i < outputs_[o].size_bytes / sizeof(float); ++i) {
        most = std::max(most, std::fabs(static_cast<double>(b[i])));
        apart = std::max(apart, std::fabs(static_cast<double>(a[i]) - b[i]));
      }
      worst = std::max(worst, most > 0 ? apart / most : apart);
    }
    return worst;
  }

  v1::Plan plan;

 private:
  tessera_buffer buffer(const tessera_tensor_info& info) {
    const auto bytes = static_cast<size_t>(info.size_bytes);
    tessera_buffer made{std::aligned_alloc(64, (bytes + 63) / 64 * 64), bytes};
    for (size_t i = 0; i < bytes / sizeof(float); ++i)
      static_cast<float*>(made.data)[i] = static_cast<float>(i % 23) * 0.03F - 0.3F;
    made_.push_back(made);
    return made;
  }

  tessera_artifact* artifact_ = nullptr;
  tessera_session* session_ = nullptr;
  std::vector<tessera_const_buffer> inputs_;
  std::vector<tessera_buffer> outputs_, made_;
};

void measure(const fs::path& model, const v1::Target& target, int rounds, const fs::path& folder) {
  Side apart(model, target, Merging::kNever, folder / "apart"),
      fused(model, target, Merging::kWhereverItCan, folder / "fused");
  double saved = 0, most = 0;  // as priced, and by equation 4.10
  std::string kinds;
  for (const v1::Decision& decision : fused.plan.report().decisions()) {
    if (!decision.taken() || !decision.has_profit()) continue;
    kinds += (kinds.empty() ? "" : ", ") + decision.kind() + " " + decision.profit().kind();
    saved += decision.alternative_cost() - decision.cost();
    most += decision.profit().profit_us();
  }
  if (kinds.empty()) {
    std::printf("%-24s nothing to merge\n", model.stem().c_str());
    return;
  }
  double before = 1e9, after = 1e9;
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    double a = 1e9, f = 1e9;
    for (int i = 0; i < 3; ++i) {
      a = std::min(a, apart.milliseconds());
      f = std::min(f, fused.milliseconds());
    }
    ratios.push_back(f / a);
    before = std::min(before, a), after = std::min(after, f);
  }
  std::sort(ratios.begin(), ratios.end());
  // Against what the unfused model takes as a whole: what is predicted is about its part in the chain.
  std::printf(
      "%-24s %-22s at most %8.1f us  predicted %8.1f us  %6.1f %%   apart %9.1f us  fused %9.1f us  gain %6.1f %%  "
      "difference %.0e\n",
      model.stem().c_str(), kinds.c_str(), most, saved, 100 * saved / (before * 1e3), before * 1e3, after * 1e3,
      100 * (1 - ratios[ratios.size() / 2]), fused.difference(apart));
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  auto target = compiler::detectHostTarget();
  if (!target.ok()) fail(std::string(target.status().message()));
  // One thread runs, so slices are dealt to one core.
  for (v1::ComputeUnit& unit : *target->mutable_units()) unit.set_count(1);
  const fs::path folder = fs::temp_directory_path() / ("fusion_gains." + std::to_string(std::rand()));
  int rounds = 15;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
      rounds = static_cast<int>(std::strtol(argv[++i], nullptr, 10));
    } else {
      measure(argv[i], *target, rounds, folder);
    }
  }
  fs::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::run(argc, argv); }
