#include "server/workflows/submissions.h"

#include <utility>
#include <vector>

#include "proto/support/status_macros.h"
#include "server/action_key.h"
#include "server/canonical.h"
#include "server/queue/queue_transaction.h"
#include "server/queue/uses.h"
#include "server/workflows/artifact_cache.h"
#include "server/workflows/compile_steps.h"
#include "server/workflows/project_inputs.h"
#include "server/workflows/runs.h"
#include "server/workflows/tuning.h"

namespace tessera::server {
namespace {

class JobSubmission : public Submission {
 public:
  JobSubmission(v1::CreateJobRequest from, const v1::Target& target, v1::TuneMode mode) : target_(target), mode_(mode) {
    request = std::move(from);
    request_hash = requestHash(request);
    if (mode != v1::TUNE_MODE_UNSPECIFIED) {
      request_hash = KeyHash().add(request_hash).add(v1::TuneMode_Name(mode)).finish();
    }
  }

  absl::Status requireInputs(storage::Reader& reader) override {
    if (request.has_execute() || request.has_profile()) {
      TESSERA_RETURN_IF_ERROR(nameArtifact(reader, project, request));
      digests = digestsIn(request);
    }
    return server::requireInputs({reader, project}, request);
  }

  void describe(v1::Job& job) const override {
    if (request.has_compile()) {
      *job.mutable_compile() = request.compile();
    } else if (request.has_execute()) {
      *job.mutable_execute() = request.execute();
    } else if (request.has_analyze()) {
      *job.mutable_analyze() = request.analyze();
    } else if (request.has_tune()) {
      *job.mutable_tune() = request.tune();
    } else {
      *job.mutable_profile() = request.profile();
    }
  }

  absl::StatusOr<EarlierResult> findResult(storage::Reader& reader, v1::Job& job) const override {
    TESSERA_ASSIGN_OR_RETURN(EarlierResult result, cachedArtifact(reader, key));
    if (result.artifact) {
      answerFromCache(*result.artifact, job);
    }
    return result;
  }

  void describe(const Rules& rules, const v1::Job& job, v1::Action& action) const override {
    if (job.has_compile()) {
      *action.mutable_compile() = job.compile();
      *action.mutable_target() = target_;
      const std::vector<v1::KeyComponent> components =
          keyComponents(project, job.compile(), target_, rules.compiler_version);
      action.mutable_components()->Assign(components.begin(), components.end());
    } else if (job.has_tune()) {
      *action.mutable_compile() = job.tune().compile();
      *action.mutable_target() = target_;
    }
  }

  absl::Status begin(QueueTransaction& queue, v1::Action action, const v1::Job& job) const override {
    if (job.has_compile()) {
      return beginCompile(queue, action);
    }
    if (job.has_tune()) {
      return beginTuning(queue, std::move(action), job, mode_);
    }
    return job.has_analyze() ? beginAnalysis(queue, action, job, target_) : beginRun(queue, action, job);
  }

 private:
  const v1::Target& target_;
  const v1::TuneMode mode_;
};

}  // namespace

std::unique_ptr<Submission> submissionOf(v1::CreateJobRequest request, const v1::Target& target, std::string project,
                                         v1::TuneMode mode, const Rules& rules) {
  auto submission = std::make_unique<JobSubmission>(std::move(request), target, mode);
  submission->project = std::move(project);
  if (submission->request.has_compile()) {
    submission->key = actionKey(submission->project, submission->request.compile(), target, rules.compiler_version);
  }
  return submission;
}

}  // namespace tessera::server
