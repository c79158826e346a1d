#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/v1/tensor.pb.h"

namespace tessera::storage {

/// Removes blobs one after another on a thread of its own, which the first removal starts. The destructor waits for the
/// removal in progress and forgets the others.
class BackgroundRemoval {
 public:
  explicit BackgroundRemoval(std::function<void(const v1::Digest& blob)> remove) : remove_(std::move(remove)) {}
  ~BackgroundRemoval() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  BackgroundRemoval(const BackgroundRemoval&) = delete;
  BackgroundRemoval& operator=(const BackgroundRemoval&) = delete;

  void add(const std::vector<v1::Digest>& blobs) {
    if (blobs.empty()) return;
    {
      const std::lock_guard lock(mutex_);
      waiting_.insert(waiting_.end(), blobs.begin(), blobs.end());
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    }
    changed_.notify_all();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      const v1::Digest blob = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      remove_(blob);
      lock.lock();
    }
  }

  const std::function<void(const v1::Digest&)> remove_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::Digest> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tessera::storage
