#pragma once

#include <vector>

#include "server/access/gate.h"
#include "server/executor.h"
#include "server/limits.h"
#include "server/queue/scheduler.h"
#include "server/services/blob_intake.h"
#include "server/target_catalog.h"
#include "tessera/v1/job.grpc.pb.h"

namespace tessera::server {

/// Creates, lists, watches and cancels jobs. ListJobs omits the bytes of inline tensors, since a page with them would
/// exceed the size of a message; GetJob returns them. ExplainKey lists the parts of a compilation's cache key, and how
/// they differ from those of the nearest earlier compilation. Thread-safe.
class JobService : public v1::JobService::CallbackService {
 public:
  JobService(Scheduler& scheduler, storage::Store& store, TargetCatalog& targets, Gate& gate, const TokenBook& tokens,
             Executor& executor, const Limits& limits, BlobIntake& intake)
      : scheduler_(scheduler),
        store_(store),
        targets_(targets),
        gate_(gate),
        tokens_(tokens),
        executor_(executor),
        limits_(limits),
        intake_(intake) {}

  /// Creates the job on behalf of the caller, as CreateJob does, and returns it. Does not wait for the job's end.
  absl::StatusOr<v1::Job> submit(const v1::CreateJobRequest& request, const Caller& caller, v1::TuneMode mode);
  /// PERMISSION_DENIED unless the job is the caller's own, or the caller is an operator.
  absl::Status checkOwner(const std::string& job_id, const Caller& caller);

  grpc::ServerUnaryReactor* CreateJob(grpc::CallbackServerContext* context, const v1::CreateJobRequest* request,
                                      v1::CreateJobResponse* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context, const v1::GetJobRequest* request,
                                   v1::GetJobResponse* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context, const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(grpc::CallbackServerContext* context,
                                                           const v1::WatchJobRequest* request) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context, const v1::CancelJobRequest* request,
                                      v1::CancelJobResponse* response) override;
  grpc::ServerUnaryReactor* ExplainKey(grpc::CallbackServerContext* context, const v1::ExplainKeyRequest* request,
                                       v1::ExplainKeyResponse* response) override;

 private:
  /// A validated request in the form that the scheduler takes. Refers to the original request, which must outlive it.
  struct Submission {
    v1::CreateJobRequest request;
    std::shared_ptr<const v1::Target> target;  ///< null if the request needs none
    std::string project;
    std::function<absl::Status()> store_files;

    const v1::Target& targetOrNone() const { return target ? *target : v1::Target::default_instance(); }
  };
  absl::StatusOr<Submission> prepare(const v1::CreateJobRequest& request, const Caller& caller);
  /// Whether prepare() needs neither the store nor the disk, and is short.
  bool preparesAtOnce(const v1::CreateJobRequest& request) const;
  /// Stores all files that came with a request; the first error ends it.
  absl::Status takeFiles(const std::vector<BlobIntake::Sent>& sent, const Caller& caller);

  Scheduler& scheduler_;
  storage::Store& store_;
  TargetCatalog& targets_;
  Gate& gate_;
  const TokenBook& tokens_;
  Executor& executor_;
  const Limits& limits_;
  BlobIntake& intake_;
};

}  // namespace tessera::server
