#include "server/services/job_service.h"

#include <utility>

#include "server/request_checks.h"
#include "server/services/calls.h"
#include "server/services/watch_call.h"
#include "server/status_macros.h"

namespace tessera::server {
namespace {

template <typename Tensors>
void dropInlineBytes(Tensors* tensors) {
  for (v1::TensorValue& tensor : *tensors) {
    if (tensor.has_data()) {
      tensor.clear_data();
    }
  }
}

v1::Job forList(v1::Job job) {
  if (job.has_execute()) {
    dropInlineBytes(job.mutable_execute()->mutable_inputs());
  }
  if (job.has_profile()) {
    dropInlineBytes(job.mutable_profile()->mutable_inputs());
  }
  if (job.has_execute_result()) {
    dropInlineBytes(job.mutable_execute_result()->mutable_outputs());
  }
  return job;
}

}  // namespace

grpc::ServerUnaryReactor* JobService::CreateJob(grpc::CallbackServerContext* context,
                                                const v1::CreateJobRequest* request, v1::CreateJobResponse* response) {
  return answer(context, executor_, [this, request, response, peer = peerOf(*context)]() -> absl::Status {
    TESSERA_TRY(checkCreateJob(*request, limits_));
    v1::Target target;
    if (request->has_compile()) {
      TESSERA_ASSIGN(target, targets_.resolve(request->compile().target()));
    } else if (request->has_analyze()) {
      TESSERA_ASSIGN(target, targets_.resolve(request->analyze().compile().target()));
    }
    v1::CreateJobRequest named = *request;
    if (named.client().empty()) {
      named.set_client(peer);
    }
    TESSERA_ASSIGN(*response->mutable_job(), scheduler_.createJob(std::move(named), target));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* JobService::GetJob(grpc::CallbackServerContext* context, const v1::GetJobRequest* request,
                                             v1::GetJobResponse* response) {
  return answer(context, executor_, [this, request, response]() -> absl::Status {
    TESSERA_TRY(checkText("id", request->id(), Limits::kMaxNameLength, false));
    return store_.read([&](storage::Reader& reader) -> absl::Status {
      TESSERA_ASSIGN(*response->mutable_job(), reader.getJob(request->id()));
      return absl::OkStatus();
    });
  });
}

grpc::ServerUnaryReactor* JobService::ListJobs(grpc::CallbackServerContext* context, const v1::ListJobsRequest* request,
                                               v1::ListJobsResponse* response) {
  return answer(context, executor_, [this, request, response]() -> absl::Status {
    TESSERA_TRY(checkList(*request));
    return store_.read([&](storage::Reader& reader) -> absl::Status {
      TESSERA_ASSIGN(storage::Page<v1::Job> page, reader.listJobs(listQuery(*request)));
      for (v1::Job& job : page.items) {
        *response->add_jobs() = forList(std::move(job));
      }
      response->set_next_page_token(page.next_page_token);
      return absl::OkStatus();
    });
  });
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* JobService::WatchJob(grpc::CallbackServerContext* context,
                                                                     const v1::WatchJobRequest* request) {
  return WatchCall::start(scheduler_.wakeups(), store_, executor_, *request);
}

grpc::ServerUnaryReactor* JobService::CancelJob(grpc::CallbackServerContext* context,
                                                const v1::CancelJobRequest* request, v1::CancelJobResponse* response) {
  return answer(context, executor_, [this, request, response]() -> absl::Status {
    TESSERA_TRY(checkText("id", request->id(), Limits::kMaxNameLength, false));
    TESSERA_ASSIGN(*response->mutable_job(), scheduler_.cancelJob(request->id()));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* JobService::ExplainKey(grpc::CallbackServerContext* context,
                                                 const v1::ExplainKeyRequest* request,
                                                 v1::ExplainKeyResponse* response) {
  return answer(context, executor_, [this, request, response]() -> absl::Status {
    TESSERA_TRY(checkCompileSpec(request->compile(), limits_));
    TESSERA_ASSIGN(const v1::Target target, targets_.resolve(request->compile().target()));
    TESSERA_ASSIGN(*response, scheduler_.explainKey(request->compile(), target));
    return absl::OkStatus();
  });
}

}  // namespace tessera::server
