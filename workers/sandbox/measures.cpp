#include "workers/sandbox/measures.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/messages/sandbox_measures.h"
#include "proto/support/status_macros.h"
#include "workers/sandbox/sandbox.h"

namespace tessera::worker {
namespace {

constexpr int64_t kThreadsOfTask = 2048;  // a run may request 1024

struct User {
  int64_t uid, gid;
};

absl::StatusOr<User> userNamed(const std::string& name) {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> text{};
  if (getpwnam_r(name.c_str(), &entry, text.data(), text.size(), &found) != 0 || found == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("--sandbox-user: there is no user '", name, "' on this machine"));
  }
  if (entry.pw_uid == 0 || entry.pw_uid == geteuid()) {
    return absl::InvalidArgumentError(absl::StrCat("--sandbox-user: ", name, " is ",
                                                   entry.pw_uid == 0 ? "root" : "this worker's own user",
                                                   "; accepted: a user that owns nothing else"));
  }
  return User{entry.pw_uid, entry.pw_gid};
}

v1::SandboxMeasure measureOf(const char* name, bool in_force, const std::string& detail) {
  v1::SandboxMeasure measure;
  measure.set_name(name);
  measure.set_in_force(in_force);
  measure.set_detail(detail);
  return measure;
}

v1::SandboxMeasure landlock() {
  const int abi = landlockAbi();
  return measureOf(
      "files", abi > 0,
      abi > 0 ? absl::StrCat("Landlock ABI ", abi) : "the kernel has no Landlock (5.13): file permissions only");
}

/// The namespaces that can be had, put into `isolation`.
v1::SandboxMeasure namespaces(const SandboxOptions& wishes, const std::string& folder, Isolation& isolation) {
  v1::SandboxMeasure measure = measureOf("namespaces", false, "");
  if (!wishes.namespaces || !wishes.forks) {
    measure.set_detail(wishes.namespaces ? "--execute-tasks: only forked tasks have them" : "--no-namespaces");
    return measure;
  }
  Isolation wanted = isolation;
  wanted.namespaces = true;
  wanted.user_namespace = geteuid() != 0;
  wanted.folder = folder;
  if (const absl::Status possible = testIsolation(wanted); !possible.ok()) {
    measure.set_detail(absl::StrCat("this machine does not allow them: ", possible.message()));
    return measure;
  }
  isolation.namespaces = true;
  isolation.user_namespace = wanted.user_namespace;
  measure.set_in_force(true);
  measure.set_detail(
      absl::StrCat("network, IPC, host name, processes, read-only mounts", wanted.user_namespace ? ", users" : ""));
  return measure;
}

}  // namespace

absl::StatusOr<SandboxPlan> planSandbox(const SandboxOptions& wishes, const std::string& folder) {
  SandboxPlan plan;
  plan.scratch_bytes = wishes.scratch_bytes;
  v1::SandboxMeasure user = measureOf("user", false, "");
  if (wishes.user.empty()) {
    user.set_detail(absl::StrCat("tasks run as the worker's user", geteuid() == 0 ? "" : "; another one needs root",
                                 " (--sandbox-user)"));
  } else {
    TESSERA_ASSIGN_OR_RETURN(const auto named, userNamed(wishes.user));
    plan.isolation.uid = named.uid;
    plan.isolation.gid = named.gid;
    if (const absl::Status possible = testIsolation(plan.isolation); !possible.ok()) {
      return absl::FailedPreconditionError(absl::StrCat("tasks cannot run as ", wishes.user, ": ", possible.message(),
                                                        "; this needs a worker that runs as root"));
    }
    user.set_in_force(true);
    user.set_detail(absl::StrCat(wishes.user, " (", plan.isolation.uid, ")"));
  }
  const v1::SandboxMeasure separate = namespaces(wishes, folder, plan.isolation);
  const bool counted = user.in_force() || plan.isolation.user_namespace;
  if (counted) plan.processes = kThreadsOfTask * std::max<int64_t>(1, wishes.tasks);
  for (const v1::SandboxMeasure& measure :
       {measureOf("system-calls", true, "seccomp: allow lists, one to compile and one to run"),
        measureOf("privileges", true, "no capabilities, no new privileges"),
        measureOf("limits", true, "memory, CPU time, open files, file size"), landlock(), separate, user,
        measureOf("processes", counted,
                  counted ? absl::StrCat("at most ", plan.processes)
                          : "a limit for the worker's own user would count the worker's processes too"),
        measureOf("scratch", wishes.scratch_bytes > 0,
                  wishes.scratch_bytes > 0 ? absl::StrCat("at most ", wishes.scratch_bytes >> 20, " MiB")
                                           : "--scratch-quota 0")}) {
    *plan.measures.Add() = measure;
  }
  return plan;
}

absl::Status checkMeasures(const std::vector<std::string>& required, const Measures& measures) {
  for (const std::string& name : required) {
    if (name != kFullSandbox &&
        std::none_of(measures.begin(), measures.end(), [&](const auto& measure) { return measure.name() == name; })) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--require-sandbox: '", name, "' is unknown; accepted: full, ",
          absl::StrJoin(measures, ", ", [](std::string* out, const auto& measure) { out->append(measure.name()); })));
    }
  }
  const std::vector<std::string> missing = missingMeasures(required, measures);
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("--require-sandbox: not in force here: ", absl::StrJoin(missing, "; ")));
}

}  // namespace tessera::worker
