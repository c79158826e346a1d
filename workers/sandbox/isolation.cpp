#include "workers/sandbox/isolation.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"

// Raw system calls, where the headers of the C library and the kernel conflict (mount), or where the C library would
// signal other threads, which a forked process lacks (set*id).
namespace tessera::worker {
namespace {

constexpr unsigned long kRecursivelyPrivate = (1UL << 14) | (1UL << 18);          // MS_REC, MS_PRIVATE
constexpr unsigned long kProcFlags = 1UL | (1UL << 1) | (1UL << 2) | (1UL << 3);  // ro, nosuid, nodev, noexec
constexpr uint64_t kReadOnly = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID;

FailedStep failed(const char* step) { return {step, errno}; }

bool writeFile(const char* path, const char* text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const auto bytes = static_cast<ssize_t>(strlen(text));
  const bool written = write(file, text, static_cast<size_t>(bytes)) == bytes;
  const int error = errno;
  close(file);
  errno = error;
  return written;
}

// Maps only the current user and group into the new user namespace, unchanged.
bool keepIdentity(uid_t uid, gid_t gid) {
  std::array<char, 64> line{};
  snprintf(line.data(), line.size(), "%u %u 1\n", uid, uid);
  if (!writeFile("/proc/self/setgroups", "deny") || !writeFile("/proc/self/uid_map", line.data())) return false;
  snprintf(line.data(), line.size(), "%u %u 1\n", gid, gid);
  return writeFile("/proc/self/gid_map", line.data());
}

}  // namespace

FailedStep enterNamespaces(const Isolation& isolation) {
  if (!isolation.namespaces) return {};
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  constexpr int kOthers = CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNS | CLONE_NEWPID;
  if (unshare(kOthers | (isolation.user_namespace ? CLONE_NEWUSER : 0)) != 0) return failed("namespaces");
  if (isolation.user_namespace && !keepIdentity(uid, gid)) return failed("user namespace");
  return {};
}

FailedStep enterMounts(const Isolation& isolation) {
  if (!isolation.namespaces) return {};
  // Private mounts: the changes below must not propagate to the host.
  if (syscall(SYS_mount, nullptr, "/", nullptr, kRecursivelyPrivate, nullptr) != 0) return failed("private mounts");
  const char* folder = isolation.folder.c_str();
  // Input files may have other names elsewhere; a separate read-only mount prevents even changes of their modes.
  const std::string inputs = isolation.folder + "/in";
  const auto in = static_cast<int>(
      syscall(SYS_open_tree, AT_FDCWD, inputs.c_str(), OPEN_TREE_CLONE | static_cast<unsigned>(O_CLOEXEC)));
  if (in < 0 && errno != ENOENT) return failed("a mount of its inputs");
  // Clone the folder before everything becomes read-only, and mount the writable clone over it afterwards.
  const auto tree =
      static_cast<int>(syscall(SYS_open_tree, AT_FDCWD, folder, OPEN_TREE_CLONE | static_cast<unsigned>(O_CLOEXEC)));
  if (tree < 0) return failed("a mount of its folder");
  mount_attr attributes = {};
  attributes.attr_set = kReadOnly;
  if (syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &attributes, sizeof(attributes)) != 0) {
    return failed("read-only mounts");
  }
  if (syscall(SYS_move_mount, tree, "", AT_FDCWD, folder, MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return failed("the mount of its folder");
  }
  close(tree);
  if (in >= 0) {
    if (syscall(SYS_mount_setattr, in, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) != 0) {
      return failed("read-only inputs");
    }
    if (syscall(SYS_move_mount, in, "", AT_FDCWD, inputs.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
      return failed("the mount of its inputs");
    }
    close(in);
  }
  // The old /proc would show the processes of the host.
  if (syscall(SYS_mount, "proc", "/proc", "proc", kProcFlags, nullptr) != 0) return failed("a /proc of its own");
  return {};
}

FailedStep becomeUser(const Isolation& isolation) {
  if (isolation.uid < 0) return {};
  const auto uid = static_cast<uid_t>(isolation.uid);
  const auto gid = static_cast<gid_t>(isolation.gid);
  // Groups and gid first: without the old uid they could not be changed any more.
  if (syscall(SYS_setgroups, 0, nullptr) != 0 || syscall(SYS_setresgid, gid, gid, gid) != 0 ||
      syscall(SYS_setresuid, uid, uid, uid) != 0) {
    return failed("another user");
  }
  return {};
}

absl::Status testIsolation(const Isolation& isolation) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  const pid_t trial = fork();
  if (trial == 0) {
    const auto tell = [&](const FailedStep& step) {
      std::array<char, 128> text = {};
      snprintf(text.data(), text.size(), "%s: %s", step.name, strerror(step.error));
      [[maybe_unused]] const ssize_t sent = write(ends[1], text.data(), strlen(text.data()));
      _exit(1);
    };
    if (const FailedStep step = enterNamespaces(isolation); step.name != nullptr) tell(step);
    // Mounts and user take effect in a process of the new PID namespace only.
    const pid_t first = fork();
    if (first < 0) tell(failed("fork"));
    if (first == 0) {
      if (const FailedStep step = enterMounts(isolation); step.name != nullptr) tell(step);
      if (const FailedStep step = becomeUser(isolation); step.name != nullptr) tell(step);
      _exit(0);
    }
    int ended = 0;
    waitpid(first, &ended, 0);
    _exit(WIFEXITED(ended) && WEXITSTATUS(ended) <= 1 ? 0 : 2);
  }
  close(ends[1]);
  std::string problem;
  if (trial < 0) {
    problem = absl::StrCat("fork: ", strerror(errno));
  } else {
    std::array<char, 128> text{};
    ssize_t got;
    while ((got = read(ends[0], text.data(), text.size())) > 0 || (got < 0 && errno == EINTR)) {
      if (got > 0) problem.append(text.data(), static_cast<size_t>(got));
    }
    int ended = 0;
    waitpid(trial, &ended, 0);
    if (problem.empty() && (!WIFEXITED(ended) || WEXITSTATUS(ended) != 0))
      problem = "the process that tried it was killed";
  }
  close(ends[0]);
  return problem.empty() ? absl::OkStatus() : absl::FailedPreconditionError(problem);
}

}  // namespace tessera::worker
