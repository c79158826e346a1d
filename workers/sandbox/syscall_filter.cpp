#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "workers/sandbox/sandbox.h"
#include "workers/sandbox/syscall_tables.h"

namespace tessera::worker {
namespace {

/// A filter under construction; the first error sticks.
class Filter {
 public:
  explicit Filter(uint32_t default_action) : context_(seccomp_init(default_action), seccomp_release) {
    if (!context_) {
      error_ = ENOMEM;
      return;
    }
    keep(seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_TSYNC, 1));
    keep(seccomp_attr_set(context_.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS));
    keep(seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2));  // binary tree instead of a chain
  }

  template <typename... Conditions>
  void add(uint32_t action, int call, Conditions... conditions) {
    if (error_ == 0) keep(seccomp_rule_add(context_.get(), action, call, sizeof...(conditions), conditions...));
  }

  absl::Status load() {
    if (error_ == 0) keep(seccomp_load(context_.get()));
    if (error_ == 0) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("seccomp: the filter cannot be installed: ", strerror(error_)));
  }

 private:
  void keep(int result) {
    if (error_ == 0 && result < 0) error_ = -result;
  }

  std::unique_ptr<void, decltype(&seccomp_release)> context_;
  int error_ = 0;
};

// The header's macros are C99 compound literals; these say the same in C++.
scmp_arg_cmp argument(unsigned index, scmp_compare compare, scmp_datum_t value) { return {index, compare, value, 0}; }
scmp_arg_cmp maskedArgument(unsigned index, scmp_datum_t mask, scmp_datum_t value) {
  return {index, SCMP_CMP_MASKED_EQ, mask, value};
}

constexpr uint32_t kKill = SCMP_ACT_KILL_PROCESS;
constexpr scmp_datum_t kNewNamespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

absl::Status filterCompile() {
  const auto self = static_cast<scmp_datum_t>(getpid());
  Filter filter(kKill);
  for (int call : kAllowedWhenExecuting) filter.add(SCMP_ACT_ALLOW, call);
  for (int call : kAllowedWhenCompiling) filter.add(SCMP_ACT_ALLOW, call);
  // glibc starts threads by clone3 and falls back to clone, whose flags a filter can see.
  filter.add(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3));
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(clone), maskedArgument(0, CLONE_THREAD | kNewNamespaces, CLONE_THREAD));
  // Signals go to this very process, limits are its own.
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(kill), argument(0, SCMP_CMP_EQ, self));
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(tgkill), argument(0, SCMP_CMP_EQ, self));
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(rt_tgsigqueueinfo), argument(0, SCMP_CMP_EQ, self));  // LLVM, dying of a signal
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), argument(0, SCMP_CMP_EQ, 0));
  // A thread's name, how the C library calls its memory, and what the execute profile is entered by.
  for (const int option : {PR_SET_NAME, PR_SET_VMA, PR_SET_NO_NEW_PRIVS}) {
    filter.add(SCMP_ACT_ALLOW, SCMP_SYS(prctl), argument(0, SCMP_CMP_EQ, static_cast<scmp_datum_t>(option)));
  }
#ifdef __x86_64__
  // Artifacts are loaded here, and ask for the registers of tiles (TILEDATA) where their code uses them.
  constexpr scmp_datum_t kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(arch_prctl), argument(0, SCMP_CMP_EQ, kRequestPermission),
             argument(1, SCMP_CMP_EQ, kTileData));
#endif
  // Of fcntl what duplicates, describes and locks; nothing that has the kernel signal others (F_SETOWN, O_ASYNC).
  for (const int command : {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_GETLK, F_SETLK, F_SETLKW,
                            F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_ADD_SEALS, F_GET_SEALS}) {
    filter.add(SCMP_ACT_ALLOW, SCMP_SYS(fcntl), argument(1, SCMP_CMP_EQ, static_cast<scmp_datum_t>(command)));
  }
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(fcntl), argument(1, SCMP_CMP_EQ, F_SETFL), maskedArgument(2, O_ASYNC, 0));
  // Whether a stream is a terminal.
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(ioctl), argument(1, SCMP_CMP_EQ, TCGETS));
  return filter.load();
}

absl::Status filterExecute() {
  const auto self = static_cast<scmp_datum_t>(getpid());
  Filter filter(kKill);
  for (int call : kAllowedWhenExecuting) filter.add(SCMP_ACT_ALLOW, call);
  // Code was mapped before; nothing becomes executable any more.
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(mmap), maskedArgument(2, PROT_EXEC, 0));
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(mprotect), maskedArgument(2, PROT_EXEC, 0));
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(tgkill), argument(0, SCMP_CMP_EQ, self));  // abort()
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(prctl), argument(0, SCMP_CMP_EQ, PR_SET_NAME));
  // Querying an open descriptor's status and flags, as the C library does when it closes a stream.
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(fcntl), argument(1, SCMP_CMP_EQ, 3 /* F_GETFL */));
  // fstat() of newer C libraries; harmless by path too, for it opens nothing, but only the empty path works.
  filter.add(SCMP_ACT_ALLOW, SCMP_SYS(newfstatat), maskedArgument(3, 0x1000 /* AT_EMPTY_PATH */, 0x1000));
  return filter.load();
}

}  // namespace

absl::Status filterSystemCalls(Profile profile) {
  return profile == Profile::kCompile ? filterCompile() : filterExecute();
}

absl::StatusOr<Profile> parseProfile(std::string_view name) {
  if (name == "compile") return Profile::kCompile;
  if (name == "execute") return Profile::kExecute;
  return absl::InvalidArgumentError(
      absl::StrCat("profile '", std::string(name), "' is unknown; accepted: compile, execute"));
}

std::string_view profileName(Profile profile) { return profile == Profile::kCompile ? "compile" : "execute"; }

absl::StatusOr<int> enterCompileProfile(const std::string& scratch) {
  if (absl::Status status = dropPrivileges(); !status.ok()) return status;
  auto landlock_abi = confineFiles(scratch);
  if (!landlock_abi.ok()) return landlock_abi;
  if (absl::Status status = filterSystemCalls(Profile::kCompile); !status.ok()) return status;
  return landlock_abi;
}

}  // namespace tessera::worker
