#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "tessera/v1/job.pb.h"

namespace tessera::client {

/// Shows the progress of a long operation on stderr. On a terminal, one line is redrawn in place and cut to its width;
/// in a pipe, each change is a line (counters at most once a second); with --quiet, nothing. Not thread-safe.
class ProgressView {
 public:
  explicit ProgressView(bool silent);
  ~ProgressView();
  ProgressView(const ProgressView&) = delete;
  ProgressView& operator=(const ProgressView&) = delete;

  /// `done` and `total` are bytes.
  void transfer(const std::string& what, int64_t done, int64_t total);
  void event(const v1::JobEvent& event);
  /// Shows what a queued job waits for.
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
