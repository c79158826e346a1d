#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/queue/queue_transaction.h"
#include "tessera/v1/failure.pb.h"
#include "tessera/v1/job.pb.h"

namespace tessera::server {

/// Key of a client in the fair queue. Clients of two projects differ even if their names are equal.
std::string clientOf(const std::string& project, const std::string& client);

bool isTerminal(v1::Job::State state);

/// Adds the job's end to the observations of the transaction.
void observeEnd(QueueTransaction& queue, const v1::Job& job);

/// Stores the job in its new state, with the time of the change and a StateChanged event. INTERNAL, without a change,
/// if the job is in a terminal state already.
absl::Status changeState(QueueTransaction& queue, v1::Job job, v1::Job::State state, const v1::Failure* failure);

/// Events of a job after `cursor`, as Reader::eventsAfter() returns them. A job that ended when it was created has no
/// stored event; its single event is derived from the job.
absl::StatusOr<std::vector<v1::JobEvent>> eventsOf(storage::Reader& reader, const v1::Job& job, int64_t cursor,
                                                   int limit);

/// Appends an event to a job; sets its job id and time.
absl::Status appendEvent(QueueTransaction& queue, const std::string& job_id, v1::JobEvent event);

/// Calls `change` for each living job of an action. `change` stores the job.
absl::Status forLivingJobs(QueueTransaction& queue, const std::string& action_id,
                           const std::function<absl::Status(v1::Job&)>& change);

}  // namespace tessera::server
