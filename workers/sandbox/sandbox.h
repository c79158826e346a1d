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

/// Gives up every capability, in all sets, for ever, and all that executing a file could bring: what root is, too, is
/// then an ordinary owner of files.
absl::Status dropPrivileges();

/// Confines file access of the calling thread and those it starts (Landlock): `scratch`/in is readable,
/// `scratch`/out and `scratch`/tmp are writable, system folders that libraries look at are readable,
/// nothing else can be opened. Call it after dropPrivileges() and before the first thread is started.
/// Returns the version of Landlock's ABI that is in force, or 0 where the kernel has none: then ordinary
/// permissions and filterSystemCalls() are all there is, and the caller says so in its log.
absl::StatusOr<int> confineFiles(const std::string& scratch);

/// Filters the system calls of all threads of the process (seccomp); a forbidden one kills the process
/// with SIGSYS. Both are lists of what is allowed (syscall_tables.h). kCompile: files, threads, memory. kExecute: only
/// what computing needs: memory, locks, clocks, reading and writing open descriptors; threads must have been started
/// before. The two may be entered one after the other, in this order.
absl::Status filterSystemCalls(Profile profile);

/// Makes the filters now, in a process that is to fork others which enter them.
void prepareFilters();

/// All three, for kCompile: what every task begins with. Returns Landlock's ABI, as confineFiles().
absl::StatusOr<int> enterCompileProfile(const std::string& scratch);

/// Version of Landlock's ABI that the kernel offers, 0 when it has none.
int landlockAbi();

}  // namespace tessera::worker
