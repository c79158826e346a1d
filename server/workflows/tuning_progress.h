#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "server/queue/queue_transaction.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/storage.pb.h"

/// Progress and results that a tune job reports.
namespace tessera::server {

/// Copies a search's report into the tune action's workload list; keeps the fields that describe the model.
void copySearchReport(const v1::TuneResult::Workload& report, v1::TuneState& tune);

/// noteProgress() and notePhase() of server/queue/actions.h, except for phases that a tune job does not show: the
/// compilations that try a choice, and versions that are made while searches go on.
absl::Status showProgress(QueueTransaction& queue, v1::Action& action, const v1::Progress& progress, bool can_wait);
void showPhase(v1::Action& action, const std::string& phase, double wall_ms, double cpu_ms, int tasks);

v1::Progress searchProgress(const v1::TuneState& tune);
v1::Progress phaseProgress(const std::string& phase);

/// The event of a trial of this workload.
v1::JobEvent::TuneProgress trialProgress(const v1::Action& action, const std::string& workload_hash,
                                         const std::string& failure, int64_t now_us);

}  // namespace tessera::server
