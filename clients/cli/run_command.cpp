// tessera run: load an artifact file in this process and run it.

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/command.h"
#include "clients/cli/latency.h"
#include "clients/cli/output.h"
#include "clients/cli/shape_flags.h"
#include "clients/cli/tensor_flags.h"
#include "compiler/runtime/tessera.h"
#include "proto/failure.h"

namespace tessera::client {
namespace {

struct RunFlags {
  std::string artifact;
  std::vector<std::string> inputs;
  ShapeFlags shapes;
  std::string output_folder;
  int repeat = 1, warmup = 0, threads = 1;
  uint64_t seed = 0;
  bool random = false, steps = false, verify = false, guard = false;
};

using Artifact = std::unique_ptr<tessera_artifact, decltype(&tessera_artifact_destroy)>;
using Session = std::unique_ptr<tessera_session, decltype(&tessera_session_destroy)>;

absl::Status crash(const std::string& sentence) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::CRASHED);
  failure.set_message(sentence);
  failure.set_fix("this is a fault of the compiler: please report it with the model; --guard says more of where it is");
  return failureStatus(failure);
}

absl::Status runtimeError(tessera_status status) {
  switch (status) {
    case TESSERA_OK:
      return absl::OkStatus();
    case TESSERA_INCOMPATIBLE:
      return failureStatus(v1::Failure::INCOMPATIBLE_HOST, tessera_last_error());
    case TESSERA_OUT_OF_MEMORY:
      return failureStatus(v1::Failure::OUT_OF_MEMORY, tessera_last_error());
    case TESSERA_OUT_OF_BOUNDS:
      return crash(tessera_last_error());
    case TESSERA_CORRUPT:
    case TESSERA_INVALID_ARGUMENT:
      return absl::InvalidArgumentError(tessera_last_error());
    default:
      return absl::InternalError(tessera_last_error());
  }
}

v1::TensorSpec specOf(const tessera_tensor_info& info) {
  v1::TensorSpec spec;
  spec.set_name(info.name);
  spec.set_dtype(static_cast<v1::DataType>(info.dtype));
  for (int32_t d = 0; d < info.rank; ++d) spec.add_shape(info.shape[d]);
  return spec;
}

// The tensors of one run in the artifact's order. Outputs lie at multiples of 64.
struct Buffers {
  size_t variant = 0;
  std::vector<v1::TensorSpec> input_specs, output_specs;
  std::map<std::string, Tensor> inputs;
  std::vector<std::unique_ptr<char, decltype(&free)>> memory;
  std::vector<tessera_const_buffer> in;
  std::vector<tessera_buffer> out;
  std::vector<int64_t> out_bytes;  // of the latest run's extents

  char* allocate(size_t bytes) {
    memory.emplace_back(static_cast<char*>(aligned_alloc(64, (bytes + 63) / 64 * 64 + 64)), &free);
    return memory.back().get();
  }
};

// The variant that the given inputs, --dim and --shape ask for. Inputs the artifact lacks are checkInputs' to refuse.
absl::StatusOr<size_t> chooseVariant(const tessera_artifact* artifact, const RunFlags& flags, const Buffers& buffers) {
  auto choice = flags.shapes.choice();
  if (!choice.ok()) return choice.status();
  const bool asked = choice->dimensions_size() > 0 || choice->input_shapes_size() > 0;
  if (tessera_artifact_num_variants(artifact) == 1 && !asked) return 0;
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& [name, tensor] : buffers.inputs) {
    shapes[name].assign(tensor.spec.shape().begin(), tensor.spec.shape().end());
  }
  for (const v1::InputShape& shape : choice->input_shapes()) {
    shapes[shape.name()].assign(shape.shape().begin(), shape.shape().end());
  }
  std::vector<tessera_shape> inputs;
  for (size_t i = 0; i < tessera_artifact_num_inputs(artifact); ++i) {
    tessera_tensor_info info;
    tessera_artifact_input(artifact, i, &info);
    const auto known = shapes.find(info.name);
    inputs.push_back(known == shapes.end()
                         ? tessera_shape{nullptr, -1}
                         : tessera_shape{known->second.data(), static_cast<int32_t>(known->second.size())});
  }
  std::vector<tessera_dimension> dimensions;
  for (const v1::DimensionBinding& each : choice->dimensions())
    dimensions.push_back({each.name().c_str(), each.size()});
  size_t variant = 0;
  if (tessera_artifact_find_variant(artifact, inputs.data(), inputs.size(), dimensions.data(), dimensions.size(),
                                    &variant) == TESSERA_OK) {
    return variant;
  }
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(tessera_last_error());
  failure.set_fix("give inputs of one of these shapes; with --random, choose by --dim NAME=SIZE or --shape NAME=SHAPE");
  return failureStatus(failure);
}

absl::Status prepare(const tessera_artifact* artifact, const RunFlags& flags, Buffers& buffers) {
  auto given = readInputs(flags.inputs);
  if (!given.ok()) return given.status();
  buffers.inputs = std::move(*given);
  auto variant = chooseVariant(artifact, flags, buffers);
  if (!variant.ok()) return variant.status();
  buffers.variant = *variant;
  tessera_tensor_info info;
  for (size_t i = 0; i < tessera_artifact_num_inputs(artifact); ++i) {
    tessera_artifact_variant_input(artifact, buffers.variant, i, &info);
    buffers.input_specs.push_back(specOf(info));
    if (const void* fixed = tessera_artifact_fixed_input(artifact, i)) {  // may be left out: it has one value only
      const std::string bytes(static_cast<const char*>(fixed), static_cast<size_t>(info.size_bytes));
      buffers.inputs.try_emplace(info.name, Tensor{buffers.input_specs.back(), bytes});
    }
    if (flags.random) buffers.inputs.try_emplace(info.name, seededTensor(buffers.input_specs.back(), flags.seed + i));
  }
  if (absl::Status status = checkInputs(buffers.inputs, buffers.input_specs); !status.ok()) return status;
  for (const v1::TensorSpec& spec : buffers.input_specs) {
    const std::string& bytes = buffers.inputs.at(spec.name()).bytes;
    char* data = buffers.allocate(bytes.size());
    if (!data) return absl::ResourceExhaustedError("not enough memory for the inputs");
    bytes.copy(data, bytes.size());
    buffers.in.push_back({data, bytes.size()});
  }
  for (size_t i = 0; i < tessera_artifact_num_outputs(artifact); ++i) {
    tessera_artifact_variant_output(artifact, buffers.variant, i, &info);
    buffers.output_specs.push_back(specOf(info));
    char* data = buffers.allocate(static_cast<size_t>(info.size_bytes));
    if (!data) return absl::ResourceExhaustedError("not enough memory for the outputs");
    buffers.out.push_back({data, static_cast<size_t>(info.size_bytes)});
  }
  return absl::OkStatus();
}

// Elements of each output for the extents that the latest run found.
void takeExtents(tessera_session* session, Buffers& buffers) {
  buffers.out_bytes.clear();
  for (size_t i = 0; i < buffers.out.size(); ++i) {
    v1::TensorSpec& spec = buffers.output_specs[i];
    tessera_session_output_shape(session, i, spec.mutable_shape()->mutable_data());
    buffers.out_bytes.push_back(dtypeBytes(spec.dtype()));
    for (int64_t extent : spec.shape()) buffers.out_bytes.back() *= extent;
  }
}

std::vector<std::string> outputBytes(const Buffers& buffers) {
  std::vector<std::string> bytes;
  for (size_t i = 0; i < buffers.out.size(); ++i) {
    bytes.emplace_back(static_cast<const char*>(buffers.out[i].data), static_cast<size_t>(buffers.out_bytes[i]));
  }
  return bytes;
}

// Wall times in milliseconds of the runs that count; guarded runs take turns at both ends and must agree.
absl::StatusOr<std::vector<double>> timeRuns(tessera_session* session, const RunFlags& flags, Buffers& buffers) {
  std::vector<double> times_ms;
  std::vector<std::string> first_outputs;
  const int runs = flags.guard ? std::max(2, flags.repeat) : flags.repeat;
  for (int r = -flags.warmup; r < runs; ++r) {
    const auto start = std::chrono::steady_clock::now();
    const tessera_status code =
        flags.guard
            ? tessera_session_run_guarded(session, buffers.in.data(), buffers.in.size(), buffers.out.data(),
                                          buffers.out.size(), r % 2 == 0 ? TESSERA_GUARD_BACK : TESSERA_GUARD_FRONT)
            : tessera_session_run(session, buffers.in.data(), buffers.in.size(), buffers.out.data(),
                                  buffers.out.size());
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (code != TESSERA_OK) return runtimeError(code);
    takeExtents(session, buffers);
    if (r >= 0) times_ms.push_back(took.count());
    if (!flags.guard || r < 0) continue;
    std::vector<std::string> outputs = outputBytes(buffers);
    if (r == 0) first_outputs = outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] == first_outputs[i]) continue;
      return crash(absl::StrCat(
          "output '", buffers.output_specs[i].name(),
          "' depends on memory that no kernel wrote: ", "guarded runs with other patterns in that memory differ"));
    }
  }
  return times_ms;
}

// Median time of each step over `repeat` runs, in milliseconds.
absl::StatusOr<std::vector<double>> timeSteps(const tessera_artifact* artifact, tessera_session* session,
                                              Buffers& buffers, int repeat) {
  tessera_variant_info variant;
  tessera_artifact_variant(artifact, buffers.variant, &variant);
  const size_t steps = variant.num_steps;
  std::vector<std::vector<double>> times(steps);
  std::vector<int64_t> step_ns(steps);
  for (int r = 0; r < repeat; ++r) {
    const tessera_status status = tessera_session_profile(
        session, buffers.in.data(), buffers.in.size(), buffers.out.data(), buffers.out.size(), step_ns.data(), steps);
    if (status != TESSERA_OK) return runtimeError(status);
    for (size_t s = 0; s < steps; ++s) times[s].push_back(static_cast<double>(step_ns[s]) / 1e6);
  }
  std::vector<double> medians;
  medians.reserve(steps);
  for (auto& samples : times) medians.push_back(summarize(std::move(samples)).median);
  return medians;
}

std::string stepTable(const tessera_artifact* artifact, size_t variant, const std::vector<double>& medians) {
  std::vector<std::vector<std::string>> rows;
  for (size_t s = 0; s < medians.size(); ++s) {
    tessera_step_info info;
    tessera_artifact_variant_step(artifact, variant, s, &info);
    const double gflops = medians[s] > 0 ? static_cast<double>(info.flops) / medians[s] / 1e6 : 0;
    rows.push_back({absl::StrFormat("%.4f", medians[s]), absl::StrFormat("%.1f", gflops), info.symbol, info.name});
  }
  return table({"MEDIAN MS", "GFLOP/S", "KERNEL", "NODES"}, rows);
}

std::string stepsJson(const tessera_artifact* artifact, size_t variant, const std::vector<double>& medians) {
  std::string json;
  for (size_t s = 0; s < medians.size(); ++s) {
    tessera_step_info info;
    tessera_artifact_variant_step(artifact, variant, s, &info);
    absl::StrAppend(&json, s ? "," : "", "{\"name\":", jsonString(info.name), ",\"symbol\":", jsonString(info.symbol),
                    absl::StrFormat(",\"median_ms\":%.6f,\"flops\":%d}", medians[s], info.flops));
  }
  return absl::StrCat("[", json, "]");
}

// What the handler of a signal in generated code does, which calls nothing: this thread is in no function that must not
// be entered again.
template <bool json>
void endByFault(const char* sentence) {
  const int code = reportError(crash(sentence), json);
  std::cout.flush();
  _exit(code);
}

int run(const CommandLine& line, const RunFlags& flags) {
  tessera_artifact* loaded = nullptr;
  tessera_status code =
      tessera_artifact_load(flags.artifact.c_str(), flags.verify ? TESSERA_VERIFY_WEIGHTS : 0, &loaded);
  if (code == TESSERA_IO_ERROR && !std::filesystem::exists(flags.artifact)) {
    return reportError(absl::NotFoundError(absl::StrCat("there is no file ", flags.artifact)), line.json);
  }
  if (code != TESSERA_OK) return reportError(runtimeError(code), line.json);
  const Artifact artifact(loaded, &tessera_artifact_destroy);

  Buffers buffers;
  if (absl::Status status = prepare(artifact.get(), flags, buffers); !status.ok())
    return reportError(status, line.json);
  tessera_session* created = nullptr;
  code = tessera_session_create(artifact.get(), flags.threads, &created);
  if (code != TESSERA_OK) return reportError(runtimeError(code), line.json);
  const Session session(created, &tessera_session_destroy);
  code = tessera_session_set_variant(session.get(), buffers.variant);
  if (code != TESSERA_OK) return reportError(runtimeError(code), line.json);

  tessera_report_faults(line.json ? endByFault<true> : endByFault<false>);
  auto times_ms = timeRuns(session.get(), flags, buffers);
  if (!times_ms.ok()) return reportError(times_ms.status(), line.json);
  if (!flags.output_folder.empty()) {
    for (size_t i = 0; i < buffers.out.size(); ++i) {
      absl::Status status =
          writeOutput(flags.output_folder, buffers.output_specs[i],
                      {static_cast<const char*>(buffers.out[i].data), static_cast<size_t>(buffers.out_bytes[i])});
      if (!status.ok()) return reportError(status, line.json);
    }
  }
  std::vector<double> step_medians;
  if (flags.steps) {
    auto medians = timeSteps(artifact.get(), session.get(), buffers, flags.repeat);
    if (!medians.ok()) return reportError(medians.status(), line.json);
    step_medians = std::move(*medians);
  }

  const Latency latency = summarize(*std::move(times_ms));
  if (line.json) {
    std::cout << absl::StrFormat(
        R"({"latency_ms":{"median":%.6f,"min":%.6f,"p90":%.6f,"p99":%.6f,"max":%.6f},"runs":%d,"threads":%d%s%s})",
        latency.median, latency.min, latency.p90, latency.p99, latency.max, latency.runs, flags.threads,
        flags.guard ? ",\"guarded\":true" : "",
        flags.steps ? ",\"steps\":" + stepsJson(artifact.get(), buffers.variant, step_medians) : "");
    std::cout << "\n";
    return 0;
  }
  std::cout << latency.text() << ", " << flags.threads << (flags.threads == 1 ? " thread" : " threads")
            << (flags.guard ? ", guarded: every kernel stayed within its memory\n" : "\n");
  if (flags.steps) std::cout << stepTable(artifact.get(), buffers.variant, step_medians);
  for (const v1::TensorSpec& spec : buffers.output_specs) {
    std::cout << "  " << spec.name() << ": " << typeText(spec);
    if (!flags.output_folder.empty()) std::cout << " in " << flags.output_folder;
    std::cout << "\n";
  }
  return 0;
}

}  // namespace

void addRunCommand(CommandLine& line) {
  CLI::App* command = line.add("run", "Run an artifact file in this process");
  auto flags = std::make_shared<RunFlags>();
  command->add_option("ARTIFACT", flags->artifact, "a .tsra file")->required();
  command->add_option("-i,--input", flags->inputs, "NAME=FILE.npy or FILE.npz; repeat for each input");
  flags->shapes.addChoiceTo(command);
  command->add_option("-o,--output-dir", flags->output_folder, "write DIR/<output>.npy");
  command->add_option("--repeat", flags->repeat, "timed runs")->capture_default_str()->check(CLI::Range(1, 10'000'000));
  command->add_option("--warmup", flags->warmup, "runs before them")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command->add_option("--threads", flags->threads)
      ->capture_default_str()
      ->check(CLI::Range(1, static_cast<int>(TESSERA_MAX_THREADS)));
  auto* random = command->add_flag("--random", flags->random, "fill inputs that are not given with seeded values");
  command->add_option("--seed", flags->seed, "for --random")->capture_default_str()->needs(random);
  auto* steps = command->add_flag("--steps", flags->steps, "time each fused group as well");
  command
      ->add_flag("--guard", flags->guard,
                 "put every operand of every kernel between unreadable pages, at both ends in turn (two runs at least, "
                 "which must agree), and name a kernel that leaves its memory; takes about ten times as long")
      ->excludes(steps);
  command->add_flag("--verify", flags->verify, "check the weights' checksum too");
  command->callback([&line, flags] { line.action = [&line, flags] { return run(line, *flags); }; });
}

}  // namespace tessera::client
