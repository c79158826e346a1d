#pragma once

#include <httplib.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace tessera::server::gateway {

/// A thread for each connection, so many at a time. Past that a connection is refused in the thread that accepts.
class ConnectionThreads : public httplib::TaskQueue {
 public:
  explicit ConnectionThreads(int most) : state_(std::make_shared<State>()), most_(most) {}

  void enqueue(std::function<void()> work) override;
  /// Waits for all of them; they end by themselves once the listener is closed.
  void shutdown() override;

  /// Whether this thread is the one that accepts, and was told to refuse.
  static bool refusing();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int running = 0;
  };
  const std::shared_ptr<State> state_;
  const int most_;
};

/// The sockets that are open, to end them all. Thread-safe.
class OpenSockets {
 public:
  /// Must go before the socket is closed: its number may be another's at once.
  class Entry {
   public:
    Entry(OpenSockets& all, int socket);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    OpenSockets& all_;
    const int socket_;
  };

  bool any() const;
  /// Nothing more is read or written on any of them.
  void shutDown();

 private:
  mutable std::mutex mutex_;
  std::set<int> sockets_;
};

}  // namespace tessera::server::gateway
