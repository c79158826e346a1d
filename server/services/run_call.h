#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "server/limits.h"
#include "server/queue/scheduler.h"
#include "server/services/calls.h"
#include "storage/store.h"
#include "tessera/v1/job.pb.h"

namespace tessera::server {

/// A unary call that is a job: creates it and waits for its end. Cancels it if the client disconnects, unless the
/// request has an id by which the result can be requested again.
class RunCall : public grpc::ServerUnaryReactor, public WakeableCall {
 public:
  using Answer = std::function<void(const v1::Job& job)>;  ///< copies the result of the finished job to the response

  static grpc::ServerUnaryReactor* start(Gate::Admission admission, Scheduler& scheduler, storage::Store& store,
                                         Executor& executor, const Limits& limits, v1::CreateJobRequest request,
                                         Answer answer);

  void OnCancel() override;
  void OnDone() override;

 private:
  RunCall(Caller caller, Scheduler& scheduler, storage::Store& store, Executor& executor, const Limits& limits,
          v1::CreateJobRequest request, Answer answer)
      : WakeableCall(executor),
        caller_(std::move(caller)),
        scheduler_(scheduler),
        store_(store),
        limits_(limits),
        request_(std::move(request)),
        answer_(std::move(answer)) {}
  void advance() override;
  absl::Status begin();
  void finish(const absl::Status& status);

  const Caller caller_;
  Scheduler& scheduler_;
  storage::Store& store_;
  const Limits& limits_;
  const v1::CreateJobRequest request_;
  const Answer answer_;
  std::string job_id_;
  Notifier::Token subscription_ = 0;
  bool finished_ = false;
  std::atomic<bool> gone_ = false;
};

}  // namespace tessera::server
