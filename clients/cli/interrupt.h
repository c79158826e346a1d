#pragma once

#include <signal.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "clients/cpp/channel.h"

namespace tessera::client {

/// Turns Ctrl-C (SIGINT, SIGTERM) into the cancellation of the command's job, so that the service does not work for a
/// client that is gone. Threads that exist before this object still receive the signals: create it before the first
/// connection.
///
/// Until jobMayExist() a signal ends the program as usual. After it, a signal is kept until setCancelAction() sets an
/// action, which runs once. A second signal ends the program at once.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();  ///< restores the signals' default effect
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  void jobMayExist();

  /// Sets the action for a signal. Runs it at once if a signal arrived since jobMayExist(). It runs on this object's
  /// own thread.
  void setCancelAction(std::function<void()> action);

 private:
  void watch();
  void letThrough();

  sigset_t signals_, before_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool job_may_exist_ = false;
  bool taken_ = false;  // a signal arrived
  bool over_ = false;
  std::function<void()> action_;
  std::thread thread_;
};

/// Prints "tessera: DOING JOB" on the terminal, and asks the server to cancel the job.
void announceAndCancel(Channel& channel, const std::string& job_id, const char* doing);

}  // namespace tessera::client
