#include "server/simulation/checker.h"

#include <map>
#include <set>

#include "server/queue/jobs.h"

namespace tessera::server::simulation {
namespace {

/// Outcomes of the attempts of a job's tasks, by task: reason -> count; a success counts as REASON_UNSPECIFIED.
using Attempts = std::map<std::string, std::map<v1::Failure::Reason, int>>;

void checkEvents(World& world, const v1::Job& job, const std::vector<v1::JobEvent>& events, Attempts& attempts) {
  int ends = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    const v1::JobEvent& event = events[i];
    if (event.sequence() != static_cast<int64_t>(i) + 1) {
      world.wrong(absl::StrCat(job.id(), ": events have a gap before ", event.sequence()));
    }
    const bool end = event.has_state() && isTerminal(event.state().state());
    ends += end ? 1 : 0;
    if (end && i + 1 != events.size()) {
      world.wrong(absl::StrCat(job.id(), ": something happened after its end"));
    }
    if (event.has_attempt()) {
      const v1::JobEvent::AttemptEnded& attempt = event.attempt();
      const int count = ++attempts[attempt.task_id()][attempt.failure().reason()];
      if (!attempt.has_failure() && count > 1) {
        world.wrong(absl::StrCat(job.id(), ": task ", attempt.task_id(), " succeeded twice"));
      }
    }
  }
  if (ends != 1) {
    world.wrong(absl::StrCat(job.id(), " has ", ends, " ends"));
  }
}

/// Whether a fault or a request explains that the job failed with this reason.
bool deserved(const World& world, const Client::Promise& promise, const v1::Failure& failure,
              const Attempts& attempts) {
  int most_crashes = 0;
  int most_losses = 0;
  int most_faults = 0;
  for (const auto& [task, ends] : attempts) {
    const auto count = [&, &ends = ends](v1::Failure::Reason reason) {
      const auto found = ends.find(reason);
      return found == ends.end() ? 0 : found->second;
    };
    most_crashes = std::max(most_crashes, count(v1::Failure::CRASHED));
    most_faults = std::max(most_faults, count(v1::Failure::WORKER_FAULT));
    most_losses = std::max(most_losses, count(v1::Failure::LEASE_LOST) + count(v1::Failure::CANCELLED));
  }
  switch (failure.reason()) {
    case v1::Failure::QUEUE_DEADLINE_EXCEEDED:
    case v1::Failure::JOB_DEADLINE_EXCEEDED:
      return promise.hurried;
    case v1::Failure::RUN_DEADLINE_EXCEEDED:
      return promise.hurried || world.options.hangs > 0;
    case v1::Failure::QUARANTINED:
      return most_crashes > 0;  // the job has joined other work, whose jobs have the remaining crashes
    case v1::Failure::WORKER_FAULT:
      return most_faults > 0 && world.sound_workers == 0;  // if any worker is sound, sick workers fail no job
    case v1::Failure::LEASE_LOST:
      return most_losses > 0 && world.options.worker_incident_us + world.options.server_crash_us > 0;
    default:
      return promise.impossible;
  }
}

}  // namespace

void checkClient(World& world, const Client& client) {
  for (const auto& [id, promise] : client.promises()) {
    const absl::Status read = world.store().read([&, &id = id, &promise = promise](storage::Reader& reader) {
      const auto job = reader.getJob(id);
      if (!job.ok()) {
        world.wrong(absl::StrCat(id, " was acknowledged: ", job.status().ToString()));
        return absl::OkStatus();
      }
      if (!isTerminal(job->state())) {
        world.wrong(absl::StrCat(id, " did not end in time, it is ", v1::Job::State_Name(job->state())));
        return absl::OkStatus();
      }
      Attempts attempts;
      checkEvents(world, *job, eventsOf(reader, *job, 0, 100'000).value(), attempts);
      if (job->state() == v1::Job::CANCELLED && !promise.cancelled) {
        world.wrong(absl::StrCat(id, " was cancelled by nobody"));
      }
      if (job->state() == v1::Job::FAILED && !deserved(world, promise, job->failure(), attempts)) {
        world.wrong(absl::StrCat(id, " failed through no fault of its own: ", job->failure().ShortDebugString()));
      }
      if (job->state() == v1::Job::SUCCEEDED) {
        std::string bytes;
        const std::string& artifact = job->compile_result().artifact().sha256();
        const absl::Status got = world.blobs().get(artifact, 0, 0, [&](std::string_view chunk) {
          bytes += chunk;
          return absl::OkStatus();
        });
        if (!got.ok() || bytes != artifactBytes(world, promise.model)) {
          world.wrong(absl::StrCat(id, " has another artifact than its model makes: ", got.ToString()));
        }
      }
      return absl::OkStatus();
    });
    if (!read.ok()) {
      world.wrong(read.ToString());
    }
  }
}

void checkLeftovers(World& world) {
  const absl::Status read = world.store().read([&](storage::Reader& reader) {
    const auto leased = reader.leasedTasks();
    for (const v1::Task& task : *leased) {
      world.wrong(absl::StrCat("task ", task.id(), " is still leased to ", task.worker_id()));
    }
    if (const auto task = reader.nextReadyTask({}); task.ok()) {
      world.wrong(absl::StrCat("task ", task->id(), " is ready, and nobody waits for it"));
    }
    const absl::Status rows = reader.forEach(storage::Kind::kBlob, [&](const storage::Stored& stored) {
      const auto size = reader.blobSize(stored.id);
      if (size.ok() && world.blobs().size(stored.id).value_or(-1) != *size) {
        world.wrong(absl::StrCat("the row of blob ", stored.id, " says that it is there, of ", *size, " bytes"));
      }
      return absl::OkStatus();
    });
    if (!rows.ok()) {
      world.wrong(rows.ToString());
    }
    const auto workers = reader.listWorkers({});
    for (const v1::Worker& worker : workers->items) {
      if (worker.task_ids_size() > 0) {
        world.wrong(absl::StrCat("worker ", worker.id(), " is said to hold ", worker.task_ids(0)));
      }
    }
    return absl::OkStatus();
  });
  if (!read.ok()) {
    world.wrong(read.ToString());
  }
}

}  // namespace tessera::server::simulation
