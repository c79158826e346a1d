#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "workers/sandbox/sandbox.h"

// Landlock, see the kernel's Documentation/userspace-api/landlock.rst. Newer kernels have more rights than the system's
// header; requesting one that the running kernel lacks is an error, hence the table.
namespace tessera::worker {
namespace {

constexpr uint64_t kTruncate = 1ULL << 14;                                      // ABI 3
constexpr uint64_t kIoctlDev = 1ULL << 15;                                      // ABI 5
constexpr uint64_t kNetBindTcp = 1ULL << 0, kNetConnectTcp = 1ULL << 1;         // ABI 4
constexpr uint64_t kScopeAbstractSocket = 1ULL << 0, kScopeSignal = 1ULL << 1;  // ABI 6

constexpr uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kAbi1 = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;

struct Ruleset {  // the kernel's landlock_ruleset_attr, ABI 6
  uint64_t handled_access_fs = 0;
  uint64_t handled_access_net = 0;
  uint64_t scoped = 0;
};

Ruleset rulesetFor(int abi) {
  Ruleset rules;
  rules.handled_access_fs = kAbi1;
  if (abi >= 2) rules.handled_access_fs |= LANDLOCK_ACCESS_FS_REFER;
  if (abi >= 3) rules.handled_access_fs |= kTruncate;
  if (abi >= 4) rules.handled_access_net = kNetBindTcp | kNetConnectTcp;
  if (abi >= 5) rules.handled_access_fs |= kIoctlDev;
  if (abi >= 6) rules.scoped = kScopeAbstractSocket | kScopeSignal;
  return rules;
}

size_t rulesetSize(int abi) { return abi >= 6 ? sizeof(Ruleset) : abi >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t); }

absl::Status failed(const char* what, int error) {
  return absl::InternalError(absl::StrCat("landlock: ", what, ": ", strerror(error)));
}

// Grants `rights` below `path`; no effect if the path does not exist.
absl::Status allow(int ruleset, const std::string& path, uint64_t rights) {
  const int folder = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (folder < 0) return errno == ENOENT || errno == EACCES ? absl::OkStatus() : failed(path.c_str(), errno);
  landlock_path_beneath_attr rule = {};
  rule.allowed_access = rights;
  rule.parent_fd = folder;
  const long added = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  const int error = errno;
  close(folder);
  return added == 0 ? absl::OkStatus() : failed(path.c_str(), error);
}

}  // namespace

int landlockAbi() {
  const long abi = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return abi > 0 ? static_cast<int>(abi) : 0;
}

absl::StatusOr<int> confineFiles(const std::string& scratch) {
  const int abi = landlockAbi();
  if (abi == 0) return 0;

  const Ruleset rules = rulesetFor(abi);
  const long ruleset = syscall(SYS_landlock_create_ruleset, &rules, rulesetSize(abi), 0);
  if (ruleset < 0) return failed("create ruleset", errno);
  const int fd = static_cast<int>(ruleset);

  absl::Status status = allow(fd, absl::StrCat(scratch, "/in"), kRead);
  const uint64_t writable = rules.handled_access_fs & ~uint64_t{LANDLOCK_ACCESS_FS_EXECUTE};
  for (const char* folder : {"/out", "/tmp"}) status.Update(allow(fd, absl::StrCat(scratch, folder), writable));
  // CPU topology, and libraries that are loaded late.
  for (const char* folder : {"/proc", "/sys/devices/system", "/usr", "/lib", "/lib64"}) {
    status.Update(allow(fd, folder, kRead));
  }
  for (const char* file : {"/etc/ld.so.cache", "/etc/localtime", "/dev/zero", "/dev/urandom"}) {
    status.Update(allow(fd, file, LANDLOCK_ACCESS_FS_READ_FILE));
  }
  status.Update(allow(fd, "/dev/null", LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE));
  if (status.ok() && syscall(SYS_landlock_restrict_self, fd, 0) != 0) status = failed("restrict", errno);
  close(fd);
  if (!status.ok()) return status;
  return abi;
}

}  // namespace tessera::worker
