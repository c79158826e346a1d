#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tessera::server {

struct SupervisorOptions {
  int workers = 1;
  std::string binary;                  ///< tessera-worker
  std::vector<std::string> arguments;  ///< of each worker, followed by its id and scratch folder
  std::string credential;              ///< passed through a pipe with --token-fd; empty: none
  std::string id_prefix = "local-";    ///< worker i is "<prefix><i>", unchanged by a restart
  std::string scratch_folder;          ///< worker i gets "<folder>/<id>"
  std::chrono::milliseconds first_backoff{100};
  std::chrono::milliseconds longest_backoff{10'000};
  std::vector<int> final_codes;                     ///< exit codes after which a restart cannot help
  std::chrono::milliseconds settled_after{10'000};  ///< a worker that lived this long starts again with first_backoff
};

/// Keeps local workers running: one process each, in a process group of its own. A worker that ends is started again
/// with exponential backoff, unless its exit code says that this cannot help. Workers do not outlive this process: the
/// kernel kills them with it.
///
/// One thread starts all workers and waits for them. It lives as long as the supervisor, because the kernel's parent
/// death signal is bound to the thread that forked.
class Supervisor {
 public:
  /// Called on the supervisor's thread when a worker's process has ended, before its restart.
  using OnExit = std::function<void(const std::string& worker_id)>;

  Supervisor(SupervisorOptions options, OnExit on_exit);
  ~Supervisor();  ///< kill()

  /// Asks all workers to finish their tasks and to end. None is started again.
  void drain();
  /// Whether any worker is alive.
  bool running() const;
  /// Kills the process groups of all workers, and returns once they are gone. Idempotent.
  void kill();
  struct FinalEnd {
    std::string text;   ///< "worker local-0 ended: exit code 3"; the cause is in its own log; empty: none
    int exit_code = 0;  ///< one of `final_codes`
  };
  /// The last worker that was not started again.
  FinalEnd gaveUp() const;
  /// Process ids of the workers, in order of their numbers; 0 for one that is not running.
  std::vector<pid_t> pids() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::server
