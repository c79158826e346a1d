#pragma once

#include <httplib.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace tessera::server::gateway {

/// One thread per connection, up to a limit. Beyond it the accepting thread rejects a connection itself.
class ConnectionThreads : public httplib::TaskQueue {
 public:
  explicit ConnectionThreads(int most) : state_(std::make_shared<State>()), most_(most) {}

  void enqueue(std::function<void()> work) override;
  /// Waits for all threads. They end once the listener is closed.
  void shutdown() override;

  /// Whether the calling thread is the accepting thread, which runs the work of a connection only if there is no thread
  /// for it. The work must then close the connection at once.
  static bool mustReject();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int running = 0;
  };
  const std::shared_ptr<State> state_;
  const int most_;
};

/// The open sockets, to end all of them. Thread-safe.
class OpenSockets {
 public:
  /// Call before the socket is closed, since another connection can get its number at once.
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
  /// Ends reading and writing on all of them.
  void shutDown();

 private:
  mutable std::mutex mutex_;
  std::set<int> sockets_;
};

}  // namespace tessera::server::gateway
