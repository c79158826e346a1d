#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "tessera/v1/job.pb.h"

namespace tessera::client {

/// Shows a long operation on stderr: one line redrawn in place, and cut to its width, on a terminal that can do that; a
/// plain line for each change (at most one a second for counters) in a pipe or on a dumb one; nothing when silent.
/// Single-threaded.
class ProgressView {
 public:
  explicit ProgressView(bool silent);
  ~ProgressView();
  ProgressView(const ProgressView&) = delete;
  ProgressView& operator=(const ProgressView&) = delete;

  /// done of total in units of bytes.
  void transfer(const std::string& what, int64_t done, int64_t total);
  void event(const v1::JobEvent& event);
  /// What a queued job waits for.
  void waits(const std::string& reason);
  /// Ends the line, so that other output can follow.
  void finish();

 private:
  enum class Style { kSilent, kTerminal, kLines };
  void show(const std::string& phase, int64_t done, int64_t total, const std::string& text);

  Style style_;
  std::string last_phase_;
  bool open_line_ = false;
  std::chrono::steady_clock::time_point last_shown_;
};

}  // namespace tessera::client
