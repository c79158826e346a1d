#include "workers/standalone_sandbox.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "proto/messages/element_size.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"
#include "proto/version/version.h"
#include "workers/file_digest.h"
#include "workers/output_names.h"

namespace tessera::worker {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMinMemory = int64_t{4} << 30;  // minimum to map and start the task program

int64_t memoryOfMachine() { return sysconf(_SC_PHYS_PAGES) * int64_t{sysconf(_SC_PAGESIZE)}; }

absl::Status unusable(const std::string& what) {
  return failureStatus(v1::Failure::SANDBOX_VIOLATION,
                       absl::StrCat("the task left a result that cannot be used: ", what));
}

/// Size of a tensor of this description; an error if generated code has returned an invalid one.
absl::StatusOr<int64_t> bytesOf(const v1::TensorSpec& spec) {
  int64_t bytes = elementBytes(spec.dtype());
  if (!v1::DataType_IsValid(spec.dtype()) || spec.dtype() == v1::DATA_TYPE_UNSPECIFIED)
    return unusable(absl::StrCat("an output of type ", static_cast<int>(spec.dtype())));
  for (const int64_t extent : spec.shape()) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) {
      return unusable(absl::StrCat("an output with an extent of ", extent));
    }
  }
  return bytes;
}

/// Reads an output file of the task, which may have put any kind of file there.
absl::StatusOr<std::string> contentOf(const std::string& path, int64_t bytes) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat facts{};
  if (!file.valid() || fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size != bytes) {
    return unusable("an output without its file");
  }
  std::string content(static_cast<size_t>(bytes), '\0');
  for (int64_t done = 0; done < bytes;) {
    const ssize_t got = pread(file.get(), content.data() + done, static_cast<size_t>(bytes - done), done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return unusable("a truncated output");
    done += got;
  }
  return content;
}

absl::Status takeOutputs(const AttemptFolder& folder, int64_t most, v1::ExecuteResult& result) {
  int64_t left = most;
  for (int i = 0; i < result.outputs_size(); ++i) {
    v1::TensorValue& output = *result.mutable_outputs(i);
    TESSERA_ASSIGN_OR_RETURN(const auto bytes, bytesOf(output.spec()));
    if (bytes > left) return unusable(absl::StrCat("outputs of more than its memory limit of ", most, " bytes"));
    left -= bytes;
    if (output.value_case() != v1::TensorValue::kData) {
      TESSERA_ASSIGN_OR_RETURN(auto content, contentOf(folder.output(outputFileName(i)), bytes));
      output.set_data(std::move(content));
    }
    if (static_cast<int64_t>(output.data().size()) != bytes) return unusable("an output of the wrong size");
  }
  return absl::OkStatus();
}

absl::Status place(const std::string& from, const std::string& to) {
  std::error_code error;
  // A hard link needs no copy. Unlike a symbolic link it works inside the sandbox, which does not contain the source
  // path.
  fs::create_hard_link(from, to, error);
  return error ? absl::ErrnoToStatus(error.value(), to) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StandaloneSandbox>> StandaloneSandbox::open(const StandaloneSandboxOptions& options) {
  if (access(options.binary.c_str(), X_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("the sandbox runs artifacts in the program tessera-task, which is not at ",
                                            options.binary, " (it comes with the package tessera-worker)"));
  }
  std::unique_ptr<StandaloneSandbox> lone(new StandaloneSandbox);
  std::error_code error;
  lone->root_ = (fs::temp_directory_path(error) / "tessera-run-XXXXXX").string();
  if (error || mkdtemp(lone->root_.data()) == nullptr) return absl::ErrnoToStatus(errno, lone->root_);
  TESSERA_ASSIGN_OR_RETURN(lone->scratch_, Scratch::open(lone->root_));
  fs::create_directories(lone->scratch_->cacheFolder(), error);
  adoptOrphans();
  TESSERA_ASSIGN_OR_RETURN(auto plan, planSandbox(options.sandbox, lone->scratch_->attemptsFolder()));
  TESSERA_RETURN_IF_ERROR(checkMeasures(options.required, plan.measures));
  lone->runner_.binary = options.binary;
  lone->runner_.sandbox = std::move(plan);
  lone->runner_.default_memory_bytes =
      options.memory_bytes > 0 ? options.memory_bytes : std::max(kMinMemory, memoryOfMachine());
  lone->runner_.build = compilerVersion();
  lone->runner_.forks = std::make_shared<ForkServer>(options.binary, lone->runner_.build);
  const absl::Status started = lone->runner_.forks->start();
  if (absl::IsAborted(started)) {
    return absl::AbortedError(absl::StrCat(options.binary, " and this command (", lone->runner_.build,
                                           ") are of different builds; build or install all programs together"));
  }
  if (!started.ok()) return absl::InternalError(started.message());
  return lone;
}

StandaloneSandbox::~StandaloneSandbox() {
  std::error_code ignored;
  scratch_.reset();
  if (!root_.empty()) fs::remove_all(root_, ignored);
}

absl::StatusOr<v1::Digest> StandaloneSandbox::takeArtifact(const std::string& path) {
  // The user could change or delete the original file during the run. The digest is that of the copy.
  const std::string copy = scratch_->cacheFolder() + "/artifact";
  std::error_code error;
  if (!fs::exists(path, error)) return absl::NotFoundError(absl::StrCat("there is no file ", path));
  if (!fs::is_regular_file(path, error)) return absl::InvalidArgumentError(absl::StrCat(path, " is not a file"));
  fs::copy_file(path, copy, fs::copy_options::overwrite_existing, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot copy ", path, " to ", copy));
  auto digest = digestFile(copy);
  if (digest.ok()) artifact_ = *digest;
  return digest;
}

absl::StatusOr<v1::TaskResult> StandaloneSandbox::run(v1::TaskSpec task,
                                                      const std::map<std::string, std::string>& files,
                                                      Cancellation& cancellation) {
  TESSERA_ASSIGN_OR_RETURN(auto folder, scratch_->newAttempt());
  const std::string artifact = folder.input(artifact_.sha256());
  TESSERA_RETURN_IF_ERROR(place(scratch_->cacheFolder() + "/artifact", artifact));
  *task.add_inputs() = artifact_;
  for (const auto& [sha256, bytes] : files) {
    if (sha256 == artifact_.sha256()) continue;
    std::ofstream out(folder.input(sha256), std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) return absl::ResourceExhaustedError(absl::StrCat("cannot write ", folder.input(sha256)));
    v1::Digest& digest = *task.add_inputs();
    digest.set_sha256(sha256);
    digest.set_size_bytes(static_cast<int64_t>(bytes.size()));
  }
  v1::TaskResult result = runTask(runner_, task, folder, [](const v1::Progress&) {}, cancellation);
  if (!result.has_failure() && result.has_execute() != (task.kind() == v1::EXECUTE)) {
    return unusable("a result of another kind of task");
  }
  if (result.has_execute()) {
    if (absl::Status taken = takeOutputs(folder, runner_.default_memory_bytes, *result.mutable_execute()); !taken.ok())
      return taken;
  }
  return result;
}

absl::StatusOr<v1::TaskResult> StandaloneSandbox::plan(
    v1::TaskSpec task, const std::map<std::string, std::string>& files, Cancellation& cancellation,
    const std::function<void(const v1::Progress&)>& on_progress,
    const std::function<absl::Status(const std::string& outputs)>& take) {
  TESSERA_ASSIGN_OR_RETURN(auto folder, scratch_->newAttempt());
  task.set_kind(v1::PLAN);
  task.clear_inputs();
  for (const auto& [sha256, path] : files) {
    std::error_code error;
    // Copied, not linked: a task's user may get its inputs with other permissions.
    fs::copy_file(path, folder.input(sha256), error);
    if (error) return absl::InvalidArgumentError(absl::StrCat("cannot read ", path, ": ", error.message()));
    v1::Digest& digest = *task.add_inputs();
    digest.set_sha256(sha256);
    digest.set_size_bytes(static_cast<int64_t>(fs::file_size(folder.input(sha256), error)));
  }
  v1::TaskResult result = runTask(runner_, task, folder, on_progress, cancellation);
  if (result.has_failure()) return result;
  if (!result.has_plan()) return unusable("a result of another kind of task");
  if (absl::Status taken = take(folder.path() + "/out"); !taken.ok()) return taken;
  return result;
}

}  // namespace tessera::worker
