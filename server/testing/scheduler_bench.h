#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/queue/scheduler.h"
#include "server/testing/fake_work.h"
#include "server/workflows/workflows.h"
#include "tessera/v1/artifact_versions.pb.h"

namespace tessera::server {

class FakeClock : public Clock {
 public:
  int64_t nowMicros() override { return now_us_; }
  void advance(int64_t us) { now_us_ += us; }

 private:
  int64_t now_us_ = 1'000'000'000;
};

class CountingIds : public IdSource {
 public:
  std::string next(std::string_view prefix) override { return std::string(prefix) + "-" + std::to_string(++last_); }
  std::string secret() override { return "secret " + std::to_string(++last_); }

 private:
  int last_ = 0;
};

/// A temporary folder, deleted by the destructor.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A scheduler with the real workflows over a real store in a scratch folder. Its clock advances only by advance().
class SchedulerFixture {
 public:
  explicit SchedulerFixture(Rules rules = defaultRules());

  static Rules defaultRules();
  Scheduler& scheduler() { return *scheduler_; }
  /// Restarts the server as after a crash: a new scheduler on the same store.
  void restart(const std::string& local_prefix = "local-");

  /// Stores a blob and its row.
  v1::Digest put(const std::string& bytes);
  std::string get(const v1::Digest& digest);
  /// A request to compile the model "model <name>: <units>".
  v1::CreateJobRequest request(const std::string& id, const std::string& name, const std::string& units);
  absl::StatusOr<v1::Job> create(const v1::CreateJobRequest& request);
  std::map<std::string, std::string> owners;  ///< worker -> its credential; none if it has no entry
  void registerWorker(const std::string& id, int64_t pid = 1, const std::vector<v1::TaskKind>& kinds = {},
                      const v1::HostInfo& host = {});
  /// Leases the next task; without a task id: there was none.
  v1::Lease lease(const std::string& worker);
  absl::Status report(const std::string& worker, const v1::Lease& lease, const v1::TaskResult& result);
  absl::Status finish(const std::string& worker, const v1::Lease& lease) {
    return report(worker, lease, work.run(lease.task()));
  }
  /// Leases and finishes tasks until there are none, and returns their number.
  int runAll(const std::string& worker);
  v1::Job job(const std::string& id);
  v1::Task task(const std::string& id);
  std::vector<v1::JobEvent> events(const std::string& job_id);
  /// Sends a heartbeat of a task whose process has run for `run_us`.
  v1::HeartbeatResponse::Verdict beat(const std::string& worker, const v1::Lease& lease, int64_t run_us = 0);
  /// Advances the clock as a running server would see it: with a sweep at least every half lease.
  void pass(int64_t us);
  v1::Worker worker(const std::string& id);
  /// Calls chooseVersion() in a transaction.
  absl::StatusOr<v1::ArtifactVersion> choose(const std::string& job_id, int number);
  absl::StatusOr<v1::ExplainKeyResponse> explain(const v1::CompileSpec& spec, const v1::Target& target);

  ScratchFolder folder;
  FakeClock clock;
  CountingIds ids;
  std::unique_ptr<storage::Store> store;
  std::unique_ptr<storage::BlobStore> blobs;
  FakeWork work;

 private:
  const Rules rules_;
  const Workflows workflows_{};
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace tessera::server
