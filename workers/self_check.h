#pragma once

#include <cstdint>
#include <string>

namespace tessera::worker {

/// What a task needs of its machine, looked at before each question for work: a worker that cannot do a task must not
/// take one away from those that can. Takes some 100 us.
struct SelfCheck {
  std::string attempts_folder;  ///< where attempts get their folders
  std::string task_binary;
  int64_t min_free_bytes = int64_t{64} << 20;

  /// Why this worker cannot do any task now; empty when it can.
  std::string trouble() const;
};

}  // namespace tessera::worker
