#pragma once

#include <functional>
#include <list>
#include <memory>
#include <shared_mutex>

#include "storage/store.h"

namespace tessera::storage {

/// Who listens on a store within this process. Thread-safe.
class Notices {
 public:
  using Listener = std::function<void(const Notice&)>;

  /// Until the answer is destroyed, which waits for calls under way.
  [[nodiscard]] std::shared_ptr<void> listen(Listener listener);
  void post(const Notice& notice) const;

 private:
  struct Board {
    std::shared_mutex mutex;
    std::list<Listener> listeners;
  };
  const std::shared_ptr<Board> board_ = std::make_shared<Board>();
};

}  // namespace tessera::storage
