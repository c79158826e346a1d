#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace tessera::client {

/// Reports calls that are still unanswered after kSlowCallThreshold. A stopped server or a connection that drops
/// packets ends no call before its deadline. Thread-safe.
class SlowCallMonitor {
 public:
  using Milliseconds = std::chrono::milliseconds;
  /// Calls that take longer are reported. Answers take milliseconds; this limit exceeds the delay of a slow disk.
  static constexpr Milliseconds kSlowCallThreshold{3'000};

  /// `tell` is called once for each such call, on this object's own thread, with the remaining time until the call's
  /// deadline.
  explicit SlowCallMonitor(std::function<void(Milliseconds)> tell) : tell_(std::move(tell)) {}
  ~SlowCallMonitor();
  SlowCallMonitor(const SlowCallMonitor&) = delete;
  SlowCallMonitor& operator=(const SlowCallMonitor&) = delete;

  struct Silence {
    std::chrono::steady_clock::time_point since;
    Milliseconds timeout{};
    bool told = false;
  };

  /// Registers one call for the lifetime of this object. `watch` may be null: the call is not monitored.
  class Call {
   public:
    Call(SlowCallMonitor* watch, Milliseconds timeout);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    SlowCallMonitor* watch_;
    std::list<Silence>::iterator entry_;
  };

 private:
  void run();

  const std::function<void(Milliseconds)> tell_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Silence> silences_;  // in order of their starts
  bool over_ = false;
  std::thread thread_;  // started by the first call
};

}  // namespace tessera::client
