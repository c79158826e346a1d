#include "workers/describe_host.h"

#include "absl/strings/str_cat.h"
#include "workers/child_exit.h"
#include "workers/child_process.h"
#include "workers/spawn.h"

namespace tessera::worker {

absl::StatusOr<v1::RegisterWorkerRequest> describeHost(const std::string& task_binary) {
  ChildSpec spec;
  spec.argv = {task_binary, "--describe"};
  spec.environment = cleanEnvironment();
  spec.working_folder = "/";
  spec.run_timeout = Milliseconds(30'000);
  std::string answer;
  auto child = ChildProcess::start(spec, [&](std::string_view bytes) { answer.append(bytes); });
  if (!child.ok()) return child.status();
  const ChildExit end = (*child)->wait();
  v1::RegisterWorkerRequest description;
  if (!end.exited || end.exit_code != 0 || !description.ParseFromString(answer) ||
      description.compiler_version().empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        task_binary, " does not describe this machine: ",
        end.exited && end.exit_code == 0 ? "its description cannot be parsed" : failureOfExit(end, spec).message()));
  }
  return description;
}

}  // namespace tessera::worker
