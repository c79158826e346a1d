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
  std::vector<std::string> arguments;  ///< given to each, before its id and scratch folder
  std::string credential;              ///< each reads it from a pipe, named by --token-fd; empty: none
  std::string id_prefix = "local-";    ///< worker i is "<prefix><i>", the same after every restart
  std::string scratch_folder;          ///< worker i gets "<folder>/<id>"
  std::chrono::milliseconds first_backoff{100};
  std::chrono::milliseconds longest_backoff{10'000};
  std::vector<int> final_codes;                     ///< exit codes after which starting again cannot help
  std::chrono::milliseconds settled_after{10'000};  ///< a worker that lived this long starts over at first_backoff
};

/// Keeps local workers running: one process each, in a process group of its own, started again with
/// exponential backoff when it ends, unless its exit code says that this cannot help. They do not outlive this process:
/// the kernel kills them with it.
///
/// One thread starts and waits for all of them and lives as long as the supervisor (the kernel's parent
/// death signal belongs to the thread that forked).
class Supervisor {
 public:
  /// Called on the supervisor's thread when a worker's process has ended, before it is started again.
  using OnExit = std::function<void(const std::string& worker_id)>;

  Supervisor(SupervisorOptions options, OnExit on_exit);
  ~Supervisor();  ///< kill()

  /// Asks every worker to finish what it runs and to leave; none is started again.
  void drain();
  /// Whether any worker still lives.
  bool running() const;
  /// Ends every worker's process group now, and returns when they are gone. Idempotent.
  void kill();
  struct FinalEnd {
    std::string text;   ///< "worker local-0 ended: exit code 3"; its own log says why; empty: none was given up
    int exit_code = 0;  ///< one of `final_codes`
  };
  /// The last end of a worker that was given up.
  FinalEnd gaveUp() const;
  /// Process ids of the living workers, in order of their numbers; 0 for one that is down.
  std::vector<pid_t> pids() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::server
