#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/queue/step.h"
#include "tessera/v1/failure.pb.h"
#include "tessera/v1/job.pb.h"

namespace tessera::server {

/// Who takes turns: a client of one project is not that of another, whatever they are called.
std::string clientOf(const std::string& project, const std::string& client);

bool isTerminal(v1::Job::State state);

/// Notes that a job ended, for those who count them.
void noteEnd(Step& step, const v1::Job& job);

/// Stores the job in its new state with the time of the change, and the StateChanged event. A terminal
/// state is entered once: from another terminal state the answer is INTERNAL, and nothing is written.
absl::Status changeState(Step& step, v1::Job job, v1::Job::State state, const v1::Failure* failure);

/// Events of a job behind `cursor`, as the store's eventsAfter(). A job that ended in the step that made it has stored
/// none: its only one, of its state, is told from the job itself.
absl::StatusOr<std::vector<v1::JobEvent>> eventsOf(storage::Reader& reader, const v1::Job& job, int64_t cursor,
                                                   int limit);

/// Appends an event (job and sequence are filled in) to one job.
absl::Status appendEvent(Step& step, const std::string& job_id, v1::JobEvent event);

/// Applies `change` to each living job of an action and stores it.
absl::Status forLivingJobs(Step& step, const std::string& action_id,
                           const std::function<absl::Status(v1::Job&)>& change);

}  // namespace tessera::server
