#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace tessera::worker {

/// What a task needs of its machine, looked at before each question for work: a worker that cannot do a task must not
/// take one away from those that can. Thread-safe.
class SelfCheck {
 public:
  /// `attempts_folder` is where attempts get their folders, on a disk that has `min_free_bytes` left.
  SelfCheck(std::string attempts_folder, std::string task_binary, int64_t min_free_bytes)
      : attempts_folder_(std::move(attempts_folder)),
        task_binary_(std::move(task_binary)),
        min_free_bytes_(min_free_bytes) {}

  /// Why this worker cannot do any task now; empty when it can. Takes some us; once a second, and whenever the last
  /// folder could not be made, some 100 us.
  std::string trouble();

 private:
  using Clock = std::chrono::steady_clock;

  const std::string attempts_folder_, task_binary_;
  const int64_t min_free_bytes_;
  std::atomic<Clock::time_point> folder_made_{Clock::time_point::min()};  ///< the last that could be made
};

}  // namespace tessera::worker
