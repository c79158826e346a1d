#include "clients/cpp/versions.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kWatch{60'000};  // limit of one stream, after which the next one resumes at the cursor
constexpr milliseconds kPause{200};     // between two streams, and between two checks of `stop`

void pause(milliseconds length, const std::atomic<bool>& stop) {
  for (const auto end = Clock::now() + length; !stop && Clock::now() < end;) {
    std::this_thread::sleep_for(std::min(kPause, std::chrono::ceil<milliseconds>(end - Clock::now())));
  }
}

/// The wait that a quota's rejection demands; zero for any other status.
milliseconds waitFor(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return milliseconds(0);
  const v1::Failure failure = failureOf(status);
  if (failure.reason() != v1::Failure::QUOTA_EXCEEDED) return milliseconds(0);
  return std::max(kPause, std::chrono::ceil<milliseconds>(std::chrono::microseconds(failure.retry_after_us())));
}

/// One streaming call that ends soon after `stop` is set. Operations run one at a time.
class Stream {
 public:
  Stream(Channel& channel, const v1::WatchArtifactRequest& request, milliseconds length, const std::atomic<bool>& stop)
      : stop_(stop) {
    context_.set_deadline(std::chrono::system_clock::now() + length);
    reader_ = channel.versions().AsyncWatchArtifact(&context_, request, &queue_, nullptr);
    (void)happened();
  }
  ~Stream() {
    void* tag = nullptr;
    bool ok = false;
    for (queue_.Shutdown(); queue_.Next(&tag, &ok);) {
    }
  }

  /// Whether the server answered.
  bool answered() {
    reader_->ReadInitialMetadata(nullptr);
    return happened();
  }
  bool read(v1::WatchArtifactResponse& response) {
    reader_->Read(&response, nullptr);
    return happened();
  }
  void cancel() { context_.TryCancel(); }
  grpc::Status finish() {
    grpc::Status status;
    reader_->Finish(&status, nullptr);
    (void)happened();
    return status;
  }

 private:
  bool happened() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kPause) == grpc::CompletionQueue::TIMEOUT) {
      if (stop_) context_.TryCancel();
    }
    return ok;
  }

  const std::atomic<bool>& stop_;
  grpc::CompletionQueue queue_;  // must outlive the call
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReader<v1::WatchArtifactResponse>> reader_;
};

}  // namespace

absl::StatusOr<v1::ListArtifactVersionsResponse> listVersions(Channel& channel, const std::string& job_id) {
  v1::ListArtifactVersionsResponse all;
  v1::ListArtifactVersionsRequest request;
  request.set_job_id(job_id);
  request.set_page_size(1000);
  do {
    TESSERA_ASSIGN_OR_RETURN(
        auto page, channel.call(channel.versions(), &v1::ArtifactVersionService::Stub::ListArtifactVersions, request));
    request.set_page_token(page.next_page_token());
    all.MergeFrom(page);
  } while (!request.page_token().empty());
  all.clear_next_page_token();
  return all;
}

absl::StatusOr<v1::ArtifactVersion> versionToRun(Channel& channel, const std::string& job_id, int number) {
  v1::GetJobRequest request;
  request.set_id(job_id);
  TESSERA_ASSIGN_OR_RETURN(const auto answer, channel.call(channel.jobs(), &v1::JobService::Stub::GetJob, request));
  const v1::Job& job = answer.job();
  v1::ArtifactVersion version;
  if (job.has_compile_result() && number == 0) {
    version.set_job_id(job_id);
    version.set_artifact_id(job.compile_result().artifact_id());
    *version.mutable_artifact() = job.compile_result().artifact();
    return version;
  }
  if (job.has_tune()) {
    TESSERA_ASSIGN_OR_RETURN(const auto listed, listVersions(channel, job_id));
    for (const v1::ArtifactVersion& each : listed.versions())
      if (number > 0 ? each.number() == number : !each.held()) version = each;
    if (version.number() > 0) return version;
  }
  if (number > 0) return absl::NotFoundError(absl::StrCat("job ", job_id, " has no version ", number));
  return absl::FailedPreconditionError(absl::StrCat(
      "job ", job_id,
      job.has_tune() || job.has_compile() ? " has no artifact yet" : " is not a job that makes an artifact", "; it is ",
      v1::Job::State_Name(job.state())));
}

absl::Status watchVersions(Channel& channel, const std::string& job_id, const std::atomic<bool>& stop,
                           const std::function<absl::Status(const v1::ArtifactVersion&)>& on_version,
                           milliseconds patience) {
  v1::WatchArtifactRequest request;
  request.set_job_id(job_id);
  request.set_newest_only(true);
  auto last_sign_of_life = Clock::now();
  while (!stop) {
    Stream stream(channel, request, std::min(kWatch, patience), stop);
    const bool answered = stream.answered();
    if (answered) last_sign_of_life = Clock::now();
    absl::Status ours;
    v1::WatchArtifactResponse response;
    while (ours.ok() && stream.read(response)) {
      last_sign_of_life = Clock::now();
      ours = on_version(response.version());
      if (ours.ok()) request.set_cursor(response.version().number());
    }
    if (!ours.ok()) stream.cancel();
    const grpc::Status status = stream.finish();
    if (ours.ok() && status.ok()) return absl::OkStatus();
    absl::Status why = ours.ok() ? fromGrpc(status) : ours;
    if (const milliseconds wait = waitFor(why); wait.count() > 0) {
      last_sign_of_life = Clock::now();
      pause(wait, stop);
      continue;
    }
    if (!ours.ok()) return ours;
    // The stream reached its limit; the next one shows whether the server still answers.
    if (answered && absl::IsDeadlineExceeded(why)) last_sign_of_life = Clock::now();
    if (!absl::IsUnavailable(why) && !absl::IsCancelled(why) && !absl::IsDeadlineExceeded(why)) return why;
    TESSERA_RETURN_IF_ERROR(channel.ended());
    if (Clock::now() - last_sign_of_life > patience) {
      return absl::UnavailableError(absl::StrCat("the server at ", channel.address(), " has been away for too long"));
    }
    pause(kPause, stop);
  }
  return absl::OkStatus();
}

}  // namespace tessera::client
