#include "server/scheduler/clock.h"

#include <sys/random.h>

#include <chrono>
#include <random>

#include "absl/strings/str_format.h"

namespace tessera::server {

int64_t SystemClock::nowMicros() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string RandomIds::next(std::string_view prefix) {
  uint64_t random = 0;
  if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
    random = (static_cast<uint64_t>(std::random_device()()) << 32) | std::random_device()();
  }
  return absl::StrFormat("%s-%013x-%016x", prefix, static_cast<uint64_t>(SystemClock().nowMicros()), random);
}

}  // namespace tessera::server
