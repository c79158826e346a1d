#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace tessera::server {

/// Time and ids are passed to the scheduler, so that tests replay a schedule from a seed.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t nowMicros() = 0;  ///< microseconds since the Unix epoch
};

class IdSource {
 public:
  virtual ~IdSource() = default;
  /// A unique name, "<prefix>-...". Thread-safe.
  virtual std::string next(std::string_view prefix) = 0;
  /// 16 unpredictable bytes. Thread-safe.
  virtual std::string secret() = 0;
};

/// Wall-clock time at the start, advanced by the monotonic clock and adjusted toward the present wall clock by at most
/// 1 % of the time that passes. Leases and deadlines count elapsed time, so setting the clock must not make them jump.
/// Never runs backwards. Thread-safe.
class SystemClock : public Clock {
 public:
  using Source = std::function<int64_t()>;  ///< microseconds
  SystemClock();
  SystemClock(Source wall, Source monotonic);
  int64_t nowMicros() override;

 private:
  const Source wall_, monotonic_;
  std::mutex mutex_;
  int64_t now_us_;
  int64_t last_us_;  ///< of the monotonic clock
};

/// Time in hexadecimal, then 64 random bits: unique, and sorted by age.
class RandomIds : public IdSource {
 public:
  std::string next(std::string_view prefix) override;
  std::string secret() override;
};

}  // namespace tessera::server
