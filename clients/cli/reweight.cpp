#include "clients/cli/reweight.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/interrupt.h"
#include "clients/cli/progress.h"
#include "clients/cli/sandboxed_run.h"
#include "clients/cli/trust_flags.h"
#include "clients/cpp/compile.h"
#include "clients/cpp/digest.h"
#include "clients/cpp/transfer.h"
#include "compiler/artifact/reweight.h"
#include "proto/messages/failure.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

using Clock = std::chrono::steady_clock;

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// The name of a file within a task. It need not be the digest of the content, since nothing is stored under it.
std::string nameInTask(const std::string& path) { return sha256Hex(path); }

/// An open output of a task, which may have left any kind of file. The path of the descriptor cannot be exchanged.
class TaskOutput {
 public:
  static absl::StatusOr<TaskOutput> open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat facts{};
    if (fd < 0 || fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
      if (fd >= 0) close(fd);
      return failureStatus(v1::Failure::SANDBOX_VIOLATION, "the task left no file that can be used");
    }
    return TaskOutput(fd);
  }
  TaskOutput(TaskOutput&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  TaskOutput& operator=(TaskOutput&&) = delete;
  ~TaskOutput() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  std::string path() const { return absl::StrCat("/proc/self/fd/", fd_); }

 private:
  explicit TaskOutput(int fd) : fd_(fd) {}
  int fd_;
};

absl::Status refuse(const Reweighting& work, const std::vector<std::string>& differences, const absl::Status& failed) {
  if (differences.empty()) return failed;
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(
      absl::StrCat("the code of ", work.artifact, " cannot take these weights: ", absl::StrJoin(differences, "; ")));
  failure.set_fix("compile the model with these weights");
  return failureStatus(failure);
}

/// Whether planning found decisions of the artifact that the model with the new weights has no place for.
bool isAboutDecisions(const v1::Failure& failure) { return failure.reason() == v1::Failure::INVALID_SCHEDULE; }

/// A PLAN task, and the files that it names.
struct PlanWork {
  v1::TaskSpec task;
  std::map<std::string, std::string> files;
};

PlanWork planWork(const Reweighting& work, v1::PinUse use) {
  PlanWork plan;
  v1::PlanTask& task = *plan.task.mutable_plan();
  *task.mutable_spec() = work.spec;
  *task.mutable_target() = work.plan.target();
  const auto name = [&plan](const std::string& path, v1::Digest& digest) {
    digest.set_sha256(nameInTask(path));
    plan.files[digest.sha256()] = path;
  };
  name(work.model, *task.mutable_spec()->mutable_model());
  name(work.pins, *task.mutable_spec()->mutable_pins());
  for (const auto& [location, path] : work.external_data)
    name(path, (*task.mutable_spec()->mutable_external_data())[location]);
  task.mutable_spec()->set_pin_use(use);
  plan.task.set_run_timeout_us(work.timeout_us);
  return plan;
}

absl::StatusOr<v1::Plan> readPlanOf(const std::string& outputs) {
  TESSERA_ASSIGN_OR_RETURN(const TaskOutput file, TaskOutput::open(outputs + "/plan.pb"));
  v1::Plan plan;
  if (!plan.ParseFromFileDescriptor(file.get()))
    return failureStatus(v1::Failure::SANDBOX_VIOLATION, "the task left a plan that cannot be read");
  return plan;
}

/// Names what differs once the recorded decisions did not apply: the plan that follows them as far as it can.
absl::Status explainHere(worker::StandaloneSandbox& sandbox, const Reweighting& work, const v1::Failure& failed,
                         worker::Cancellation& cancellation) {
  PlanWork again = planWork(work, v1::SUGGESTIONS);
  std::vector<std::string> differences;
  const auto result = sandbox.plan(
      again.task, again.files, cancellation, [](const v1::Progress&) {},
      [&](const std::string& outputs) {
        TESSERA_ASSIGN_OR_RETURN(const v1::Plan plan, readPlanOf(outputs));
        differences = compiler::codeDifferences(work.plan, plan);
        return absl::OkStatus();
      });
  if (!result.ok()) return result.status();
  return refuse(work, differences, failureStatus(failed));
}

/// The same by an explanation of the service.
absl::Status explainOnService(Channel& channel, CompileRequest request, const Reweighting& work,
                              const v1::Failure& failed) {
  request.spec.set_pin_use(v1::SUGGESTIONS);
  TESSERA_ASSIGN_OR_RETURN(auto uploaded, uploadCompile(channel, request, {}));
  convertToAnalysis(uploaded, v1::AnalyzeSpec::EXPLAIN);
  TESSERA_ASSIGN_OR_RETURN(auto outcome, createCompile(channel, uploaded));
  TESSERA_ASSIGN_OR_RETURN(const v1::Job job, awaitJob(channel, outcome.job.id(), {}));
  if (job.state() != v1::Job::SUCCEEDED) return failureStatus(failed);
  TESSERA_ASSIGN_OR_RETURN(const std::string bytes, downloadBytes(channel, job.analyze_result().report()));
  v1::Explanation explanation;
  if (!explanation.ParseFromString(bytes)) return failureStatus(failed);
  return refuse(work, compiler::codeDifferences(work.plan, explanation.plan()), failureStatus(failed));
}

}  // namespace

absl::StatusOr<Reweighted> reweightHere(const CommandLine& line, const Reweighting& work) {
  spdlog::set_level(spdlog::level::off);  // log lines of the worker code
  TESSERA_ASSIGN_OR_RETURN(const auto sandbox, openSandbox({}));
  worker::Cancellation cancellation;
  InterruptWatch interrupts;
  interrupts.jobMayExist();
  interrupts.setCancelAction([&cancellation] { cancellation.cancel(worker::StopReason::kCancelled); });
  ProgressView view(line.quiet || line.json);
  Reweighted done;
  const PlanWork planned = planWork(work, v1::WHOLE_PLAN);
  const Clock::time_point start = Clock::now();
  TESSERA_ASSIGN_OR_RETURN(const v1::TaskResult result,
                           sandbox->plan(
                               planned.task, planned.files, cancellation,
                               [&view](const v1::Progress& progress) {
                                 v1::JobEvent event;
                                 *event.mutable_progress() = progress;
                                 view.event(event);
                               },
                               [&](const std::string& outputs) {
                                 done.plan_ms = millisecondsSince(start);
                                 const Clock::time_point written = Clock::now();
                                 compiler::ReweightRequest request{.base_path = work.artifact,
                                                                   .name = work.spec.name(),
                                                                   .plan = {},
                                                                   .weights_path = {},
                                                                   .artifact_path = work.output};
                                 TESSERA_ASSIGN_OR_RETURN(request.plan, readPlanOf(outputs));
                                 if (request.plan.weights_bytes() == 0) {
                                   TESSERA_ASSIGN_OR_RETURN(done.manifest, compiler::reweight(request));
                                   return absl::OkStatus();
                                 }
                                 TESSERA_ASSIGN_OR_RETURN(const TaskOutput weights,
                                                          TaskOutput::open(outputs + "/weights.bin"));
                                 request.weights_path = weights.path();
                                 TESSERA_ASSIGN_OR_RETURN(done.manifest, compiler::reweight(request));
                                 done.write_ms = millisecondsSince(written);
                                 return absl::OkStatus();
                               }));
  view.finish();
  if (result.has_failure() && isAboutDecisions(result.failure()))
    return explainHere(*sandbox, work, result.failure(), cancellation);
  if (result.has_failure()) return failureStatus(result.failure());
  return done;
}

absl::StatusOr<Reweighted> reweightOnService(const CommandLine& line, const Reweighting& work, int& reused) {
  auto interrupts = std::make_unique<InterruptWatch>();  // before the first connection
  TESSERA_ASSIGN_OR_RETURN(const auto channel, line.connect());
  const absl::Cleanup unwatch = [&interrupts] { interrupts.reset(); };  // its thread uses the channel
  CompileRequest request;
  request.model_path = work.model;
  request.external_data = work.external_data;
  request.pins_path = work.pins;
  request.spec = work.spec;
  request.run_timeout_us = work.timeout_us;
  request.digest_cache = defaultDigestCache();
  ProgressView view(line.quiet || line.json);
  Reweighted done;
  const Clock::time_point start = Clock::now();
  TESSERA_ASSIGN_OR_RETURN(auto uploaded, uploadCompile(*channel, request, [&](int64_t sent, int64_t total) {
                             view.transfer("upload", sent, total);
                           }));
  interrupts->jobMayExist();
  TESSERA_ASSIGN_OR_RETURN(auto outcome, createCompile(*channel, uploaded));
  if (outcome.job.end_time_us() == 0) {
    interrupts->setCancelAction([&, id = outcome.job.id()] { announceAndCancel(*channel, id, "cancelling"); });
    TESSERA_ASSIGN_OR_RETURN(outcome.job,
                             awaitJob(*channel, outcome.job.id(), [&](const v1::JobEvent& event) { view.event(event); },
                                      {.on_waiting = [&](const std::string& reason) { view.waits(reason); }}));
  }
  const v1::Job& job = outcome.job;
  if (job.state() != v1::Job::SUCCEEDED) {
    view.finish();
    return isAboutDecisions(job.failure()) ? explainOnService(*channel, request, work, job.failure())
                                           : failureStatus(job.failure());
  }
  done.plan_ms = millisecondsSince(start);
  const Clock::time_point fetched = Clock::now();
  v1::GetArtifactRequest get;
  get.set_id(job.compile_result().artifact_id());
  TESSERA_ASSIGN_OR_RETURN(auto answer,
                           channel->call(channel->artifacts(), &v1::ArtifactService::Stub::GetArtifact, get));
  done.manifest = answer.artifact().manifest();
  if (done.manifest.code_sha256() != work.manifest.code_sha256()) {
    return failureStatus(
        v1::Failure::INVALID_INPUT,
        absl::StrCat("the service's compiler ", done.manifest.compiler_version(), " makes other code than that of ",
                     work.artifact, ", compiled by ", work.manifest.compiler_version(), "; compile the model again"));
  }
  TESSERA_RETURN_IF_ERROR(downloadFile(*channel, job.compile_result().artifact(), work.output,
                                       [&](int64_t have, int64_t total) { view.transfer("download", have, total); }));
  TESSERA_RETURN_IF_ERROR(fetchSignatureAndTrustLocal(*channel, job.compile_result().artifact_id(), work.output));
  view.finish();
  done.write_ms = millisecondsSince(fetched);
  reused = job.compile_result().workloads_reused();
  return done;
}

}  // namespace tessera::client
