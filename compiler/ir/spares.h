#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tessera::compiler {

/// Things that take long to make and can serve again, each for a key and in one thread's hands at a time. For statics
/// that are never destroyed. A process that is forked while no other thread runs begins with what its parent had.
template <typename T>
class Spares {
 public:
  explicit Spares(size_t most) : most_(most) {}

  /// Null where there is none for the key.
  std::unique_ptr<T> take(const std::string& key = {}) {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(spares_.begin(), spares_.end(), [&](const auto& each) { return each.first == key; });
    if (found == spares_.end()) return nullptr;
    std::unique_ptr<T> taken = std::move(found->second);
    spares_.erase(found);
    return taken;
  }

  /// Kept for the next one who asks; where there are many already, that which nobody took for longest goes.
  void put(std::unique_ptr<T> thing, const std::string& key = {}) {
    std::unique_ptr<T> oldest;  // destroyed when the lock is gone
    const std::lock_guard lock(mutex_);
    if (spares_.size() == most_) {
      oldest = std::move(spares_.front().second);
      spares_.erase(spares_.begin());
    }
    spares_.emplace_back(key, std::move(thing));
  }

 private:
  const size_t most_;
  std::mutex mutex_;
  std::vector<std::pair<std::string, std::unique_ptr<T>>> spares_;
};

}  // namespace tessera::compiler
