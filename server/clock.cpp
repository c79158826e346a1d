#include "server/clock.h"

#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <utility>

#include "absl/strings/str_format.h"

namespace tessera::server {

namespace {

template <typename Source>
int64_t microsOf() {
  return std::chrono::duration_cast<std::chrono::microseconds>(Source::now().time_since_epoch()).count();
}

constexpr int64_t kSlew = 100;  // the wall clock adjusts ours by at most 1 / kSlew of the time that passes

}  // namespace

SystemClock::SystemClock() : SystemClock(microsOf<std::chrono::system_clock>, microsOf<std::chrono::steady_clock>) {}

SystemClock::SystemClock(Source wall, Source monotonic)
    : wall_(std::move(wall)), monotonic_(std::move(monotonic)), now_us_(wall_()), last_us_(monotonic_()) {}

int64_t SystemClock::nowMicros() {
  const std::lock_guard lock(mutex_);
  const int64_t monotonic_us = monotonic_();
  const int64_t passed = std::max<int64_t>(0, monotonic_us - last_us_);
  if (passed < kSlew) {
    return now_us_ + passed;  // too little to adjust by; counted later
  }
  last_us_ = monotonic_us;
  now_us_ += passed;
  now_us_ += std::clamp(wall_() - now_us_, -passed / kSlew, passed / kSlew);
  return now_us_;
}

std::string RandomIds::next(std::string_view prefix) {
  uint64_t random = 0;
  if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
    random = (static_cast<uint64_t>(std::random_device()()) << 32) | std::random_device()();
  }
  return absl::StrFormat("%s-%013x-%016x", prefix, static_cast<uint64_t>(microsOf<std::chrono::system_clock>()),
                         random);
}

std::string RandomIds::secret() {
  std::string bytes(16, '\0');
  // getrandom() returns so few bytes whole; if it fails, nothing here is secure.
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    std::abort();
  }
  return bytes;
}

}  // namespace tessera::server
