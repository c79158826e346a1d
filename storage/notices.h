#pragma once

#include <functional>
#include <list>
#include <memory>
#include <shared_mutex>

#include "storage/store.h"

namespace tessera::storage {

/// The listeners of a store within this process. Thread-safe.
class Notices {
 public:
  using Listener = std::function<void(const Notice&)>;

  /// Listens until the returned handle is destroyed; its destruction waits for calls in progress.
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
