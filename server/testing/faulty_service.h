#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/queue/scheduler.h"
#include "server/testing/fake_work.h"
#include "server/testing/scheduler_bench.h"
#include "server/workflows/workflows.h"
#include "storage/sqlite_store.h"
#include "storage/testing/faulty_disk.h"
#include "storage/testing/faulty_files.h"
#include "storage/testing/faulty_vfs.h"

namespace tessera::server {

/// The real scheduler, database and blob store on a failing disk, with one client and one worker that repeat each call
/// until it is answered, and a ledger of all acknowledgements.
class FaultyService {
 public:
  struct Faults {
    storage::FaultyDisk::Plan plan;
    storage::FaultyDisk::Survival survival = storage::FaultyDisk::Survival::kNothing;
    uint32_t seed = 0;
  };
  /// `synchronous` null: as in the product.
  explicit FaultyService(const char* synchronous = nullptr);
  ~FaultyService();

  /// Runs a whole scenario: opens the service, uploads, compiles, shares, cancels, runs, collects. At the end power is
  /// lost once more, and everything acknowledged is checked. Violations are in problems().
  void run(const Faults& faults);

  const std::vector<std::string>& problems() const { return problems_; }
  /// Disk operations of run(), without the final check.
  int64_t operations() const { return operations_; }
  /// Whether the planned fault has hit an operation.
  bool struck() const { return struck_; }
  storage::FaultyDisk& disk() { return disk_; }

 private:
  absl::Status open();
  void close();
  void restart(const Faults& faults);
  std::vector<std::function<absl::Status()>> steps();

  absl::Status upload(const std::string& bytes);
  /// Creates a job, and keeps its id under `request_id`.
  absl::Status create(const v1::CreateJobRequest& request);
  absl::Status compile(const std::string& request_id, const std::string& model);
  absl::Status execute(const std::string& request_id, const std::string& compiled_by);
  absl::Status cancel(const std::string& request_id);
  /// Runs tasks until every job has ended.
  absl::Status work();
  absl::Status workOnce(bool& idle);
  absl::Status endedAs(const std::string& request_id, v1::Job::State state);
  absl::Status pinArtifactOf(const std::string& request_id);
  /// Lets time pass without any use, after which only pinned objects must be kept.
  absl::Status growOld();
  absl::Status collect();
  absl::Status isGone(const std::string& bytes);
  absl::StatusOr<v1::Job> job(const std::string& request_id);

  /// Checks everything in the ledger.
  void verify(const std::string& when);
  /// Checks that no row refers to a missing file.
  absl::Status verifyRows(storage::Reader& reader, const std::string& when);
  void verifyJob(storage::Reader& reader, const std::string& id, const v1::Job& promised, const std::string& when);
  absl::StatusOr<std::string> read(const std::string& sha256);
  void wrong(const std::string& what) { problems_.push_back(what); }

  storage::FaultyDisk disk_;
  const std::unique_ptr<storage::FileSystem> files_;
  const storage::FaultyVfs vfs_;
  storage::SqliteStoreOptions options_;
  FakeClock clock_;
  CountingIds ids_;
  std::unique_ptr<storage::Store> store_;
  std::unique_ptr<storage::BlobStore> blobs_;
  const Workflows workflows_{};
  std::unique_ptr<Scheduler> scheduler_;

  // Knowledge of client and worker, which outlives the service.
  v1::Lease lease_;
  bool registered_ = false;
  std::map<std::string, std::string> job_ids_;   ///< by request id
  std::map<std::string, v1::Job> promised_;      ///< as last answered, by id
  std::map<std::string, std::string> uploaded_;  ///< bytes by digest
  std::map<std::string, std::string> pinned_;    ///< likewise
  std::vector<std::string> problems_;
  int64_t operations_ = 0;
  bool struck_ = false;
};

}  // namespace tessera::server
