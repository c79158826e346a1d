#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "workers/sandbox/sandbox.h"
#include "workers/sandbox/syscall_tables.h"

namespace tessera::worker {
namespace {

/// The BPF program that the kernel runs at each system call.
using Program = std::vector<sock_filter>;

/// Placeholder for the process id in a filter that is compiled before the process exists; the kernel assigns no id this
/// high.
constexpr uint32_t kSelf = 0x7e57ed01;

absl::Status notInstalled(int error) {
  return absl::InternalError(absl::StrCat("seccomp: the filter cannot be installed: ", strerror(error)));
}

/// A filter under construction; the first error is kept.
class Filter {
 public:
  explicit Filter(uint32_t default_action) : context_(seccomp_init(default_action), seccomp_release) {
    if (!context_) {
      error_ = ENOMEM;
      return;
    }
    keep(seccomp_attr_set(context_.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS));
    keep(seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2));  // a binary tree instead of a linear list
  }

  template <typename... Conditions>
  void add(uint32_t action, int call, Conditions... conditions) {
    if (error_ == 0) keep(seccomp_rule_add(context_.get(), action, call, sizeof...(conditions), conditions...));
  }

  absl::StatusOr<Program> finish() {
    const int file = memfd_create("filter", MFD_CLOEXEC);
    if (file < 0) keep(-errno);
    const absl::Cleanup close = [file] { ::close(file); };
    if (error_ == 0) keep(seccomp_export_bpf(context_.get(), file));
    const off_t bytes = lseek(file, 0, SEEK_END);
    Program program(bytes > 0 ? static_cast<size_t>(bytes) / sizeof(sock_filter) : 0);
    if (error_ == 0 && pread(file, program.data(), program.size() * sizeof(sock_filter), 0) != bytes) keep(-EIO);
    if (error_ != 0) return notInstalled(error_);
    return program;
  }

 private:
  void keep(int result) {
    if (error_ == 0 && result < 0) error_ = -result;
  }

  std::unique_ptr<void, decltype(&seccomp_release)> context_;
  int error_ = 0;
};

// The header's macros are C99 compound literals; these are the C++ equivalents.
scmp_arg_cmp argument(unsigned index, scmp_compare compare, scmp_datum_t value) { return {index, compare, value, 0}; }
scmp_arg_cmp maskedArgument(unsigned index, scmp_datum_t mask, scmp_datum_t value) {
  return {index, SCMP_CMP_MASKED_EQ, mask, value};
}

constexpr uint32_t kKill = SCMP_ACT_KILL_PROCESS;
constexpr scmp_datum_t kNewNamespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

absl::StatusOr<Program> makeCompileFilter() {
  Filter filter(kKill);
  for (int call : kAllowedWhenExecuting) filter.add(SCMP_ACT_ALLOW, call);
  for (int call : kAllowedWhenCompiling) filter.add(SCMP_ACT_ALLOW, call);
  // glibc tries clone3 first and falls back to clone, whose flags a filter can inspect.
  filter.add(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3));
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(clone), maskedArgument(0, CLONE_THREAD | kNewNamespaces, CLONE_THREAD));
  // Only signals to this process, and its own limits.
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(kill), argument(0, SCMP_CMP_EQ, kSelf));
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(tgkill), argument(0, SCMP_CMP_EQ, kSelf));
  // Used by LLVM's crash handler.
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(rt_tgsigqueueinfo), argument(0, SCMP_CMP_EQ, kSelf));
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), argument(0, SCMP_CMP_EQ, 0));
  // Thread names, names of the C library's mappings, and entering the execute profile.
  for (const int option : {PR_SET_NAME, PR_SET_VMA, PR_SET_NO_NEW_PRIVS}) {
    filter.add(SCMP_ACT_ALLOW, SCMP_SYS(prctl), argument(0, SCMP_CMP_EQ, static_cast<scmp_datum_t>(option)));
  }
#ifdef __x86_64__
  // Artifacts are loaded in this profile, and request the AMX tile registers (TILEDATA) if their code uses them.
  constexpr scmp_datum_t kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(arch_prctl), argument(0, SCMP_CMP_EQ, kRequestPermission),
             argument(1, SCMP_CMP_EQ, kTileData));
#endif
  // fcntl commands that duplicate, describe and lock; not those that make the kernel send signals (F_SETOWN, O_ASYNC).
  for (const int command : {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_GETLK, F_SETLK, F_SETLKW,
                            F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_ADD_SEALS, F_GET_SEALS}) {
    filter.add(SCMP_ACT_ALLOW, SCMP_SYS(fcntl), argument(1, SCMP_CMP_EQ, static_cast<scmp_datum_t>(command)));
  }
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(fcntl), argument(1, SCMP_CMP_EQ, F_SETFL), maskedArgument(2, O_ASYNC, 0));
  // Checks whether a stream is a terminal.
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(ioctl), argument(1, SCMP_CMP_EQ, TCGETS));
  return filter.finish();
}

absl::StatusOr<Program> makeExecuteFilter() {
  Filter filter(kKill);
  for (int call : kAllowedWhenExecuting) filter.add(SCMP_ACT_ALLOW, call);
  // Code is mapped already; no further memory may become executable.
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(mmap), maskedArgument(2, PROT_EXEC, 0));
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(mprotect), maskedArgument(2, PROT_EXEC, 0));
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(tgkill), argument(0, SCMP_CMP_EQ, kSelf));  // abort()
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(prctl), argument(0, SCMP_CMP_EQ, PR_SET_NAME));
  // Status and flags of an open descriptor, which the C library queries when it closes a stream.
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(fcntl), argument(1, SCMP_CMP_EQ, 3 /* F_GETFL */));
  // fstat() of newer C libraries. It opens nothing, so it would be harmless even with a path; only calls with
  // AT_EMPTY_PATH are allowed.
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(newfstatat), maskedArgument(3, 0x1000 /* AT_EMPTY_PATH */, 0x1000));
  return filter.finish();
}

/// Compiled once per process, for all its forks: libseccomp takes half a millisecond.
const absl::StatusOr<Program>& filterOf(Profile profile) {
  static const absl::StatusOr<Program> compile = makeCompileFilter(), execute = makeExecuteFilter();
  return profile == Profile::kCompile ? compile : execute;
}

}  // namespace

void prepareFilters() { (void)filterOf(Profile::kCompile); }

absl::Status filterSystemCalls(Profile profile) {
  const absl::StatusOr<Program>& made = filterOf(profile);
  if (!made.ok()) return made.status();
  Program program = *made;
  for (sock_filter& step : program) {
    if (step.code == (BPF_JMP | BPF_JEQ | BPF_K) && step.k == kSelf) step.k = static_cast<uint32_t>(getpid());
  }
  const sock_fprog whole{static_cast<unsigned short>(program.size()), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return notInstalled(errno);
  // With TSYNC, a positive result is the id of a thread that could not be synchronized.
  const int64_t result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &whole);
  return result == 0 ? absl::OkStatus() : notInstalled(result < 0 ? errno : ESRCH);
}

absl::StatusOr<Profile> parseProfile(std::string_view name) {
  if (name == "compile") return Profile::kCompile;
  if (name == "execute") return Profile::kExecute;
  return absl::InvalidArgumentError(
      absl::StrCat("profile '", std::string(name), "' is unknown; accepted: compile, execute"));
}

std::string_view profileName(Profile profile) { return profile == Profile::kCompile ? "compile" : "execute"; }

absl::StatusOr<int> enterCompileProfile(const std::string& scratch) {
  TESSERA_RETURN_IF_ERROR(dropPrivileges());
  auto landlock_abi = confineFiles(scratch);
  if (!landlock_abi.ok()) return landlock_abi;
  TESSERA_RETURN_IF_ERROR(filterSystemCalls(Profile::kCompile));
  return landlock_abi;
}

}  // namespace tessera::worker
