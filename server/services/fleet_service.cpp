#include "server/services/fleet_service.h"

#include <google/protobuf/util/time_util.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/messages/project.h"
#include "proto/support/status_macros.h"
#include "server/queue/wanted_workers.h"
#include "server/request_checks.h"
#include "server/services/calls.h"

namespace tessera::server {
namespace {

/// Stands for targets of other projects. No target can have this name.
constexpr char kOtherTargets[] = "(others)";

/// Workers serve all projects: callers other than operators see all workers, but only tasks of their own project.
v1::Worker shownTo(storage::Reader& reader, const Caller& caller, v1::Worker worker) {
  if (caller.role == v1::OPERATOR) {
    return worker;
  }
  const google::protobuf::RepeatedPtrField<std::string> ids = worker.task_ids();
  worker.clear_task_ids();
  for (const std::string& id : ids) {
    if (const auto task = reader.getTask(id); task.ok() && sees(caller, projectOf(*task))) {
      worker.add_task_ids(id);
    }
  }
  return worker;
}

void setTime(google::protobuf::Timestamp* (v1::TaskInfo::*field)(), int64_t time_us, v1::TaskInfo& info) {
  if (time_us > 0) {
    *(info.*field)() = google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(time_us);
  }
}

/// The part of a task that its project may see: neither inputs nor the lease's secret.
absl::StatusOr<v1::TaskInfo> infoOf(storage::Reader& reader, const v1::Task& task) {
  constexpr int kMaxJobs = 16;
  v1::TaskInfo info;
  info.set_id(task.id());
  info.set_kind(task.spec().kind());
  info.set_state(static_cast<v1::TaskInfo::State>(task.state()));
  info.set_project(projectOf(task));
  info.set_priority(task.priority());
  info.set_attempts(task.attempt());
  info.set_crashes(task.crashes());
  info.set_worker_id(task.worker_id());
  setTime(&v1::TaskInfo::mutable_create_time, task.create_time_us(), info);
  setTime(&v1::TaskInfo::mutable_ready_time, task.ready_time_us(), info);
  setTime(&v1::TaskInfo::mutable_start_time, task.start_time_us(), info);
  setTime(&v1::TaskInfo::mutable_end_time, task.end_time_us(), info);
  setTime(&v1::TaskInfo::mutable_lease_expire_time, task.lease_expiry_us(), info);
  *info.mutable_cpu_time() =
      google::protobuf::util::TimeUtil::MicrosecondsToDuration(static_cast<int64_t>(task.cpu_ms() * 1000));
  if (task.has_failure()) {
    *info.mutable_failure() = task.failure();
  }
  TESSERA_ASSIGN_OR_RETURN(const storage::LiveJobs jobs, reader.liveJobsOfTask(task.id(), kMaxJobs));
  info.set_jobs(jobs.count);
  info.mutable_job_ids()->Assign(jobs.first.begin(), jobs.first.end());
  return info;
}

/// Whether the target is built in or of the caller's project. "" is no target: tasks for any host. "host" is the name
/// of every client's description of its own host.
absl::StatusOr<bool> seesTarget(storage::Reader& reader, const Caller& caller, const std::string& target) {
  if (target.empty() || target == "host") {
    return true;
  }
  for (const std::string& project : {std::string(), caller.project}) {
    const absl::Status status = reader.getTarget(project, target).status();
    if (!absl::IsNotFound(status)) {
      TESSERA_RETURN_IF_ERROR(status);
      return true;
    }
  }
  return false;
}

/// Sums the targets that the caller cannot see, by kind.
absl::Status hideTargets(storage::Reader& reader, const Caller& caller, std::vector<WantedWorkers>& wanted) {
  if (caller.role == v1::OPERATOR) {
    return absl::OkStatus();
  }
  std::vector<WantedWorkers> shown;
  std::optional<WantedWorkers> others;  // of the kind of the last entry
  const auto endKind = [&] {
    if (others) {
      shown.push_back(*std::exchange(others, std::nullopt));
    }
  };
  for (WantedWorkers& entry : wanted) {
    if (others && others->kind != entry.kind) {
      endKind();
    }
    TESSERA_ASSIGN_OR_RETURN(const bool visible, seesTarget(reader, caller, entry.target));
    if (visible) {
      shown.push_back(std::move(entry));
    } else if (!others) {
      others = std::move(entry);
      others->target = kOtherTargets;
    } else {
      others->waiting += entry.waiting;
      others->running += entry.running;
      others->slots += entry.slots;
    }
  }
  endKind();
  wanted = std::move(shown);
  return absl::OkStatus();
}

v1::WantedWorkers messageOf(const WantedWorkers& entry) {
  v1::WantedWorkers message;
  message.set_kind(entry.kind);
  message.set_target(entry.target);
  message.set_waiting(entry.waiting);
  message.set_running(entry.running);
  message.set_slots(entry.slots);
  message.set_workers(entry.workersRoundedUp());
  return message;
}

}  // namespace

grpc::ServerUnaryReactor* FleetService::ListWorkers(grpc::CallbackServerContext* context,
                                                    const v1::ListWorkersRequest* request,
                                                    v1::ListWorkersResponse* response) {
  return answer(context, gate_, Right::kRead, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkList(*request));
                  return store_.read([&](storage::Reader& reader) -> absl::Status {
                    TESSERA_ASSIGN_OR_RETURN(const storage::Page<v1::Worker> page,
                                             reader.listWorkers(listQuery(*request, "")));
                    for (const v1::Worker& worker : page.items) {
                      *response->add_workers() = shownTo(reader, caller, worker);
                    }
                    response->set_next_page_token(page.next_page_token);
                    return absl::OkStatus();
                  });
                });
}

grpc::ServerUnaryReactor* FleetService::GetWorker(grpc::CallbackServerContext* context,
                                                  const v1::GetWorkerRequest* request,
                                                  v1::GetWorkerResponse* response) {
  return answer(context, gate_, Right::kRead, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkText("id", request->id(), Limits::kMaxWorkerIdLength, false));
                  return store_.read([&](storage::Reader& reader) -> absl::Status {
                    TESSERA_ASSIGN_OR_RETURN(v1::Worker worker, reader.getWorker(request->id()));
                    *response->mutable_worker() = shownTo(reader, caller, std::move(worker));
                    return absl::OkStatus();
                  });
                });
}

grpc::ServerUnaryReactor* FleetService::ListTasks(grpc::CallbackServerContext* context,
                                                  const v1::ListTasksRequest* request,
                                                  v1::ListTasksResponse* response) {
  return answer(context, gate_, Right::kRead, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkList(*request));
                  return store_.read([&](storage::Reader& reader) -> absl::Status {
                    TESSERA_ASSIGN_OR_RETURN(const storage::Page<v1::Task> page,
                                             reader.listTasks(listQuery(*request, scopeOf(caller))));
                    for (const v1::Task& task : page.items) {
                      TESSERA_ASSIGN_OR_RETURN(*response->add_tasks(), infoOf(reader, task));
                    }
                    response->set_next_page_token(page.next_page_token);
                    return absl::OkStatus();
                  });
                });
}

grpc::ServerUnaryReactor* FleetService::ListWantedWorkers(grpc::CallbackServerContext* context,
                                                          const v1::ListWantedWorkersRequest* request,
                                                          v1::ListWantedWorkersResponse* response) {
  return answer(context, gate_, Right::kRead, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkText("target", request->target(), Limits::kMaxNameLength, true));
                  return store_.read([&](storage::Reader& reader) -> absl::Status {
                    TESSERA_ASSIGN_OR_RETURN(std::vector<WantedWorkers> wanted, wantedWorkers(reader));
                    TESSERA_RETURN_IF_ERROR(hideTargets(reader, caller, wanted));
                    for (const WantedWorkers& entry : wanted) {
                      const bool listed =
                          (request->kind() == v1::TASK_KIND_UNSPECIFIED || request->kind() == entry.kind) &&
                          (request->target().empty() || request->target() == entry.target);
                      if (listed) {
                        *response->add_wanted() = messageOf(entry);
                      }
                    }
                    return absl::OkStatus();
                  });
                });
}

grpc::ServerUnaryReactor* FleetService::DrainWorker(grpc::CallbackServerContext* context,
                                                    const v1::DrainWorkerRequest* request,
                                                    v1::DrainWorkerResponse* response) {
  return answer(context, gate_, Right::kAdminister, executor_, *request, [this, request, response]() -> absl::Status {
    TESSERA_RETURN_IF_ERROR(checkText("worker_id", request->worker_id(), Limits::kMaxWorkerIdLength, false));
    TESSERA_ASSIGN_OR_RETURN(*response->mutable_worker(),
                             scheduler_.drainWorker(request->worker_id(), request->drain()));
    return absl::OkStatus();
  });
}

}  // namespace tessera::server
