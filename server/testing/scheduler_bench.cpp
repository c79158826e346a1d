#include "server/testing/scheduler_bench.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "proto/messages/project.h"
#include "proto/support/status_macros.h"
#include "server/queue/jobs.h"
#include "server/workflows/artifact_cache.h"
#include "server/workflows/versions.h"
#include "storage/sqlite_store.h"

namespace tessera::server {

ScratchFolder::ScratchFolder() {
  path_ = testing::TempDir() + "tessera-server-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) {
    ADD_FAILURE() << "cannot make " << path_;
  }
}
ScratchFolder::~ScratchFolder() { std::filesystem::remove_all(path_); }

Rules SchedulerFixture::defaultRules() {
  Rules rules;
  rules.compiler_version = "test-compiler";
  return rules;
}

SchedulerFixture::SchedulerFixture(Rules rules)
    : store(storage::openSqliteStore(folder.path() + "/tessera.db").value()),
      blobs(storage::openBlobStore(folder.path() + "/blobs", {.rows = store.get()}).value()),
      work([this](const v1::Digest& digest) { return get(digest); },
           [this](const std::string& bytes) { return put(bytes); }),
      rules_(std::move(rules)),
      scheduler_(std::make_unique<Scheduler>(*store, *blobs, clock, ids, workflows_, rules_)) {}

void SchedulerFixture::restart(const std::string& local_prefix) {
  scheduler_ = std::make_unique<Scheduler>(*store, *blobs, clock, ids, workflows_, rules_);
  EXPECT_TRUE(scheduler_->recover(local_prefix).ok());
}

v1::Digest SchedulerFixture::put(const std::string& bytes) {
  auto digest = blobs->put(bytes);
  EXPECT_TRUE(digest.ok()) << digest.status();
  const absl::Status status =
      store->transact([&](storage::Transaction& tx) { return tx.putBlob(*digest, kDefaultProject); });
  EXPECT_TRUE(status.ok()) << status;
  return *digest;
}

std::string SchedulerFixture::get(const v1::Digest& digest) {
  std::string bytes;
  const absl::Status status = blobs->get(digest.sha256(), 0, 0, [&](std::string_view chunk) {
    bytes += chunk;
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return bytes;
}

v1::CreateJobRequest SchedulerFixture::request(const std::string& id, const std::string& name,
                                               const std::string& units) {
  v1::CreateJobRequest request;
  request.set_request_id(id);
  *request.mutable_compile()->mutable_model() = put("model " + name + ": " + units);
  request.mutable_compile()->set_name(name);
  return request;
}

absl::StatusOr<v1::Job> SchedulerFixture::create(const v1::CreateJobRequest& request) {
  v1::Target target;
  target.set_name("test-target");
  return scheduler_->createJob(request, target);
}

void SchedulerFixture::registerWorker(const std::string& id, int64_t pid, const std::vector<v1::TaskKind>& kinds,
                                      const v1::HostInfo& host) {
  v1::RegisterWorkerRequest request;
  request.set_worker_id(id);
  request.set_compiler_version(rules_.compiler_version);
  request.set_pid(pid);
  request.mutable_kinds()->Assign(kinds.begin(), kinds.end());
  request.set_measuring_cores(1);
  *request.mutable_host() = host;
  const auto response = scheduler_->registerWorker(request, owners[id]);
  EXPECT_TRUE(response.ok()) << response.status();
}

v1::Lease SchedulerFixture::lease(const std::string& worker) {
  const auto response = scheduler_->leaseTask(worker, "", owners[worker]);
  EXPECT_TRUE(response.ok()) << response.status();
  return response.ok() ? response->lease() : v1::Lease();
}

absl::Status SchedulerFixture::report(const std::string& worker, const v1::Lease& lease, const v1::TaskResult& result) {
  v1::ReportTaskRequest request;
  request.set_worker_id(worker);
  request.set_task_id(lease.task_id());
  request.set_fencing_token(lease.fencing_token());
  request.set_secret(lease.secret());
  *request.mutable_result() = result;
  return scheduler_->reportTask(request);
}

int SchedulerFixture::runAll(const std::string& worker) {
  int count = 0;
  while (true) {
    const v1::Lease next = lease(worker);
    if (next.task_id().empty()) {
      return count;
    }
    const absl::Status status = finish(worker, next);
    EXPECT_TRUE(status.ok()) << status;
    ++count;
  }
}

v1::Job SchedulerFixture::job(const std::string& id) {
  v1::Job result;
  const absl::Status status = store->read([&](storage::Reader& reader) {
    auto found = reader.getJob(id);
    if (found.ok()) {
      result = *found;
    }
    return found.status();
  });
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

v1::Task SchedulerFixture::task(const std::string& id) {
  v1::Task result;
  const absl::Status status = store->read([&](storage::Reader& reader) {
    auto found = reader.getTask(id);
    if (found.ok()) {
      result = *found;
    }
    return found.status();
  });
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

std::vector<v1::JobEvent> SchedulerFixture::events(const std::string& job_id) {
  std::vector<v1::JobEvent> result;
  const absl::Status status = store->read([&](storage::Reader& reader) {
    const auto job = reader.getJob(job_id);
    auto found = job.ok() ? eventsOf(reader, *job, 0, 100'000) : job.status();
    if (found.ok()) {
      result = *found;
    }
    return found.status();
  });
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

void SchedulerFixture::pass(int64_t us) {
  const int64_t stride = scheduler_->rules().lease_us / 3;
  for (; us > 0; us -= stride) {
    clock.advance(std::min(us, stride));
    const absl::Status status = scheduler_->sweep();
    EXPECT_TRUE(status.ok()) << status;
  }
}

v1::Worker SchedulerFixture::worker(const std::string& id) {
  v1::Worker result;
  const absl::Status status = store->read([&](storage::Reader& reader) {
    auto found = reader.getWorker(id);
    if (found.ok()) {
      result = *found;
    }
    return found.status();
  });
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

absl::StatusOr<v1::ArtifactVersion> SchedulerFixture::choose(const std::string& job_id, int number) {
  v1::ArtifactVersion version;
  TESSERA_RETURN_IF_ERROR(scheduler_->transact([&](QueueTransaction& queue) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(version, chooseVersion(queue, job_id, number));
    return absl::OkStatus();
  }));
  return version;
}

absl::StatusOr<v1::ExplainKeyResponse> SchedulerFixture::explain(const v1::CompileSpec& spec,
                                                                 const v1::Target& target) {
  v1::ExplainKeyResponse response;
  TESSERA_RETURN_IF_ERROR(store->read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(response, explainKey(reader, kDefaultProject, spec, target, rules_.compiler_version));
    return absl::OkStatus();
  }));
  return response;
}

v1::HeartbeatResponse::Verdict SchedulerFixture::beat(const std::string& worker, const v1::Lease& lease,
                                                      int64_t run_us) {
  v1::HeartbeatRequest request;
  request.set_worker_id(worker);
  request.set_task_id(lease.task_id());
  request.set_fencing_token(lease.fencing_token());
  request.set_secret(lease.secret());
  request.set_run_us(run_us);
  const auto response = scheduler_->heartbeat(request);
  EXPECT_TRUE(response.ok()) << response.status();
  return response.ok() ? response->verdict() : v1::HeartbeatResponse::VERDICT_UNSPECIFIED;
}

}  // namespace tessera::server
