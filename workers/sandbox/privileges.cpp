#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "workers/sandbox/sandbox.h"

namespace tessera::worker {
namespace {

using Capabilities = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

absl::Status failed(const char* what) {
  return absl::InternalError(absl::StrCat("privileges cannot be dropped: ", what, ": ", strerror(errno)));
}

}  // namespace

absl::Status dropPrivileges() {
  // Required by Landlock and seccomp: no program that this process starts gains privileges by setuid.
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("no_new_privs");
  // Without the right to shrink the bounding set, the process has none of its capabilities and, by the line above,
  // gains none.
  for (int capability = 0; prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0; ++capability) {
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  Capabilities capabilities = {};
  if (syscall(SYS_capset, &header, capabilities.data()) != 0) return failed("capset");
  if (syscall(SYS_capget, &header, capabilities.data()) != 0) return failed("capget");
  for (const auto& set : capabilities) {
    if ((set.effective | set.permitted | set.inheritable) != 0) {
      errno = EPERM;
      return failed("some remain");
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera::worker
