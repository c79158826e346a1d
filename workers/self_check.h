#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace tessera::worker {

/// Checks before each lease request whether this machine can run tasks: a worker that cannot must not take tasks away
/// from others. Thread-safe.
class SelfCheck {
 public:
  /// `attempts_folder` is the parent of attempt folders; its disk must have `min_free_bytes` free.
  SelfCheck(std::string attempts_folder, std::string task_binary, int64_t min_free_bytes)
      : attempts_folder_(std::move(attempts_folder)),
        task_binary_(std::move(task_binary)),
        min_free_bytes_(min_free_bytes) {}

  /// Returns why this worker cannot run tasks now; empty if it can. Takes a few microseconds; about 100 us once per
  /// second and while the last test folder could not be created.
  std::string trouble();

 private:
  using Clock = std::chrono::steady_clock;

  const std::string attempts_folder_, task_binary_;
  const int64_t min_free_bytes_;
  std::atomic<Clock::time_point> folder_made_{Clock::time_point::min()};  ///< last successful creation of a test folder
};

}  // namespace tessera::worker
