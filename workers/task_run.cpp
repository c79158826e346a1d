#include "workers/task_run.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "workers/child_exit.h"
#include "workers/exit_codes.h"
#include "workers/output_names.h"
#include "workers/progress_stream.h"
#include "workers/spawn.h"

namespace tessera::worker {
namespace {

constexpr int64_t kCompileFileBytes = int64_t{64} << 30;  // size of a weights section
constexpr int64_t kExecuteFileBytes = int64_t{4} << 30;   // size of one output tensor
constexpr int64_t kOpenFiles = 256;
constexpr int64_t kResultBytes = 64 << 20;
constexpr int64_t kSpareCpuSeconds = 10;  // the deadline is in wall-clock time; this limit applies if the clock fails

bool runsGeneratedCode(v1::TaskKind kind) { return kind == v1::EXECUTE || kind == v1::PROFILE || kind == v1::MEASURE; }

v1::TaskResult failed(v1::Failure failure) {
  v1::TaskResult result;
  *result.mutable_failure() = std::move(failure);
  return result;
}

v1::TaskResult failedHere(std::string message) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::WORKER_FAULT);
  failure.set_message(std::move(message));
  return failed(std::move(failure));
}

bool writeFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file.good();
}

// Reads a result. It is complete, because the process exited with 0 after writing it.
bool readResult(const std::string& path, v1::TaskResult& result) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  if (error || !std::filesystem::is_regular_file(status)) return false;
  if (std::filesystem::file_size(path, error) > kResultBytes || error) return false;
  std::ifstream file(path, std::ios::binary);
  return result.ParseFromIstream(&file) && (result.has_failure() || result.payload_case() != 0);
}

// Reads the step results that the task left; empty if there is no valid file.
std::string readSteps(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status{};
  if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > kMaxStepBytes)
    return "";
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t more = read(file.get(), bytes.data() + got, bytes.size() - got);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) break;
    got += static_cast<size_t>(more);
  }
  bytes.resize(got);
  return bytes;
}

}  // namespace

ChildSpec childSpecFor(const TaskRunner& runner, const v1::TaskSpec& task, const std::string& folder) {
  const bool execute = runsGeneratedCode(task.kind());
  ChildSpec spec;
  // Use a relative path, since the parents of the folder are closed to another user.
  spec.argv = {runner.binary, "..", "--profile", execute ? "execute" : "compile"};
  if (!runner.build.empty()) spec.argv.insert(spec.argv.end(), {"--build", runner.build});
  spec.environment = cleanEnvironment();
  for (const char* name : {"HOME", "TMPDIR"}) spec.environment.push_back(absl::StrCat(name, "=."));
  spec.working_folder = folder + "/tmp";
  spec.isolation = runner.sandbox.isolation;
  spec.isolation.folder = folder;
  spec.scratch = folder;
  spec.scratch_bytes = runner.sandbox.scratch_bytes;
  spec.generated_code = execute;
  spec.kill_grace = runner.kill_grace;
  spec.run_timeout = Milliseconds((task.run_timeout_us() + 999) / 1000);
  spec.limits.address_space_bytes =
      task.memory_limit_bytes() > 0 ? task.memory_limit_bytes() : runner.default_memory_bytes;
  spec.limits.file_bytes = execute ? kExecuteFileBytes : kCompileFileBytes;
  spec.limits.open_files = kOpenFiles;
  spec.limits.processes = runner.sandbox.processes;
  if (spec.run_timeout.count() > 0) {
    // CPU time adds up over threads, so allow it on all cores for the whole timeout.
    const int64_t cores = std::max(1U, std::thread::hardware_concurrency());
    spec.limits.cpu_seconds = (spec.run_timeout.count() / 1000 + 1) * cores + kSpareCpuSeconds;
  }
  return spec;
}

v1::TaskResult runTask(const TaskRunner& runner, const v1::TaskSpec& task, const AttemptFolder& folder,
                       const std::function<void(const v1::Progress&)>& on_progress, Cancellation& attempt,
                       SharedStepCache* steps) {
  if (!writeFile(folder.path() + "/task.pb", task.SerializeAsString())) {
    return failedHere(absl::StrCat("cannot write ", folder.path(), "/task.pb; is the worker's disk full?"));
  }
  const Isolation& isolation = runner.sandbox.isolation;
  const bool of_another = isolation.uid >= 0;
  if (of_another) {
    if (absl::Status given = folder.giveTo(isolation.uid, isolation.gid); !given.ok()) {
      return failedHere(std::string(given.message()));
    }
  }
  ChildSpec spec = childSpecFor(runner, task, folder.path());
  if (steps != nullptr) spec.step_cache = steps->descriptor();
  ProgressDecoder decoder;
  Spawn spawn;
  if (runner.forks) spawn = [&](const auto&... how) { return runner.forks->fork(how...); };
  auto child = ChildProcess::start(
      spec,
      [&](std::string_view bytes) {
        if (auto progress = decoder.feed(bytes)) on_progress(*progress);
      },
      spawn);
  if (!child.ok()) {
    if (!absl::IsAborted(child.status())) return failedHere(std::string(child.status().message()));
    if (runner.on_other_build) runner.on_other_build();
    return failed(otherBuild(std::string(child.status().message())));
  }
  ChildExit end;
  {
    const OnCancel stop(attempt, [&](StopReason reason) { (*child)->stop(reason); });
    end = (*child)->wait();
  }

  if (of_another) {
    if (absl::Status taken = folder.takeBack(); !taken.ok()) return failedHere(std::string(taken.message()));
  }
  v1::TaskResult result;
  const bool whole = end.exited && end.exit_code == 0 && end.stopped == StopReason::kNone &&
                     readResult(folder.path() + "/result.pb", result);
  if (!whole) result = failed(failureOfExit(end, spec));
  if (steps != nullptr && !result.has_failure()) addEncoded(*steps, readSteps(folder.output(kStepCacheFile)));
  if (end.exited && end.exit_code == kTaskOtherBuild && runner.on_other_build) runner.on_other_build();
  if (!end.stderr_tail.empty()) spdlog::debug("task process {} printed: {}", (*child)->pid(), end.stderr_tail);
  v1::Usage& usage = *result.mutable_usage();
  usage.set_wall_ms(end.wall_ms);
  usage.set_cpu_ms(end.cpu_ms);
  usage.set_peak_rss_bytes(end.peak_rss_bytes);
  return result;
}

}  // namespace tessera::worker
