#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "compiler/driver/pipeline.h"
#include "compiler/runtime/tessera.h"

/// One way of compiling a model, loaded, for benchmarks that alternate between several.
namespace tessera {

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

inline void check(tessera_status status) {
  if (status != TESSERA_OK) fail(tessera_last_error());
}

/// Groups of a decision or choice that run slice by slice.
inline bool isFusion(const std::string& kind) { return kind == "fuse-chain" || kind == "tile-region"; }

inline double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<int64_t>(values.size() / 2));
  return values[values.size() / 2];
}

/// One compiled form of a model, loaded.
class Side {
 public:
  /// Compiles with `pins`. Objects that another side has built are taken from `built`.
  Side(const std::filesystem::path& model, const v1::Target& target, compiler::fusion::FusionPolicy fusion_policy,
       const std::filesystem::path& folder, const v1::Pins& pins, std::map<std::string, v1::BuiltObject>& built) {
    std::filesystem::create_directories(folder);
    compiler::PlanRequest request;
    request.model_path = model;
    request.spec.set_name(model.stem());
    request.target = target;
    request.weights_path = folder / "weights";
    request.fusion_policy = fusion_policy;
    request.pins = pins;
    request.spec.set_pin_use(v1::PINS);
    auto planned = compiler::plan(request, [](const v1::Progress&) {});
    if (!planned.ok()) fail(model.string() + ": " + std::string(planned.status().message()));
    compiler::AssembleRequest assemble;
    assemble.name = model.stem();
    assemble.plan = planned->plan;
    for (const v1::BuildUnit& unit : planned->units) {
      const std::string identity = unit.SerializeAsString();
      if (!built.contains(identity)) {
        auto object = compiler::build(unit);
        if (!object.ok()) fail(model.string() + ": " + std::string(object.status().message()));
        built[identity] = *std::move(object);
      }
      assemble.objects.push_back(built[identity]);
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

  /// Microseconds of each step of one run.
  std::vector<double> stepTimes() {
    std::vector<int64_t> nanoseconds(tessera_artifact_num_steps(artifact_));
    check(tessera_session_profile(session_, inputs_.data(), inputs_.size(), outputs_.data(), outputs_.size(),
                                  nanoseconds.data(), nanoseconds.size()));
    std::vector<double> times;
    for (const int64_t each : nanoseconds) times.push_back(static_cast<double>(each) / 1e3);
    return times;
  }

  /// Largest difference of an output from the other side's, relative to its largest magnitude.
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

}  // namespace tessera
