#include "server/access/concurrency_limiter.h"

namespace tessera::server {

std::shared_ptr<void> ConcurrencyLimiter::take(const std::string& name) {
  const std::lock_guard lock(state_->mutex);
  const auto known = state_->of_one.find(name);
  if (state_->all >= most_ || (known != state_->of_one.end() && known->second >= most_of_one_)) {
    return nullptr;
  }
  ++state_->all;
  ++state_->of_one[name];
  return {state_.get(), [state = state_, name](void*) {
            const std::lock_guard ending(state->mutex);
            --state->all;
            if (--state->of_one[name] == 0) {
              state->of_one.erase(name);
            }
          }};
}

}  // namespace tessera::server
