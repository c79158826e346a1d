#include "clients/cli/interrupt.h"

#include <pthread.h>

#include <iostream>
#include <utility>

namespace tessera::client {

InterruptWatch::InterruptWatch() : signals_{}, before_{} {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  thread_ = std::thread([this] { watch(); });
}

InterruptWatch::~InterruptWatch() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    if (!taken_) pthread_kill(thread_.native_handle(), SIGTERM);  // wakes that thread's sigwait only
  }
  changed_.notify_all();
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void InterruptWatch::jobMayExist() {
  const std::lock_guard lock(mutex_);
  job_may_exist_ = true;
}

void InterruptWatch::setCancelAction(std::function<void()> action) {
  {
    const std::lock_guard lock(mutex_);
    action_ = std::move(action);
  }
  changed_.notify_all();
}

// Unblocking in this one thread suffices: the kernel delivers a process signal to any thread that does not block it.
void InterruptWatch::letThrough() { pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr); }

void InterruptWatch::watch() {
  int signal = 0;
  // The only thread that takes these signals: all others block them.
  sigwait(&signals_, &signal);
  std::unique_lock lock(mutex_);
  if (over_) return;
  taken_ = true;
  letThrough();
  // There is nothing to cancel yet: let the signal end the program. The lock is released, because the process may end
  // here.
  if (!job_may_exist_) {
    lock.unlock();
    raise(signal);
    lock.lock();
  }
  changed_.wait(lock, [this] { return over_ || action_; });
  if (over_) return;
  const std::function<void()> action = action_;
  lock.unlock();
  // Without the lock: the action calls the server and may take long.
  action();
}

void announceAndCancel(Channel& channel, const std::string& job_id, const char* doing) {
  std::cerr << "\ntessera: " << doing << " " << job_id << " (press again to exit at once)\n";
  v1::CancelJobRequest request;
  request.set_id(job_id);
  (void)channel.call(channel.jobs(), &v1::JobService::Stub::CancelJob, request);
}

}  // namespace tessera::client
