// tessera-worker: leases tasks from a tesserad and runs each in a child process.

#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "proto/support/cli11.h"
#include "proto/support/log_format.h"
#include "proto/support/parent_exit.h"
#include "proto/support/status_macros.h"
#include "proto/support/worker_exit.h"
#include "proto/version/version.h"
#include "workers/describe_host.h"
#include "workers/sandbox/measures.h"
#include "workers/worker.h"

namespace {

using namespace tessera;
using namespace tessera::worker;

/// Minimum to map and start the task program.
constexpr int64_t kMinMemory = int64_t{4} << 30;

std::map<std::string, v1::TaskKind> taskKinds() {
  return {{"plan", v1::PLAN},       {"build", v1::BUILD},     {"assemble", v1::ASSEMBLE}, {"execute", v1::EXECUTE},
          {"profile", v1::PROFILE}, {"analyze", v1::ANALYZE}, {"search", v1::SEARCH},     {"measure", v1::MEASURE}};
}

std::string hostname() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::string binaryBesideThis() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "tessera-task";
}

/// Reads an inherited descriptor and closes it, so that no task process gets it.
std::string readInherited(int fd) {
  std::string text(4096, '\0');
  const ssize_t got = read(fd, text.data(), text.size());
  close(fd);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

struct Flags {
  int token_fd = -1;
  WorkerOptions options;
  std::string id = hostname() + "-" + std::to_string(getpid());
  std::vector<v1::TaskKind> kinds;
  int slots = 1;
  int sharing = 1;
  int measuring_cores = 1;
  std::string log_level = "info";
  std::string log_format = "text";
  bool die_with_parent = false;
  bool give_back = false;
  double idle_limit_s = 0;
  bool execute_tasks = false;
  bool no_huge_pages = false;
  SandboxOptions sandbox{.scratch_bytes = int64_t{64} << 30};
  bool no_namespaces = false;
  std::vector<std::string> require_sandbox;
};

// SIGTERM and SIGINT drain; a second one stops at once, as does SIGQUIT, which the kernel sends with --die-with-parent.
// With `give_back` the first one does. The thread runs until the process ends.
void handleSignals(Worker& worker, const sigset_t& signals, bool give_back) {
  bool draining = give_back;
  while (true) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    if (draining || signal == SIGQUIT) {
      spdlog::warn("signal {}: stopping at once", signal);
      worker.stop();
    } else {
      spdlog::info("signal {}: finishing the current tasks, then exiting", signal);
      worker.drain();
      draining = true;
    }
  }
}

/// Determines the sandbox of tasks; an exit code if less is in force than required.
absl::StatusOr<SandboxPlan> planned(Flags& flags) {
  flags.sandbox.namespaces = !flags.no_namespaces;
  flags.sandbox.forks = !flags.execute_tasks;
  flags.sandbox.tasks = int64_t{flags.slots} * flags.sharing;
  std::error_code error;
  std::filesystem::create_directories(flags.options.scratch, error);
  auto plan = planSandbox(flags.sandbox, std::filesystem::absolute(flags.options.scratch));
  if (!plan.ok()) return plan;
  TESSERA_RETURN_IF_ERROR(checkMeasures(flags.require_sandbox, plan->measures));
  return plan;
}

int run(Flags& flags, const sigset_t& signals) {
  if (flags.die_with_parent && !signalOnParentExit(SIGQUIT)) return kWorkerStopped;
  adoptOrphans();
  const auto sandbox = planned(flags);
  if (!sandbox.ok()) {
    spdlog::error("{}", std::string(sandbox.status().message()));
    return kWorkerUsage;
  }
  flags.options.runner.sandbox = *sandbox;
  // A task that owns its inputs could change them, so do not link the server's blobs then.
  if (!flags.options.blobs.empty() && !sandbox->isolation.namespaces && sandbox->isolation.uid < 0) {
    spdlog::warn("blobs are streamed instead of shared: tasks have neither namespaces nor another user");
    flags.options.blobs.clear();
  }
  auto identity = describeHost(flags.options.runner.binary);
  if (!identity.ok()) {
    spdlog::error("{}", std::string(identity.status().message()));
    return kWorkerFailed;
  }
  flags.options.runner.build = identity->compiler_version();
  flags.options.idle_limit = std::chrono::milliseconds(static_cast<int64_t>(flags.idle_limit_s * 1000));
  identity->set_worker_id(flags.id);
  identity->set_slots(flags.slots);
  identity->set_measuring_cores(flags.measuring_cores);
  identity->set_pid(getpid());
  *identity->mutable_sandbox() = sandbox->measures;
  for (v1::TaskKind kind : flags.kinds) identity->add_kinds(kind);
  if (flags.options.runner.default_memory_bytes <= 0) {
    // Address space exceeds memory in use, because mapped libraries and weights count in full. Concurrent tasks share
    // the machine.
    flags.options.runner.default_memory_bytes =
        std::max(kMinMemory, identity->host().memory_bytes() / (int64_t{flags.slots} * flags.sharing));
  }
  const int64_t tasks = int64_t{flags.slots} * flags.sharing;
  if (flags.options.runner.default_memory_bytes > identity->host().memory_bytes() / tasks) {
    spdlog::warn("{} concurrent tasks may use {} MiB each, this machine has {} MiB in total: the kernel may kill one",
                 tasks, flags.options.runner.default_memory_bytes >> 20, identity->host().memory_bytes() >> 20);
  }
  if (!flags.execute_tasks) {
    flags.options.runner.forks =
        std::make_shared<ForkServer>(flags.options.runner.binary, identity->compiler_version(), !flags.no_huge_pages);
    if (const absl::Status started = flags.options.runner.forks->start(); !started.ok()) {
      spdlog::error("{}", std::string(started.message()));
      return kWorkerFailed;
    }
  }
  flags.options.identity = *identity;
  spdlog::info("tessera-worker {} ({} slots, compiler {}) for {}", flags.id, flags.slots, identity->compiler_version(),
               flags.options.server);
  for (const v1::SandboxMeasure& measure : sandbox->measures) {
    spdlog::info("sandbox: {} {}: {}", measure.name(), measure.in_force() ? "in force" : "not in force",
                 measure.detail());
  }
  Worker worker(flags.options);
  std::thread([&] { handleSignals(worker, signals, flags.give_back); }).detach();
  const int code = worker.run();
  spdlog::info("exiting with {}", code);
  spdlog::shutdown();
  _exit(code);  // the detached thread may use `worker`; nothing needs cleanup
}

}  // namespace

int main(int argc, char** argv) {
  // Before the first thread, so that only sigwait() receives them.
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGTERM, SIGINT, SIGQUIT}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  // Debian's Abseil is built with lock-order cycle detection, also for gRPC's locks. It slows each lock, and a reported
  // cycle ends the process. Upstream's release builds do not have it.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);

  // While no call waits, gRPC polls a connection attempt only at this interval. With the default of five seconds, a TLS
  // handshake between calls that fail at once exceeds its deadline, and a restarted server is not found.
  setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "100", /*overwrite=*/0);

  Flags flags;
  flags.options.runner.binary = binaryBesideThis();
  CLI::App app("Leases tasks from a tesserad and runs each in a child process of its own.", "tessera-worker");
  app.set_version_flag("--version", releaseVersion());
  app.add_option("--server", flags.options.server,
                 "Address of tesserad for workers (its --worker-listen), e.g. build-1:7401")
      ->required();
  Identity& credential = flags.options.credential;
  app.add_option(
      "--token-file", credential.token_file,
      "File with this worker's token (tessera admin token create --role worker); read again when it changes");
  app.add_option("--token-fd", flags.token_fd, "The same, from an inherited descriptor; used by tesserad");
  app.add_option("--tls-ca", credential.ca_file, "Certificate authority of the server (PEM); enables TLS");
  app.add_option("--tls-cert", credential.certificate_file, "Certificate of this worker (PEM)");
  app.add_option("--tls-key", credential.key_file, "Private key of the certificate (PEM)");
  app.add_flag("--token-in-clear", credential.allow_plaintext_token,
               "Send the token even without TLS, where others can read it");
  app.add_option("--id", flags.id, "Name of this worker, stable across restarts")->capture_default_str();
  app.add_option("--scratch", flags.options.scratch, "Folder for inputs, outputs and the blob cache; one per worker")
      ->required();
  app.add_option("--cache-bytes", flags.options.cache_bytes, "Limit of the blob cache, e.g. 8GiB")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--step-cache,--known-steps", flags.options.step_cache_bytes,
                 "Memory for schedules, objects and linked code of small models, reused for later models with the same "
                 "layers, e.g. 64MiB; 0: off")
      ->check(CLI::Range(0.0, 1e12))
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--blobs", flags.options.blobs,
                 "The server's blob folder, on the same disk as the scratch folder: blobs are linked instead of copied")
      ->take_last();
  app.add_option("--slots", flags.slots, "Concurrent tasks")->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option("--sharing", flags.sharing, "Number of workers that share this machine's memory")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--measuring-cores", flags.measuring_cores,
                 "Cores of this machine reserved for measurements of tuning jobs; 0: this worker measures nothing")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--min-free", flags.options.min_free_bytes,
                 "Accept no task if the scratch folder's disk has less free space")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--kinds", flags.kinds, "Kinds of tasks to accept; default: all")
      ->delimiter(',')
      ->transform(CLI::CheckedTransformer(taskKinds(), CLI::ignore_case));
  app.add_option("--task-binary", flags.options.runner.binary, "The task program")
      ->check(CLI::ExistingFile)
      ->capture_default_str();
  app.add_flag("--execute-tasks", flags.execute_tasks,
               "Execute the task program for each task (separate address space layout, 50 ms each) instead of forking "
               "a started one");
  app.add_flag("--no-huge-pages", flags.no_huge_pages,
               "Do not copy the compiler's code, which all forked tasks share, to huge pages: saves 170 MB, costs a "
               "third more CPU time per small task");
  app.add_option("--memory-limit", flags.options.runner.default_memory_bytes,
                 "Address space of a task without a limit, e.g. 16GiB; default: the machine's memory, divided by tasks")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--sandbox-user", flags.sandbox.user,
                 "User that tasks run as, which should own nothing else; the worker must run as root");
  app.add_flag(
      "--no-namespaces", flags.no_namespaces,
      "Do not isolate tasks in namespaces for network, mounts and processes; default: isolate where the kernel "
      "permits it");
  app.add_option("--scratch-quota", flags.sandbox.scratch_bytes,
                 "Bytes that one task may write in its folder, e.g. 8GiB; 0: unlimited; checked five times a second")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option(
         "--require-sandbox", flags.require_sandbox,
         "Do not start unless these measures are in force (system-calls, privileges, limits, files, namespaces, "
         "user, processes, scratch), or all of them (full)")
      ->delimiter(',');
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warn, error")->capture_default_str();
  app.add_option("--log-format", flags.log_format, "text, or json: one object per line, with the ids of tasks and jobs")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_flag("--give-back", flags.give_back,
               "SIGTERM stops at once and gives the running tasks back to the server, for machines that end soon after "
               "it (spot instances, preempted batch jobs); default: the running tasks may finish");
  app.add_option("--exit-when-idle", flags.idle_limit_s,
                 "Exit with 0 after this number of seconds without a task; 0: never")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app.add_flag("--die-with-parent", flags.die_with_parent, "Stop at once when the process that started this one ends");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWorkerUsage;
  }
  umask(0077);  // models and artifacts are readable by their owner only
  if (flags.token_fd >= 0) {
    credential.token = readInherited(flags.token_fd);
  } else {
    credential = withEnvironment(credential);
  }
  spdlog::set_level(spdlog::level::from_str(flags.log_level));
  spdlog::set_formatter(flags.log_format == "json" ? jsonLogFormat("tessera-worker", {{"worker", flags.id}})
                                                   : logFormat(false));
  spdlog::flush_on(spdlog::level::info);
  return run(flags, signals);
}
