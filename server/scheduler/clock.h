#pragma once

#include <cstdint>
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
};

class SystemClock : public Clock {
 public:
  int64_t nowMicros() override;
};

/// The time in hexadecimal, then 64 random bits: unique, and sorted by age.
class RandomIds : public IdSource {
 public:
  std::string next(std::string_view prefix) override;
};

}  // namespace tessera::server
