#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// Restrictions of a task process. The task process enters all of them itself; its threads inherit them, and they
/// cannot be left.
namespace tessera::worker {

enum class Profile {
  kCompile,  ///< trusted code, untrusted input; may create files in its scratch folder
  kExecute,  ///< generated code; computes, and writes to descriptors that are already open
};

absl::StatusOr<Profile> parseProfile(std::string_view name);
std::string_view profileName(Profile profile);

/// Drops all capabilities permanently, and any privileges that executing a file could give. Even root is then an
/// ordinary user.
absl::Status dropPrivileges();

/// Restricts file access of the calling thread and its future threads (Landlock): `scratch`/in is readable,
/// `scratch`/out and `scratch`/tmp are writable, system folders that libraries use are readable, nothing else can be
/// opened. Call it after dropPrivileges() and before the first thread is started. Returns the version of Landlock's ABI
/// that is in force, or 0 if the kernel has none. Then only file permissions and filterSystemCalls() apply, and the
/// caller logs this.
absl::StatusOr<int> confineFiles(const std::string& scratch);

/// Restricts the system calls of all threads of the process (seccomp); a forbidden call kills the process with SIGSYS.
/// The profiles are allow lists (syscall_tables.h). kCompile: files, threads, memory. kExecute: only what computing
/// needs (memory, locks, clocks, reading and writing open descriptors); threads must have been started before. Both may
/// be entered one after the other, in this order.
absl::Status filterSystemCalls(Profile profile);

/// Compiles the filters in advance, in a process that will fork others that enter them.
void prepareFilters();

/// Enters all three restrictions for kCompile, with which each task starts. Returns Landlock's ABI, as confineFiles().
absl::StatusOr<int> enterCompileProfile(const std::string& scratch);

/// Version of Landlock's ABI that the kernel offers; 0 if none.
int landlockAbi();

}  // namespace tessera::worker
