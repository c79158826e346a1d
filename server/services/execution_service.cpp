#include "server/services/execution_service.h"

#include <utility>

#include "server/services/run_call.h"

namespace tessera::server {

grpc::ServerUnaryReactor* ExecutionService::Execute(grpc::CallbackServerContext* context,
                                                    const v1::ExecuteRequest* request, v1::ExecuteResponse* response) {
  auto admission = gate_.admit(*context, Right::kSubmit, CallFacts::of(*request));
  if (!admission.ok()) {
    return new Refusal<grpc::ServerUnaryReactor>(admission.status());
  }
  v1::CreateJobRequest job;
  *job.mutable_execute() = request->spec();
  job.set_request_id(request->request_id());
  *job.mutable_labels() = request->labels();
  job.set_client(admission->caller.name);
  job.set_queue_timeout_us(request->queue_timeout_us());
  job.set_run_timeout_us(request->run_timeout_us());
  return RunCall::start(*std::move(admission), scheduler_, store_, executor_, limits_, std::move(job),
                        [response](const v1::Job& done) {
                          response->set_job_id(done.id());
                          *response->mutable_result() = done.execute_result();
                          response->set_artifact_id(done.execute().artifact_id());
                          response->set_version(done.execute().version());
                        });
}

grpc::ServerUnaryReactor* ExecutionService::Profile(grpc::CallbackServerContext* context,
                                                    const v1::ProfileRequest* request, v1::ProfileResponse* response) {
  auto admission = gate_.admit(*context, Right::kSubmit, CallFacts::of(*request));
  if (!admission.ok()) {
    return new Refusal<grpc::ServerUnaryReactor>(admission.status());
  }
  v1::CreateJobRequest job;
  *job.mutable_profile() = request->spec();
  job.set_request_id(request->request_id());
  *job.mutable_labels() = request->labels();
  job.set_client(admission->caller.name);
  job.set_queue_timeout_us(request->queue_timeout_us());
  job.set_run_timeout_us(request->run_timeout_us());
  return RunCall::start(*std::move(admission), scheduler_, store_, executor_, limits_, std::move(job),
                        [response](const v1::Job& done) {
                          response->set_job_id(done.id());
                          *response->mutable_result() = done.profile_result();
                          response->set_artifact_id(done.profile().artifact_id());
                          response->set_version(done.profile().version());
                        });
}

}  // namespace tessera::server
