#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tessera::compiler {

/// A pool of objects that are expensive to construct, by key. An object is used by one thread at a time. Instances are
/// statics that are never destroyed. A child forked while no other thread runs inherits the objects.
template <typename T>
class ObjectPool {
 public:
  explicit ObjectPool(size_t most) : most_(most) {}

  /// Takes an object of the key out of the pool; null if there is none.
  std::unique_ptr<T> take(const std::string& key = {}) {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(spares_.begin(), spares_.end(), [&](const auto& each) { return each.first == key; });
    if (found == spares_.end()) return nullptr;
    std::unique_ptr<T> taken = std::move(found->second);
    spares_.erase(found);
    return taken;
  }

  /// Returns an object to the pool. A full pool drops the object that has been unused for longest.
  void put(std::unique_ptr<T> thing, const std::string& key = {}) {
    std::unique_ptr<T> oldest;  // destroyed after the lock is released
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
