// tessera run: loads an artifact file into this process and runs it.

#include <unistd.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/command.h"
#include "clients/cli/followed_run.h"
#include "clients/cli/latency.h"
#include "clients/cli/local_run.h"
#include "clients/cli/opencl_run.h"
#include "clients/cli/output.h"
#include "clients/cli/sandboxed_run.h"
#include "clients/cli/simulated_run.h"
#include "clients/cli/tensor_flags.h"
#include "clients/cpp/trust.h"
#include "clients/cpp/versions.h"
#include "compiler/backends/opencl/session.h"
#include "compiler/backends/spatial/session.h"
#include "compiler/runtime/tessera.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

struct RunFlags {
  std::string artifact;
  TrustFlags trust;
  RunInputs inputs;
  std::string output_folder;
  int repeat = 1, warmup = 0, threads = 1;
  bool steps = false, verify = false, guard = false;
  bool state = false;               // keep values from run to run
  std::string state_in, state_out;  // imply it
  std::string follow, window;
  std::string job;
  int version = 0;  // 0: the chosen version
  SandboxFlags sandbox;
  SimulatedRunFlags simulated;
};

std::vector<std::string> outputBytes(const RunBuffers& buffers) {
  std::vector<std::string> bytes;
  for (size_t i = 0; i < buffers.out.size(); ++i) {
    bytes.emplace_back(static_cast<const char*>(buffers.out[i].data), static_cast<size_t>(buffers.out_bytes[i]));
  }
  return bytes;
}

// Returns the wall times, in milliseconds, of the runs after the warm-up. Guarded runs alternate between guards at the
// end and at the beginning of buffers, and must agree.
absl::StatusOr<std::vector<double>> timeRuns(tessera_session* session, const RunFlags& flags, RunBuffers& buffers) {
  std::vector<double> times_ms;
  std::vector<std::string> first_outputs;
  const int runs = flags.guard ? std::max(2, flags.repeat) : flags.repeat;
  for (int r = -flags.warmup; r < runs; ++r) {
    const auto start = std::chrono::steady_clock::now();
    const tessera_status code =
        flags.guard
            ? tessera_session_run_guarded(session, buffers.in.data(), buffers.in.size(), buffers.out.data(),
                                          buffers.out.size(), r % 2 == 0 ? TESSERA_GUARD_BACK : TESSERA_GUARD_FRONT)
        : buffers.state != nullptr
            ? tessera_session_run_state(session, buffers.state, buffers.in.data(), buffers.in.size(),
                                        buffers.out.data(), buffers.out.size())
            : tessera_session_run(session, buffers.in.data(), buffers.in.size(), buffers.out.data(),
                                  buffers.out.size());
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (code != TESSERA_OK) return runtimeError(code);
    buffers.takeExtents(session);
    if (r >= 0) times_ms.push_back(took.count());
    if (!flags.guard || r < 0) continue;
    std::vector<std::string> outputs = outputBytes(buffers);
    if (r == 0) first_outputs = outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] == first_outputs[i]) continue;
      return generatedCodeCrashed(absl::StrCat(
          "output '", buffers.output_specs[i].name(),
          "' depends on memory that no kernel wrote: ", "guarded runs with other patterns in that memory differ"));
    }
  }
  return times_ms;
}

// Returns the median time of each step over `repeat` runs, in milliseconds.
absl::StatusOr<std::vector<double>> timeSteps(const tessera_artifact* artifact, tessera_session* session,
                                              RunBuffers& buffers, int repeat) {
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
    rows.push_back({millisecondsText(medians[s]), absl::StrFormat("%.1f", gflops), info.symbol, info.name});
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

// How a run within ranges was computed: by a variant of exactly its sizes, by a larger one with loops that stop at the
// run's size, or by a larger one completely.
std::string wayOf(const std::vector<RangeUse>& ranges, double work) {
  const bool exact = std::all_of(ranges.begin(), ranges.end(), [](const auto& each) { return each.size == each.room; });
  return exact ? "exact" : work < 1 ? "counted" : "padded";
}

tessera_memory_info memoryOf(const tessera_session* session) {
  tessera_memory_info memory{};
  tessera_session_memory(session, &memory);
  return memory;
}

// Memory use of the latest run.
std::string memoryJson(const tessera_artifact* artifact, const tessera_session* session) {
  const tessera_memory_info memory = memoryOf(session);
  return absl::StrFormat(R"(,"memory":{"weights_bytes":%d,"prepared_bytes":%d,"arena_bytes":%d,)"
                         R"("workspace_bytes":%d,"scratch_bytes_per_thread":%d})",
                         memory.weights_bytes, tessera_artifact_prepared_bytes(artifact), memory.arena_bytes,
                         memory.workspace_bytes, memory.scratch_bytes);
}

// "intermediates in 780.0 KiB of 6.2 MiB": the run's use, and the use of the variant's greatest sizes.
std::string arenaText(const tessera_artifact* artifact, size_t variant, const tessera_session* session) {
  tessera_variant_info info{};
  tessera_artifact_variant(artifact, variant, &info);
  const int64_t taken = memoryOf(session).arena_bytes;
  return absl::StrCat("intermediates in ", bytesText(taken),
                      taken < info.arena_bytes ? absl::StrCat(" of ", bytesText(info.arena_bytes)) : "");
}

std::string rangesJson(const std::vector<RangeUse>& ranges, double work) {
  std::string list;
  for (const RangeUse& range : ranges) {
    absl::StrAppend(&list, list.empty() ? "" : ",", "{\"dimension\":", jsonString(range.dimension),
                    ",\"size\":", range.size, ",\"room\":", range.room, "}");
  }
  return absl::StrCat(",\"ranges\":[", list, "],\"way\":\"", wayOf(ranges, work), "\",\"work\":", work);
}

// "N=5 ran in the variant for N<=8, by count: 63 % of its operations".
std::string rangesText(const std::vector<RangeUse>& ranges, double work) {
  std::string sizes, rooms, padded;
  for (const RangeUse& range : ranges) {
    absl::StrAppend(&sizes, sizes.empty() ? "" : " ", range.dimension, "=", range.size);
    absl::StrAppend(&rooms, rooms.empty() ? "" : " ", range.dimension, "<=", range.room);
    if (range.size < range.room)
      absl::StrAppend(&padded, ", ", range.room - range.size, " of ", range.room,
                      ranges.size() > 1 ? " " + range.dimension : "", " padded");
  }
  const std::string way = wayOf(ranges, work);
  return absl::StrCat(sizes, " ran in the variant for ", rooms, way == "exact" ? ", exact" : padded,
                      way == "counted" ? absl::StrFormat(", by count: %.0f %% of its operations", work * 100) : "");
}

// The handler of a signal in generated code. It may call functions that are not async-signal-safe: the thread was in
// generated code, hence in no library function.
template <bool json>
void endByFault(const char* sentence) {
  const int code = reportError(generatedCodeCrashed(sentence), json);
  std::cout.flush();
  _exit(code);
}

int follow(const CommandLine& line, const RunFlags& flags) {
  FollowOptions run{flags.follow, flags.inputs, flags.trust, flags.output_folder, flags.threads};
  if (!flags.window.empty()) {
    auto window = parseDuration(flags.window);
    if (!window.ok()) return reportError(window.status(), line.json);
    run.window_us = *window;
  }
  tessera_report_faults(line.json ? endByFault<true> : endByFault<false>);
  return followJob(line, run);
}

// Runs the artifact on the simulator if it is for a described chip; otherwise returns nothing.
// `file`: null if it does not open as an artifact.
std::optional<int> runIfSimulated(const CommandLine& line, const RunFlags& flags, const compiler::ArtifactFile* file) {
  const bool simulated = file != nullptr && compiler::simulator::SimulatedArtifact::isOne(*file);
  if (!simulated && file != nullptr && flags.simulated.any())
    return reportError(absl::InvalidArgumentError("--timeline and --cost-only need an artifact for a described chip; "
                                                  "this one has machine code: `--steps` times its kernels"),
                       line.json);
  if (!simulated) return std::nullopt;
  if (flags.state || !flags.state_in.empty() || !flags.state_out.empty())
    return reportError(absl::InvalidArgumentError("the artifact is a program of a described chip, which has no state"),
                       line.json);
  if (flags.sandbox.on || flags.guard || flags.repeat > 1 || flags.warmup > 0 || flags.threads > 1)
    return reportError(
        absl::InvalidArgumentError(
            "the artifact is a program of a described chip and runs once on the simulator, which has the "
            "same result each time: leave --sandbox, --guard, --repeat, --warmup and --threads out"),
        line.json);
  return runSimulated(line, {.file = *file,
                             .inputs = flags.inputs,
                             .output_folder = flags.output_folder,
                             .steps = flags.steps,
                             .verify_weights = flags.verify,
                             .flags = flags.simulated});
}

// Runs the artifact on an OpenCL device if it is for one; otherwise returns nothing. `file`: null if it does not open
// as an artifact. The driver compiles and runs its source with the rights of this process, so the source must be
// trusted as machine code must; `open` checks that and opens the file again.
std::optional<int> runIfOpenCl(const CommandLine& line, const RunFlags& flags, const compiler::ArtifactFile* file,
                               const std::function<absl::Status(compiler::ArtifactFile&)>& open) {
  if (file == nullptr || !compiler::opencl::OpenClArtifact::isOne(*file)) return std::nullopt;
  if (flags.sandbox.on || flags.guard || flags.threads > 1 || flags.simulated.any())
    return reportError(absl::InvalidArgumentError(
                           "the artifact is a program for OpenCL devices, whose driver decides how it runs: leave "
                           "--sandbox, --guard, --threads, --timeline and --cost-only out"),
                       line.json);
  OpenClRunRequest request{.file = {},
                           .inputs = flags.inputs,
                           .output_folder = flags.output_folder,
                           .repeat = flags.repeat,
                           .warmup = flags.warmup,
                           .steps = flags.steps,
                           .verify_weights = flags.verify};
  if (absl::Status status = open(request.file); !status.ok()) return reportError(status, line.json);
  return runOpenCl(line, request);
}

absl::Status openFile(int fd, compiler::ArtifactFile& file) {
  const compiler::RuntimeStatus status = compiler::ArtifactFile::openFd(fd, &file);
  return status.ok() ? absl::OkStatus() : absl::InvalidArgumentError(status.message());
}

int runInSandbox(const CommandLine& line, const RunFlags& flags) {
  return runSandboxed(
      line, flags.sandbox,
      {flags.artifact, flags.inputs, flags.output_folder, flags.repeat, flags.warmup, flags.threads, flags.steps});
}

const compiler::ArtifactFile* ifOpened(const compiler::RuntimeStatus& status, const compiler::ArtifactFile& file) {
  return status.ok() ? &file : nullptr;
}

// Runs an artifact of machine code in this process.
int runMachineCode(const CommandLine& line, const RunFlags& flags, LocalArtifact artifact) {
  RunBuffers buffers;
  LocalState state(nullptr, &tessera_state_destroy);
  if (flags.state || !flags.state_in.empty() || !flags.state_out.empty()) {
    auto made = createState(artifact.get(), flags.state_in);
    if (!made.ok()) return reportError(made.status(), line.json);
    state = *std::move(made);
    buffers.state = state.get();
  }
  if (absl::Status status = buffers.prepare(artifact.get(), flags.inputs); !status.ok()) {
    return reportError(status, line.json);
  }
  auto created = createSession(artifact.get(), flags.threads, buffers.variant);
  if (!created.ok()) return reportError(created.status(), line.json);
  const LocalSession session = *std::move(created);

  tessera_report_faults(line.json ? endByFault<true> : endByFault<false>);
  auto times_ms = timeRuns(session.get(), flags, buffers);
  if (!times_ms.ok()) return reportError(times_ms.status(), line.json);
  if (!flags.state_out.empty()) {
    const tessera_status code = tessera_state_save(state.get(), flags.state_out.c_str());
    if (code != TESSERA_OK) return reportError(runtimeError(code), line.json);
  }
  OutputFolder folder(flags.output_folder);
  std::vector<v1::TensorSpec> written;  // outputs that the state does not keep
  for (size_t i = 0; i < buffers.out.size(); ++i)
    if (buffers.out[i].data != nullptr) written.push_back(buffers.output_specs[i]);
  if (!flags.output_folder.empty()) {
    for (size_t i = 0; i < buffers.out.size(); ++i) {
      if (buffers.out[i].data == nullptr) continue;
      absl::Status status = folder.write(buffers.output_specs[i], {static_cast<const char*>(buffers.out[i].data),
                                                                   static_cast<size_t>(buffers.out_bytes[i])});
      if (!status.ok()) return reportError(status, line.json);
    }
  }
  std::vector<double> step_medians;
  if (flags.steps) {
    auto medians = timeSteps(artifact.get(), session.get(), buffers, flags.repeat);
    if (!medians.ok()) return reportError(medians.status(), line.json);
    step_medians = std::move(*medians);
  }

  const double work = tessera_session_work(session.get());
  const Latency latency = summarize(*std::move(times_ms));
  if (line.json) {
    std::cout << absl::StrFormat(
        R"({"latency_ms":{"median":%.6f,"min":%.6f,"p90":%.6f,"p99":%.6f,"max":%.6f},"runs":%d,"threads":%d,"outputs":%s%s%s%s%s})",
        latency.median, latency.min, latency.p90, latency.p99, latency.max, latency.runs, flags.threads,
        outputsJson(written, folder.files()), flags.guard ? ",\"guarded\":true" : "",
        buffers.ranges.empty() ? "" : rangesJson(buffers.ranges, work), memoryJson(artifact.get(), session.get()),
        flags.steps ? ",\"steps\":" + stepsJson(artifact.get(), buffers.variant, step_medians) : "");
    std::cout << "\n";
    return 0;
  }
  std::cout << latency.text() << ", " << flags.threads << (flags.threads == 1 ? " thread" : " threads")
            << (flags.guard ? ", guarded: every kernel stayed within its memory\n" : "\n");
  if (!buffers.ranges.empty())
    std::cout << rangesText(buffers.ranges, work) << "; " << arenaText(artifact.get(), buffers.variant, session.get())
              << "\n";
  if (flags.steps) std::cout << stepTable(artifact.get(), buffers.variant, step_medians);
  for (size_t i = 0; i < written.size(); ++i) {
    const v1::TensorSpec& spec = written[i];
    std::cout << "  " << spec.name() << ": " << typeText(spec) << inFile(folder, i) << "\n";
  }
  return 0;
}

// The artifact of --job is one version; versions published later do not affect this command.
int runOfJob(const CommandLine& line, const RunFlags& flags) {
  auto connected = line.connect();
  if (!connected.ok()) return reportError(connected.status(), line.json);
  auto version = versionToRun(**connected, flags.job, flags.version);
  if (!version.ok()) return reportError(version.status(), line.json);
  auto fetched = FetchedFile::fetch(**connected, *version);
  if (!fetched.ok()) return reportError(fetched.status(), line.json);
  compiler::ArtifactFile file;
  if (const auto code =
          runIfSimulated(line, flags, ifOpened(compiler::ArtifactFile::openFd(fetched->fd(), &file), file)))
    return *code;
  const auto open = [&](compiler::ArtifactFile& opened) {
    if (!flags.trust.untrusted)
      TESSERA_RETURN_IF_ERROR(checkTrusted(**connected, version->artifact_id(), version->artifact(), flags.trust.file));
    return openFile(fetched->fd(), opened);
  };
  if (const auto code = runIfOpenCl(line, flags, file.entries().empty() ? nullptr : &file, open)) return *code;
  auto loaded = loadFetched(*fetched, **connected, *version, flags.trust, flags.verify);
  if (!loaded.ok()) return reportError(loaded.status(), line.json);
  return runMachineCode(line, flags, *std::move(loaded));
}

int run(const CommandLine& line, const RunFlags& flags) {
  if (!flags.job.empty()) return runOfJob(line, flags);
  if (!flags.follow.empty()) return follow(line, flags);
  compiler::ArtifactFile file;
  // A file that does not open as an artifact is reported when it is loaded.
  if (const auto code =
          runIfSimulated(line, flags, ifOpened(compiler::ArtifactFile::open(flags.artifact, &file), file)))
    return *code;
  const auto open = [&](compiler::ArtifactFile& opened) {
    return withTrustedFile(flags.artifact, flags.trust, [&](int fd) { return openFile(fd, opened); });
  };
  if (const auto code = runIfOpenCl(line, flags, file.entries().empty() ? nullptr : &file, open)) return *code;
  if (flags.sandbox.on) return runInSandbox(line, flags);
  auto loaded = loadArtifact(flags.artifact, flags.trust, flags.verify);
  if (!loaded.ok()) return reportError(loaded.status(), line.json);
  return runMachineCode(line, flags, *std::move(loaded));
}

}  // namespace

void addRunCommand(CommandLine& line) {
  CLI::App* command = line.add("run", "Run an artifact file in this process");
  auto flags = std::make_shared<RunFlags>();
  auto* artifact = command->add_option("ARTIFACT", flags->artifact, "a .tsra file");
  auto* followed = command->add_option("--follow", flags->follow,
                                       "instead of a file: the newest version of this tune job's artifact, replaced by "
                                       "newer ones between two runs, until the job ends");
  followed->excludes(artifact);
  auto* job = command->add_option("--job", flags->job,
                                  "instead of a file: this job's artifact; for a tune job its current version");
  job->excludes(artifact)->excludes(followed);
  command->add_option("--version", flags->version, "with --job: this version of a tune job")
      ->needs(job)
      ->check(positive());
  command->add_option("--for", flags->window, "with --follow: stop after this time, e.g. 60s")->needs(followed);
  command->add_option("-i,--input", flags->inputs.files, "NAME=FILE.npy or FILE.npz; repeat for each input");
  flags->inputs.shapes.addChoiceTo(command);
  command->add_option("-o,--output-dir", flags->output_folder, "write DIR/<output>.npy and print the names");
  command->add_option("--repeat", flags->repeat, "timed runs")->capture_default_str()->check(CLI::Range(1, 10'000'000));
  command->add_option("--warmup", flags->warmup, "warm-up runs")->capture_default_str()->check(nonNegative());
  command->add_option("--threads", flags->threads)
      ->capture_default_str()
      ->check(CLI::Range(1, static_cast<int>(TESSERA_MAX_THREADS)));
  auto* random = command->add_flag("--random", flags->inputs.random, "generate seeded values for missing inputs");
  command->add_option("--seed", flags->inputs.seed, "for --random")->capture_default_str()->needs(random);
  auto* steps = command->add_flag("--steps", flags->steps, "time each fused group as well");
  auto* guard =
      command
          ->add_flag(
              "--guard", flags->guard,
              "detect kernels that access memory outside their operands: place operands between inaccessible pages, at "
              "both ends alternately (at least two runs, which must agree); takes about ten times as long")
          ->excludes(steps);
  auto* state =
      command->add_flag("--state", flags->state,
                        "keep the artifact's state (`compile --state`) from run to run, from its initial value on");
  auto* state_in = command->add_option("--state-in", flags->state_in, "begin with the state in this safetensors file");
  auto* state_out =
      command->add_option("--state-out", flags->state_out, "write the state after the last run to this file");
  for (auto* option : {state, state_in, state_out}) option->excludes(guard)->excludes(steps)->excludes(followed);
  flags->trust.addTo(command);
  command->add_flag("--verify", flags->verify, "also check the checksum of the weights");
  auto* sandbox = flags->sandbox.addTo(command)->needs(artifact)->excludes(guard);
  for (auto* option : {state, state_in, state_out}) option->excludes(sandbox);
  flags->simulated.addTo(command);
  command->callback([&line, flags] {
    if (flags->artifact.empty() && flags->follow.empty() && flags->job.empty())
      throw CLI::RequiredError("ARTIFACT, --job or --follow");
    line.action = [&line, flags] { return run(line, *flags); };
  });
}

}  // namespace tessera::client
