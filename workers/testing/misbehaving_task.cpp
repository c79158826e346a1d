// A task program for tests. It performs the action that task.pb's AssembleTask.name selects ("NAME" or "NAME:NUMBER"),
// mostly something that a task must not do. The sandbox is entered as in tessera-task, unless --profile is "none".

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

#include "proto/support/sha256.h"
#include "tessera/v1/worker_service.pb.h"
#include "workers/exit_codes.h"
#include "workers/output_names.h"
#include "workers/progress_stream.h"
#include "workers/sandbox/memory_faults.h"
#include "workers/sandbox/sandbox.h"
#include "workers/serve_forks.h"
#include "workers/shared_step_cache.h"

namespace {

using namespace tessera;
using namespace tessera::worker;

struct Task {
  std::string scratch;
  v1::TaskSpec spec;
  long number = 0;
  int result_fd = -1;
  int open_fd = -1;  // an output file opened before the sandbox was entered
};

void put(int fd, const std::string& bytes) {
  if (write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) _exit(90);
}

void finish(const Task& task, const v1::TaskResult& result) {
  put(task.result_fd, result.SerializeAsString());
  _exit(0);
}

v1::TaskResult artifactNamed(const std::string& name) {
  v1::TaskResult result;
  result.mutable_assemble()->set_artifact_file(name);
  result.add_files()->set_name(name);
  return result;
}

// Writes the concatenated inputs, or NUMBER bytes.
void succeed(const Task& task) {
  std::string bytes(static_cast<size_t>(task.number), 'x');
  for (const v1::Digest& digest : task.spec.inputs()) {
    std::stringstream content;
    content << std::ifstream(task.scratch + "/in/" + digest.sha256(), std::ios::binary).rdbuf();
    bytes += content.str();
  }
  std::ofstream(task.scratch + "/out/made", std::ios::binary) << bytes;
  finish(task, artifactNamed("made"));
}

// A forbidden action succeeded; the tests check for this exit code.
[[noreturn]] void survived() { _exit(77); }

[[noreturn]] void sleepForever() {
  while (true) pause();
}

void multiply(int depth) {  // grandchildren that ignore SIGTERM
  signal(SIGTERM, SIG_IGN);
  for (int i = 0; depth > 0 && i < 2; ++i) {
    if (fork() == 0) multiply(depth - 1);
  }
  v1::Progress ready;
  ready.set_phase("ready");
  put(3, encodeProgress(ready));
  sleepForever();
}

void allocate() {
  std::vector<char*> kept;
  while (true) {
    kept.push_back(new char[64 << 20]);
    memset(kept.back(), 1, 1 << 20);
  }
}

void writeTo(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags, 0600);
  if (fd < 0) {
    fprintf(stderr, "open %s: %s\n", path.c_str(), strerror(errno));
    _exit(errno == EACCES || errno == EPERM || errno == EROFS ? 78 : 79);
  }
  put(fd, "hostile");
  survived();
}

std::vector<std::string> openDescriptors() {
  std::vector<std::string> found;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.' && entry->d_name != std::to_string(dirfd(folder))) found.emplace_back(entry->d_name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Dies by the signal itself, even if a sanitizer has a handler for it.
void dieBy(int number) {
  signal(number, SIG_DFL);
  raise(number);
}

using Behaviours = std::map<std::string, std::function<void(Task&)>>;

Behaviours behaviours() {
  return {
      {"succeed", succeed},
      {"fail",
       [](Task& task) {
         v1::TaskResult result;
         result.mutable_failure()->set_reason(v1::Failure::INVALID_MODEL);
         result.mutable_failure()->set_message("node 'a': bad");
         finish(task, result);
       }},
      {"segfault", [](Task&) { dieBy(SIGSEGV); }},
      {"abort",
       [](Task&) {
         fprintf(stderr, "assertion failed: everything\n");
         abort();
       }},
      {"bus", [](Task&) { dieBy(SIGBUS); }},
      {"bus-of-llvm",  // LLVM's handler sends the signal again, with its origin
       [](Task&) {
         siginfo_t where{};
         where.si_signo = SIGBUS;
         where.si_code = -1;
         signal(SIGBUS, SIG_DFL);
         syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGBUS, &where);
       }},
      {"illegal", [](Task&) { dieBy(SIGILL); }},
      {"fpe", [](Task&) { dieBy(SIGFPE); }},
      {"exit", [](Task& task) { _exit(static_cast<int>(task.number)); }},
      {"kill-self", [](Task&) { raise(SIGKILL); }},
      {"garbage-result",
       [](Task& task) {
         put(task.result_fd, "\xff\xff\xff");
         _exit(0);
       }},
      {"spin",
       [](Task&) {
         for (volatile int i = 0;; i = i + 1) {
         }
       }},
      {"sleep", [](Task&) { sleepForever(); }},
      {"ignore-term",
       [](Task&) {
         signal(SIGTERM, SIG_IGN);
         v1::Progress ready;
         ready.set_phase("ready");
         put(3, encodeProgress(ready));
         sleepForever();
       }},
      {"multiply", [](Task&) { multiply(2); }},
      {"orphan",  // leaves a grandchild that keeps the pipes open
       [](Task& task) {
         if (fork() == 0) sleepForever();
         succeed(task);
       }},
      {"step-cache",  // checks whether the cache exists (NUMBER); returns the cached result, or adds one
       [](Task& task) {
         const auto known = SharedStepCacheReader::open(5);
         if ((known != nullptr) != (task.number == 1)) _exit(120);
         if (task.number == 0) succeed(task);
         const std::string key = sha256Hex("a step");
         const auto found = known->find(key);
         if (!found)
           std::ofstream(task.scratch + "/out/" + kStepCacheFile, std::ios::binary) << encodeStep(key, "made once");
         std::ofstream(task.scratch + "/out/made", std::ios::binary) << (found ? found->result : "");
         finish(task, artifactNamed("made"));
       }},
      {"chatter",
       [](Task&) {
         for (int i = 0;; ++i) fprintf(stderr, "line %d of very many\n", i);
       }},
      {"progress",
       [](Task& task) {
         for (int i = 1; i <= 3; ++i) {
           v1::Progress progress;
           progress.set_phase("assemble");
           progress.set_done(i);
           progress.set_total(3);
           put(3, encodeProgress(progress));
         }
         // Long enough for a heartbeat to send the last progress.
         usleep(static_cast<useconds_t>(task.number) * 1000);
         succeed(task);
       }},
      {"nap",
       [](Task& task) {
         usleep(static_cast<useconds_t>(task.number) * 1000);
         task.number = 0;
         succeed(task);
       }},
      {"allocate", [](Task&) { allocate(); }},
      {"big-file",
       [](Task& task) {
         const std::string chunk(1 << 20, 'x');
         const int fd = open((task.scratch + "/out/big").c_str(), O_WRONLY | O_CREAT, 0600);
         while (write(fd, chunk.data(), chunk.size()) > 0) {
         }
         survived();
       }},
      {"enclose",  // inlines a file of NUMBER bytes, without writing it
       [](Task& task) {
         v1::TaskResult result = artifactNamed("made");
         result.mutable_files(0)->set_data(std::string(static_cast<size_t>(task.number), 'x'));
         finish(task, result);
       }},
      {"bad-name", [](Task& task) { finish(task, artifactNamed("../task.pb")); }},
      {"link-output",
       [](Task& task) {
         if (symlink("/etc/passwd", (task.scratch + "/out/made").c_str()) != 0) _exit(91);
         finish(task, artifactNamed("made"));
       }},
      {"self-check",
       [](Task& task) {
         // result.pb and the output file are open; everything else must have been closed.
         const std::vector<std::string> expected = {
             "0", "1", "2", "3", std::to_string(task.result_fd), std::to_string(task.open_fd)};
         if (openDescriptors() != expected) _exit(92);
         for (char** variable = environ; *variable != nullptr; ++variable) {
           if (strncmp(*variable, "TESSERA_SECRET", 14) == 0) _exit(93);
         }
         if (getpgrp() != getpid()) _exit(94);
         sigset_t blocked;
         sigprocmask(SIG_BLOCK, nullptr, &blocked);
         if (sigismember(&blocked, SIGTERM) != 0) _exit(95);
         succeed(task);
       }},
      // Actions that the profiles forbid.
      {"socket",
       [](Task&) {
         if (socket(AF_INET, SOCK_STREAM, 0) >= 0) survived();
       }},
      {"unix-socket",
       [](Task&) {
         if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0) survived();
       }},
      {"fork",
       [](Task&) {
         if (fork() >= 0) survived();
       }},
      {"exec",
       [](Task&) {
         execl("/bin/true", "true", static_cast<char*>(nullptr));
         survived();
       }},
      {"ptrace",
       [](Task&) {
         ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
         survived();
       }},
      {"kill-parent",
       [](Task&) {
         kill(getppid(), 0);
         survived();
       }},
      {"setsid",
       [](Task&) {
         setsid();
         survived();
       }},
      {"symlink",
       [](Task& task) {
         symlink("/etc/passwd", (task.scratch + "/out/link").c_str());
         survived();
       }},
      {"inotify",  // harmless, but not needed
       [](Task&) {
         syscall(SYS_inotify_init1, 0);
         survived();
       }},
      {"chown",
       [](Task& task) {
         chown((task.scratch + "/out/early").c_str(), 1, 1);
         survived();
       }},
      {"new-namespace",
       [](Task&) {
         syscall(SYS_unshare, CLONE_NEWUSER);
         survived();
       }},
      {"raise-limits",  // of another process
       [](Task&) {
         syscall(SYS_prlimit64, getppid() + 1, RLIMIT_NOFILE, nullptr, nullptr);
         survived();
       }},
      // Remaining privileges; the process reports them itself.
      {"capabilities",
       [](Task& task) {
         std::ifstream status("/proc/self/status");
         for (std::string name, value; status >> name;) {
           if (name == "Uid:" || name == "Name:") continue;
           if (name.starts_with("Cap") && status >> value && value != "0000000000000000") _exit(101);
           if (name == "NoNewPrivs:" && status >> value && value != "1") _exit(102);
         }
         succeed(task);
       }},
      {"user",  // the user is NUMBER, without other groups
       [](Task& task) {
         if (getuid() != static_cast<uid_t>(task.number) || geteuid() != getuid() || getgid() == 0) _exit(103);
         if (getgroups(0, nullptr) != 0) _exit(104);
         if (setuid(0) == 0) _exit(105);
         task.number = 3;
         succeed(task);
       }},
      {"alone",  // no network; own processes and mounts
       [](Task& task) {
         if (getpid() != 2 || getppid() != 0) _exit(106);
         if (kill(3, 0) == 0 || kill(100, 0) == 0) _exit(107);
         int processes = 0;
         for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
           if (isdigit(entry.path().filename().string()[0]) != 0) ++processes;
         }
         if (processes != 2) _exit(108);
         std::ifstream interfaces("/proc/net/dev");
         std::stringstream text;
         text << interfaces.rdbuf();
         const std::string lines = text.str();
         if (std::count(lines.begin(), lines.end(), ':') != 1 || lines.find("lo:") == std::string::npos) _exit(109);
         for (const char* outside : {"/var/tmp/tessera-sandbox-escape", "/usr/tessera-sandbox-escape"}) {
           if (open(outside, O_WRONLY | O_CREAT, 0600) >= 0 || errno != EROFS) _exit(110);
         }
         const int inside = open((task.scratch + "/out/later").c_str(), O_WRONLY | O_CREAT, 0600);
         if (inside < 0) _exit(111);
         succeed(task);
       }},
      {"threads",  // until thread creation fails; NUMBER are too many
       [](Task& task) {
         long started = 0;
         pthread_t thread;
         while (started < task.number &&
                pthread_create(&thread, nullptr, [](void*) -> void* { sleepForever(); }, nullptr) == 0) {
           ++started;
         }
         if (started == task.number) survived();
         task.number = 3;
         succeed(task);
       }},
      {"descriptors",
       [](Task& task) {
         long opened = 0;
         while (opened < task.number && open("/dev/null", O_RDONLY) >= 0) ++opened;
         if (opened == task.number) survived();
         task.number = 3;
         succeed(task);
       }},
      {"fill",  // fills its folder with files of 1 MiB, for ever
       [](Task& task) {
         const std::string chunk(1 << 20, 'x');
         for (int i = 0;; ++i) {
           const std::string path = task.scratch + "/tmp/" + std::to_string(i);
           put(open(path.c_str(), O_WRONLY | O_CREAT, 0600), chunk);
           usleep(2000);
         }
       }},
      {"peek",  // opens another attempt's folder, NUMBER
       [](Task& task) {
         const std::string other = task.scratch + "/../" + std::to_string(task.number);
         if (open((other + "/task.pb").c_str(), O_RDONLY) >= 0 || open(other.c_str(), O_RDONLY) >= 0) survived();
         task.number = 3;
         succeed(task);
       }},
      {"create-outside", [](Task&) { writeTo("/var/tmp/tessera-sandbox-escape", O_WRONLY | O_CREAT); }},
      {"create-in-scratch", [](Task& task) { writeTo(task.scratch + "/out/later", O_WRONLY | O_CREAT); }},
      {"read-outside",
       [](Task&) {
         if (open("/etc/passwd", O_RDONLY) < 0) _exit(78);
         survived();
       }},
      {"write-input",
       [](Task& task) { writeTo(task.scratch + "/in/" + task.spec.inputs(0).sha256(), O_WRONLY | O_TRUNC); }},
      {"rename",
       [](Task& task) {
         rename((task.scratch + "/out/early").c_str(), (task.scratch + "/out/other").c_str());
         survived();
       }},
      {"unlink",
       [](Task& task) {
         unlink((task.scratch + "/out/early").c_str());
         survived();
       }},
      {"mkdir",
       [](Task& task) {
         mkdir((task.scratch + "/out/folder").c_str(), 0700);
         survived();
       }},
      {"thread",
       [](Task& task) {
         std::atomic<int> done = 0;
         std::thread([&] { done = 1; }).join();
         task.number = done;
         succeed(task);
       }},
#ifdef __x86_64__
      {"ask-for-tiles",  // ARCH_REQ_XCOMP_PERM for TILEDATA, granted if the CPU has tiles
       [](Task& task) {
         task.number = syscall(SYS_arch_prctl, 0x1023, 18) == 0 ? 1 : errno;
         succeed(task);
       }},
      {"set-segment",  // ARCH_SET_GS
       [](Task&) {
         syscall(SYS_arch_prctl, 0x1001, 0);
         survived();
       }},
#endif
      {"compute",  // what generated code may use: memory, clocks, open descriptors
       [](Task& task) {
         std::vector<double> memory(1 << 22, 1.0);
         timespec now = {};
         clock_gettime(CLOCK_MONOTONIC, &now);
         put(task.open_fd, "result");
         finish(task, artifactNamed("early"));
       }},
  };
}

void enterSandbox(const std::string& profile, const std::string& scratch) {
  if (profile == "none") return;
  const Profile parsed = *parseProfile(profile);
  absl::Status status = enterCompileProfile(scratch).status();
  if (status.ok() && parsed == Profile::kExecute) status = filterSystemCalls(Profile::kExecute);
  if (status.ok()) return;
  fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  _exit(96);
}

int describe() {
  v1::RegisterWorkerRequest description;
  description.set_compiler_version("test");
  description.mutable_host()->set_hostname("test-host");
  put(3, description.SerializeAsString());
  return 0;
}

// The build that this program reports: the content of FILE.build next to it.
std::string buildOfThis() {
  std::string build = "test";
  std::ifstream(std::filesystem::read_symlink("/proc/self/exe").string() + ".build") >> build;
  return build;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string build = buildOfThis();
  if (!arguments.empty() && arguments.front() == kServeFlag) arguments = serveForks(build);
  if (arguments == std::vector<std::string>{"--describe"}) return describe();
  if (arguments.size() == 5 && arguments[3] == "--build") {
    if (arguments[4] != build) {
      fprintf(stderr, "this is build %s, the worker started with %s\n", build.c_str(), arguments[4].c_str());
      return kTaskOtherBuild;
    }
    arguments.resize(3);
  }
  if (arguments.size() != 3) return 98;
  exitWhenMemoryRunsOut();
  Task task;
  task.scratch = arguments[0];
  std::ifstream file(task.scratch + "/task.pb", std::ios::binary);
  if (!task.spec.ParseFromIstream(&file)) return 99;
  file.close();
  std::string name = task.spec.assemble().name();
  std::string profile = arguments[2];
  if (name.starts_with("unconfined-")) {  // actions that the supervisor must handle without the sandbox
    name = name.substr(strlen("unconfined-"));
    profile = "none";
  }
  if (const size_t colon = name.find(':'); colon != std::string::npos) {
    task.number = strtol(name.c_str() + colon + 1, nullptr, 10);
    name.resize(colon);
  }
  task.result_fd = open((task.scratch + "/result.pb").c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
  task.open_fd = open((task.scratch + "/out/early").c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
  const Behaviours known = behaviours();
  const auto behaviour = known.find(name);
  if (behaviour == known.end()) return 100;
  enterSandbox(profile, task.scratch);
  behaviour->second(task);
  survived();
}
