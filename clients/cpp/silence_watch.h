#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace tessera::client {

/// Tells of calls that have gone on for long without an answer, while they go on: a server that stands still, or a wire
/// that swallows packets, ends none of them before its deadline. Thread-safe.
class SilenceWatch {
 public:
  using Milliseconds = std::chrono::milliseconds;
  /// From then on a call's silence is told. Answers take milliseconds; this is more than a slow disk.
  static constexpr Milliseconds kLong{3'000};

  /// `tell` hears, once for each such call and on this watch's own thread, how long its answer is still waited for.
  explicit SilenceWatch(std::function<void(Milliseconds)> tell) : tell_(std::move(tell)) {}
  ~SilenceWatch();
  SilenceWatch(const SilenceWatch&) = delete;
  SilenceWatch& operator=(const SilenceWatch&) = delete;

  struct Silence {
    std::chrono::steady_clock::time_point since;
    Milliseconds timeout{};
    bool told = false;
  };

  /// One call, as long as this object lives. `watch` may be null: nobody is told.
  class Call {
   public:
    Call(SilenceWatch* watch, Milliseconds timeout);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    SilenceWatch* watch_;
    std::list<Silence>::iterator entry_;
  };

 private:
  void run();

  const std::function<void(Milliseconds)> tell_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Silence> silences_;  // in the order of their beginnings
  bool over_ = false;
  std::thread thread_;  // from the first call on
};

}  // namespace tessera::client
