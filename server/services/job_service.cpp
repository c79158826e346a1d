#include "server/services/job_service.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/target/target.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"
#include "server/request_checks.h"
#include "server/services/calls.h"
#include "server/services/project_scope.h"
#include "server/services/watch_call.h"
#include "server/workflows/artifact_cache.h"

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

std::vector<BlobIntake::Sent> sentWith(const v1::CreateJobRequest& request) {
  std::vector<BlobIntake::Sent> sent;
  for (int i = 0; i < request.files_size(); ++i) {
    sent.push_back({absl::StrCat("files[", i, "].digest"), request.files(i).digest(), request.files(i).data()});
  }
  return sent;
}

/// Analyses accept any chip; compilations only chips of served families.
absl::Status checkCoded(const std::string& field, const v1::Target& target) {
  absl::Status status = compiler::modelsCompileFor(target);
  if (status.ok()) {
    return status;
  }
  v1::Failure failure = failureOf(status);
  failure.set_attribute(absl::StrCat(field, ".", failure.attribute()));
  failure.set_message(absl::StrCat(failure.attribute(), ": ", failure.message()));
  return failureStatus(failure);
}

/// Tuning measures on workers, which run no programs for described chips or OpenCL devices.
absl::Status checkMeasured(const std::string& field, const v1::Target& target) {
  TESSERA_RETURN_IF_ERROR(checkCoded(field, target));
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_TARGET);
  if (compiler::runsOnOpenCl(target)) {
    failure.set_message(
        absl::StrCat(field, ": target ", target.name(), " is an OpenCL device, on which no worker measures"));
    failure.set_attribute(field);
    failure.set_found(target.name());
    failure.set_accepted("a target of a processor, which `tessera targets` lists");
    failure.set_fix("compile the model with `tessera compile`; `tessera run --steps` times it on a device");
    return failureStatus(failure);
  }
  if (!compiler::isSimulated(target)) {
    return absl::OkStatus();
  }
  failure.set_message(absl::StrCat(field, ": target ", target.name(),
                                   " is a described chip, on which no worker measures; its schedules are chosen by "
                                   "simulated time when a model is compiled"));
  failure.set_attribute(field);
  failure.set_found(target.name());
  failure.set_accepted("a target of a processor, which `tessera targets` lists");
  failure.set_fix("compile the model with `tessera compile`; `tessera run` reports the simulated time");
  return failureStatus(failure);
}

}  // namespace

grpc::ServerUnaryReactor* JobService::CreateJob(grpc::CallbackServerContext* context,
                                                const v1::CreateJobRequest* request, v1::CreateJobResponse* response) {
  // Asynchronous: a waiting thread would have to be woken for each job.
  return answerLater(
      context, gate_, Right::kSubmit, executor_, *request,
      [this, context, request, response](const Caller& caller, const auto& finish) {
        auto submission = prepare(*request, caller);
        if (!submission.ok()) {
          return finish(submission.status());
        }
        scheduler_.createJobThen(
            std::move(submission->request), submission->targetOrNone(), submission->project,
            std::move(submission->store_files), [context] { return context->IsCancelled(); }, executor_,
            [response, finish, target = submission->target](absl::StatusOr<v1::Job> job) {
              const absl::Status status = job.status();
              if (status.ok()) {
                *response->mutable_job() = *std::move(job);
              }
              finish(status);
            });
      },
      response, preparesAtOnce(*request) ? Run::kOnCallingThread : Run::kOnExecutor);
}

bool JobService::preparesAtOnce(const v1::CreateJobRequest& request) const {
  constexpr size_t kShortBytes = 16 << 10;
  return request.has_compile() && !request.validate_only() && request.ByteSizeLong() <= kShortBytes &&
         compiler::findBuiltinTarget(request.compile().target().name()) != nullptr &&
         intake_.becomeRows(sentWith(request));
}

absl::Status JobService::takeFiles(const std::vector<BlobIntake::Sent>& sent, const Caller& caller) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<BlobIntake::Outcome> outcomes, intake_.take(caller, sent));
  for (const BlobIntake::Outcome& outcome : outcomes) {
    TESSERA_RETURN_IF_ERROR(outcome.status);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Job> JobService::submit(const v1::CreateJobRequest& request, const Caller& caller,
                                           v1::TuneMode mode) {
  TESSERA_ASSIGN_OR_RETURN(Submission submission, prepare(request, caller));
  return scheduler_.createJob(std::move(submission.request), submission.targetOrNone(), submission.project, mode,
                              submission.store_files);
}

absl::StatusOr<JobService::Submission> JobService::prepare(const v1::CreateJobRequest& request, const Caller& caller) {
  TESSERA_RETURN_IF_ERROR(checkCreateJob(request, limits_));
  TESSERA_RETURN_IF_ERROR(
      checkRange("priority", request.priority(), -Limits::kMaxPriority, highestPriority(caller.role)));
  TESSERA_ASSIGN_OR_RETURN(const std::string project, oneProject(caller));
  std::shared_ptr<const v1::Target> target;
  if (request.has_compile()) {
    TESSERA_ASSIGN_OR_RETURN(target, targets_.resolve(project, request.compile().target()));
    TESSERA_RETURN_IF_ERROR(checkCoded("compile.target", *target));
  } else if (request.has_analyze()) {
    TESSERA_ASSIGN_OR_RETURN(target, targets_.resolve(project, request.analyze().compile().target()));
  } else if (request.has_tune()) {
    TESSERA_ASSIGN_OR_RETURN(target, targets_.resolve(project, request.tune().compile().target()));
    TESSERA_RETURN_IF_ERROR(checkMeasured("tune.compile.target", *target));
  }
  const std::vector<BlobIntake::Sent> sent = sentWith(request);
  std::function<absl::Status()> store_files;
  if (!request.validate_only() && intake_.becomeRows(sent)) {
    TESSERA_RETURN_IF_ERROR(intake_.check(sent));
    store_files = [this, project, sent] { return intake_.storeWithin(project, sent); };
  } else {
    TESSERA_RETURN_IF_ERROR(takeFiles(sent, caller));
  }
  v1::CreateJobRequest named = request;
  named.clear_files();
  // An identified caller has one share of the queue, whatever client name it sends.
  if (!caller.anonymous || named.client().empty()) {
    named.set_client(caller.name);
  } else if (tokens_.isHolder(named.client())) {
    return absl::PermissionDeniedError(absl::StrCat("client: ", named.client(), " is known here and shows a token"));
  }
  return Submission{std::move(named), std::move(target), project, std::move(store_files)};
}

grpc::ServerUnaryReactor* JobService::GetJob(grpc::CallbackServerContext* context, const v1::GetJobRequest* request,
                                             v1::GetJobResponse* response) {
  return answer(context, gate_, Right::kRead, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkText("id", request->id(), Limits::kMaxNameLength, false));
                  return store_.read([&](storage::Reader& reader) -> absl::Status {
                    TESSERA_ASSIGN_OR_RETURN(*response->mutable_job(), jobOf(reader, caller, request->id()));
                    return absl::OkStatus();
                  });
                });
}

grpc::ServerUnaryReactor* JobService::ListJobs(grpc::CallbackServerContext* context, const v1::ListJobsRequest* request,
                                               v1::ListJobsResponse* response) {
  return answer(context, gate_, Right::kRead, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkList(*request));
                  return store_.read([&](storage::Reader& reader) -> absl::Status {
                    TESSERA_ASSIGN_OR_RETURN(storage::Page<v1::Job> page,
                                             reader.listJobs(listQuery(*request, scopeOf(caller))));
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
  auto admission = gate_.admit(*context, Right::kRead, CallFacts::of(*request));
  if (!admission.ok()) {
    return new Refusal<grpc::ServerWriteReactor<v1::WatchJobResponse>>(admission.status());
  }
  return WatchCall::start(*std::move(admission), scheduler_.notifier(), store_, executor_, *request);
}

/// Anonymous callers cannot be distinguished, so each may cancel any anonymous caller's jobs, and nobody else's.
absl::Status JobService::checkOwner(const std::string& job_id, const Caller& caller) {
  v1::Job job;
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(job, jobOf(reader, caller, job_id));
    return absl::OkStatus();
  }));
  if (caller.role == v1::OPERATOR) {
    return absl::OkStatus();
  }
  if (caller.anonymous ? !tokens_.isHolder(job.client()) : job.client() == caller.name) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat("job ", job_id, " is not ", caller.name, "'s"));
}

grpc::ServerUnaryReactor* JobService::CancelJob(grpc::CallbackServerContext* context,
                                                const v1::CancelJobRequest* request, v1::CancelJobResponse* response) {
  return answer(context, gate_, Right::kSubmit, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkText("id", request->id(), Limits::kMaxNameLength, false));
                  TESSERA_RETURN_IF_ERROR(checkOwner(request->id(), caller));
                  TESSERA_ASSIGN_OR_RETURN(*response->mutable_job(), scheduler_.cancelJob(request->id()));
                  return absl::OkStatus();
                });
}

grpc::ServerUnaryReactor* JobService::ExplainKey(grpc::CallbackServerContext* context,
                                                 const v1::ExplainKeyRequest* request,
                                                 v1::ExplainKeyResponse* response) {
  return answer(context, gate_, Right::kRead, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkCompileSpec(request->compile(), limits_));
                  TESSERA_ASSIGN_OR_RETURN(const std::string project, oneProject(caller));
                  TESSERA_ASSIGN_OR_RETURN(const auto target, targets_.resolve(project, request->compile().target()));
                  return store_.read([&](storage::Reader& reader) -> absl::Status {
                    TESSERA_ASSIGN_OR_RETURN(*response, explainKey(reader, project, request->compile(), *target,
                                                                   scheduler_.rules().compiler_version));
                    return absl::OkStatus();
                  });
                });
}

}  // namespace tessera::server
