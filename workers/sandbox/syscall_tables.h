#pragma once

#include <seccomp.h>

/// The allowed system calls of each profile, as data. Names that an architecture lacks resolve to pseudo numbers, which
/// libseccomp skips.
namespace tessera::worker {

/// Calls that generated code and the runtime need. Threads and open files exist already. mmap, mprotect, prctl and
/// tgkill are allowed for some arguments only, in the filter itself.
constexpr int kAllowedWhenExecuting[] = {
    // memory
    SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(membarrier),
    // threads and locks
    SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(get_robust_list), SCMP_SYS(rseq), SCMP_SYS(set_tid_address),
    SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(sched_setaffinity), SCMP_SYS(getcpu),
    SCMP_SYS(sched_getparam), SCMP_SYS(sched_getscheduler), SCMP_SYS(exit), SCMP_SYS(exit_group),
    // signals of this process
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack),
    SCMP_SYS(restart_syscall),
    // time
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday), SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep), SCMP_SYS(getrusage),
    // descriptors that are open already
    SCMP_SYS(read), SCMP_SYS(pread64), SCMP_SYS(readv), SCMP_SYS(write), SCMP_SYS(pwrite64), SCMP_SYS(writev),
    SCMP_SYS(lseek), SCMP_SYS(close), SCMP_SYS(fstat), SCMP_SYS(fsync), SCMP_SYS(fdatasync),
    // identity, random numbers
    SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(getrandom)};

/// Additional calls for the compiler and its linker: files, which Landlock restricts further, and threads. Calls that
/// are allowed for some arguments only (not mmap) are in the filter.
constexpr int kAllowedWhenCompiling[] = {
    // memory, also with code in it: libraries that are loaded late, artifacts
    SCMP_SYS(mmap), SCMP_SYS(mprotect), SCMP_SYS(mincore), SCMP_SYS(msync), SCMP_SYS(memfd_create),
    // files by name
    SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(creat), SCMP_SYS(stat), SCMP_SYS(lstat), SCMP_SYS(newfstatat),
    SCMP_SYS(statx), SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(readlink),
    SCMP_SYS(readlinkat), SCMP_SYS(getcwd), SCMP_SYS(mkdir), SCMP_SYS(mkdirat), SCMP_SYS(rmdir), SCMP_SYS(unlink),
    SCMP_SYS(unlinkat), SCMP_SYS(rename), SCMP_SYS(renameat), SCMP_SYS(renameat2), SCMP_SYS(statfs),
    // files that are open
    SCMP_SYS(fstatfs), SCMP_SYS(getdents64), SCMP_SYS(ftruncate), SCMP_SYS(fallocate), SCMP_SYS(fadvise64),
    SCMP_SYS(fchmod), SCMP_SYS(dup), SCMP_SYS(dup2), SCMP_SYS(dup3), SCMP_SYS(umask), SCMP_SYS(copy_file_range),
    SCMP_SYS(sendfile), SCMP_SYS(sync_file_range),
    // pipes by which the process reads its linker's output
    SCMP_SYS(pipe2),
    // information about machine and process
    SCMP_SYS(uname), SCMP_SYS(sysinfo), SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid),
    SCMP_SYS(getppid), SCMP_SYS(getpgrp), SCMP_SYS(getrlimit), SCMP_SYS(times), SCMP_SYS(time),
    // waiting
    SCMP_SYS(pause), SCMP_SYS(poll), SCMP_SYS(ppoll),
    // entering a stricter profile
    SCMP_SYS(seccomp)};

}  // namespace tessera::worker
