#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace tessera::server {

/// Time and names are passed into the scheduler, so that a test replays a schedule from a seed.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t nowMicros() = 0;  ///< since the Unix epoch
};

class IdSource {
 public:
  virtual ~IdSource() = default;
  /// A name nobody has: "<prefix>-...". Thread-safe.
  virtual std::string next(std::string_view prefix) = 0;
  /// 16 bytes that nobody can guess. Thread-safe.
  virtual std::string secret() = 0;
};

/// The wall clock as it was at the start, carried on by the monotonic one and drawn to the present wall clock by at
/// most a hundredth of the time that passes: leases and deadlines count elapsed time, so a clock that is set must not
/// jump under them. Never runs backwards. Thread-safe.
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

/// The time in hexadecimal, then 64 random bits: unique, and sorted by age.
class RandomIds : public IdSource {
 public:
  std::string next(std::string_view prefix) override;
  std::string secret() override;
};

}  // namespace tessera::server
