#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// What a task process may ask of the kernel. All of it is entered by the task process itself, is
/// inherited by its threads, and cannot be left.
namespace tessera::worker {

enum class Profile {
  kCompile,  ///< trusted code on untrusted input: may create files in its scratch folder
  kExecute,  ///< generated code: computes, and writes to descriptors that are open already
};

absl::StatusOr<Profile> parseProfile(std::string_view name);
std::string_view profileName(Profile profile);

/// Confines file access of the calling thread and those it starts (Landlock): `scratch`/in is readable,
/// `scratch`/out and `scratch`/tmp are writable, system folders that libraries look at are readable,
/// nothing else can be opened. Call it before the first thread is started.
/// Returns the version of Landlock's ABI that is in force, or 0 where the kernel has none: then ordinary
/// permissions and filterSystemCalls() are all there is, and the caller says so in its log.
absl::StatusOr<int> confineFiles(const std::string& scratch);

/// Filters the system calls of all threads of the process (seccomp); a forbidden one kills the process
/// with SIGSYS. kCompile denies network, other processes, exec, fork and administration. kExecute allows
/// only what computing needs: memory, locks, clocks, reading and writing open descriptors; threads must
/// have been started before.
/// The two may be entered one after the other, in this order.
absl::Status filterSystemCalls(Profile profile);

/// Version of Landlock's ABI that the kernel offers, 0 when it has none.
int landlockAbi();

/// One line for the log that says what is in force,
/// e.g. "profile execute: seccomp allowlist, landlock abi 7".
std::string describeSandbox(Profile profile, int landlock_abi);

}  // namespace tessera::worker
