// tessera-task: executes one task in one process; started by tessera-worker.

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/driver/pipeline.h"
#include "compiler/driver/warm_up.h"
#include "compiler/target/host.h"
#include "llvm/Support/ErrorHandling.h"
#include "proto/messages/failure.h"
#include "proto/support/cli11.h"
#include "proto/version/version.h"
#include "tessera/v1/worker_service.pb.h"
#include "workers/exit_codes.h"
#include "workers/huge_pages.h"
#include "workers/sandbox/memory_faults.h"
#include "workers/serve_forks.h"
#include "workers/task/task_kinds.h"

namespace {

using namespace tessera;
using namespace tessera::worker;

[[noreturn]] void leave(int code, absl::string_view why) {
  fprintf(stderr, "tessera-task: %.*s\n", static_cast<int>(why.size()), why.data());
  _exit(code);
}

// Writes a description of this machine, this build and the operators that it imports to descriptor 3.
int describe() {
  v1::RegisterWorkerRequest description;
  *description.mutable_host() = compiler::hostInfo();
  description.set_compiler_version(compilerVersion());
  for (v1::OperatorInfo& info : compiler::operators()) *description.add_operators() = std::move(info);
  return writeAll(3, description.SerializeAsString(), "description").ok() ? 0 : kTaskCannotReport;
}

// Restricts the process and its future threads to these CPUs.
void setAffinity(const v1::TaskSpec& spec) {
  if (spec.cpus().empty()) return;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (const int cpu : spec.cpus()) {
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(static_cast<size_t>(cpu), &cpus);
  }
  if (sched_setaffinity(0, sizeof(cpus), &cpus) != 0) leave(kTaskCannotStart, "cannot set the CPU affinity");
}

void run(const std::string& scratch, const std::string& profile_name) {
  const auto profile = parseProfile(profile_name);
  if (!profile.ok()) leave(kTaskCannotStart, profile.status().message());
  const auto task = TaskContext::open(scratch);
  if (!task.ok()) leave(kTaskCannotStart, task.status().message());
  const v1::TaskSpec& spec = (*task)->spec();
  const TaskKindEntry* kind = findTaskKind(spec.kind());
  if (kind == nullptr || kind->payload != spec.payload_case() || kind->profile != *profile) {
    leave(kTaskCannotStart, absl::StrCat("a task of kind ", spec.kind(), " with payload ", spec.payload_case(),
                                         " under profile ", profile_name, " is not accepted"));
  }
  setAffinity(spec);
  if (const auto entered = enterCompileProfile(scratch); !entered.ok()) {
    leave(kTaskCannotStart, entered.status().message());
  }

  absl::StatusOr<v1::TaskResult> result = kind->run(**task);
  if (!result.ok()) {
    v1::TaskResult failed;
    *failed.mutable_failure() = failureOf(result.status());
    result = failed;
  }
  const absl::Status written = (*task)->writeResult(*result);
  if (!written.ok()) leave(kTaskCannotReport, written.message());
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments.front() == kServeFlag) {
    // A failure here also occurs in the first task, and is reported there.
    (void)compiler::warmUp();
    if (arguments.back() == kManyFlag) moveToHugePages();
    arguments = serveForks(compilerVersion());
  }
  exitWhenMemoryRunsOut();
  llvm::install_bad_alloc_error_handler([](void*, const char*, bool) { exitOutOfMemory(); });
  CLI::App app("Executes the task in a scratch folder: reads task.pb and in/, writes result.pb and out/.",
               "tessera-task");
  std::string scratch;
  std::string profile;
  bool describe_host = false;
  auto* folder = app.add_option("scratch", scratch, "The scratch folder");
  app.add_option("--profile", profile, "Sandbox profile: compile or execute")->needs(folder);
  std::string build;
  app.add_option("--build", build, "Run only if this program is of that build (--version)")->needs(folder);
  app.add_flag("--describe", describe_host,
               "Write a message with this host, compiler version and operators to descriptor 3")
      ->excludes(folder);
  bool serve = false;
  auto* serving = app.add_flag(kServeFlag, serve, "Fork a process for each request on descriptor 3")->excludes(folder);
  bool many = false;
  app.add_flag(kManyFlag, many, "Expect many requests: move the compiler's code to huge pages first")->needs(serving);
  app.set_version_flag("--version", compilerVersion());
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 consumes the vector from the back
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  if (describe_host) _exit(describe());
  if (!build.empty() && build != compilerVersion()) {
    leave(kTaskOtherBuild, absl::StrCat("this is build ", compilerVersion(), ", the worker started with ", build));
  }
  run(scratch, profile);
  // Destroying a compiler takes longer than a small task; the kernel frees its memory anyway.
  _exit(0);
}
