// Compiled artifacts as a side of tests/bench/run: loads them through libtessera_rt and times runs on request. Reads
// one request a line from standard input and writes one answer a line to standard output:
//   load PATH THREADS   -> ok ID     fills inputs: small values for floats, 0 for integers
//   run ID REPEAT       -> ok MS MS ...
//   compute ID REPEAT   -> ok MS MS ...   the same runs, without steps that only change layouts (no arithmetic)
//   drop ID             -> ok
// A failed request is answered with "error TEXT".
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "compiler/runtime/tessera.h"

namespace {

using Clock = std::chrono::steady_clock;

void check(tessera_status status) {
  if (status != TESSERA_OK) throw std::runtime_error(tessera_last_error());
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

Memory allocate(const tessera_tensor_info& info) {
  const size_t bytes = (static_cast<size_t>(info.size_bytes) + 63) / 64 * 64;
  Memory memory(std::aligned_alloc(64, bytes == 0 ? 64 : bytes));
  if (!memory) throw std::bad_alloc();
  if (info.dtype == TESSERA_F32) {
    auto* values = static_cast<float*>(memory.get());
    for (size_t i = 0; i < bytes / sizeof(float); ++i) values[i] = static_cast<float>(i % 23) * 0.03F - 0.3F;
  } else {
    std::fill_n(static_cast<char*>(memory.get()), bytes, '\0');
  }
  return memory;
}

class Model {
 public:
  Model(const std::string& path, int threads) {
    check(tessera_artifact_load(path.c_str(), 0, &artifact_));
    check(tessera_session_create(artifact_, threads, &session_));
    tessera_tensor_info info;
    for (size_t i = 0; i < tessera_artifact_num_inputs(artifact_); ++i) {
      check(tessera_artifact_input(artifact_, i, &info));
      memory_.push_back(allocate(info));
      inputs_.push_back({memory_.back().get(), static_cast<size_t>(info.size_bytes)});
    }
    for (size_t i = 0; i < tessera_artifact_num_outputs(artifact_); ++i) {
      check(tessera_artifact_output(artifact_, i, &info));
      memory_.push_back(allocate(info));
      outputs_.push_back({memory_.back().get(), static_cast<size_t>(info.size_bytes)});
    }
    step_ns_.resize(tessera_artifact_num_steps(artifact_));
    run();
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model() {
    tessera_session_destroy(session_);
    tessera_artifact_destroy(artifact_);
  }

  /// Wall time in milliseconds.
  double run() {
    const auto start = Clock::now();
    check(tessera_session_run(session_, inputs_.data(), inputs_.size(), outputs_.data(), outputs_.size()));
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }

  /// Milliseconds in steps with arithmetic.
  double compute() {
    check(tessera_session_profile(session_, inputs_.data(), inputs_.size(), outputs_.data(), outputs_.size(),
                                  step_ns_.data(), step_ns_.size()));
    double total = 0;
    for (size_t i = 0; i < step_ns_.size(); ++i) {
      tessera_step_info info;
      check(tessera_artifact_step(artifact_, i, &info));
      if (info.flops > 0) total += 1e-6 * static_cast<double>(step_ns_[i]);
    }
    return total;
  }

 private:
  tessera_artifact* artifact_ = nullptr;
  tessera_session* session_ = nullptr;
  std::vector<Memory> memory_;
  std::vector<tessera_const_buffer> inputs_;
  std::vector<tessera_buffer> outputs_;
  std::vector<int64_t> step_ns_;
};

std::string answer(const std::string& line, std::map<int, std::unique_ptr<Model>>& models) {
  std::istringstream words(line);
  std::string verb, first;
  int number = 1;
  words >> verb >> first >> number;
  if (verb == "load") {
    const int id = models.empty() ? 1 : models.rbegin()->first + 1;
    models[id] = std::make_unique<Model>(first, number);
    return "ok " + std::to_string(id);
  }
  const int id = std::stoi(first);
  if (verb == "drop") {
    models.erase(id);
    return "ok";
  }
  Model& model = *models.at(id);
  std::string text = "ok";
  for (int i = 0; i < number; ++i) text += " " + std::to_string(verb == "compute" ? model.compute() : model.run());
  return text;
}

}  // namespace

int main() {
  std::map<int, std::unique_ptr<Model>> models;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << answer(line, models) << std::endl;
    } catch (const std::exception& error) {
      std::cout << "error " << error.what() << std::endl;
    }
  }
  return 0;
}
