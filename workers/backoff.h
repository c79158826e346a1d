#pragma once

#include <algorithm>
#include <random>

#include "workers/child_process.h"

namespace tessera::worker {

/// Delays between retries. The delay doubles up to a cap; each one is drawn from its upper half, so that workers that
/// lost the same server do not retry in step.
class Backoff {
 public:
  explicit Backoff(Milliseconds first = Milliseconds(100), Milliseconds cap = Milliseconds(3000),
                   uint32_t seed = std::random_device{}())
      : first_(first), cap_(cap), next_(first), random_(seed) {}

  Milliseconds next() {
    const auto whole = next_.count();
    next_ = std::min(cap_, next_ * 2);
    return Milliseconds(std::uniform_int_distribution<int64_t>(whole / 2, whole)(random_));
  }
  void reset() { next_ = first_; }

 private:
  Milliseconds first_, cap_, next_;
  std::minstd_rand random_;
};

}  // namespace tessera::worker
