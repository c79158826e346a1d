#pragma once

#include <signal.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "clients/cpp/channel.h"

namespace tessera::client {

/// Turns Ctrl-C (SIGINT, SIGTERM) of a command that makes a job into the job's cancellation, so that nothing goes on
/// working for nobody. Threads started before it keep the signals for themselves: make it before the first connection.
///
/// Until jobMayExist() a signal ends the program as it always does. After it, a signal waits for cancels(), whose
/// action it runs once; a second signal ends the program at once.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();  ///< afterwards signals act as before
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  void jobMayExist();

  /// What to do on a signal, or at once when one came since jobMayExist(). Runs on the watch's own thread.
  void cancels(std::function<void()> action);

 private:
  void watch();
  void letThrough();

  sigset_t signals_, before_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool job_may_exist_ = false;
  bool taken_ = false;  // a signal came
  bool over_ = false;
  std::function<void()> action_;
  std::thread thread_;
};

/// Says so on the terminal ("tessera: DOING JOB"), and asks the server to cancel the job.
void cancelAloud(Channel& channel, const std::string& job_id, const char* doing);

}  // namespace tessera::client
