#include "clients/cpp/compile.h"

#include <algorithm>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cpp/digest.h"
#include "clients/cpp/external_data.h"
#include "clients/cpp/local_file.h"
#include "clients/cpp/waiting.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

using Clock = std::chrono::steady_clock;

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// A repeated CreateJob must be recognised as the same request. The id consists of the time in milliseconds and 96
// random bits; the time prefix keeps ids of successive requests adjacent in the service's index (as UUID version 7, RFC
// 9562).
std::string makeRequestId() {
  // Kept for the thread's life: the constructor executes CPUID, which traps to the hypervisor in a virtual machine.
  static thread_local std::random_device random;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return absl::StrFormat("cli-%012x-%08x%08x%08x", now_ms, random(), random(), random());
}

bool terminal(v1::Job::State state) {
  return state == v1::Job::SUCCEEDED || state == v1::Job::FAILED || state == v1::Job::CANCELLED;
}

bool areSmall(const std::vector<v1::Digest>& digests) {
  int64_t total = 0;
  for (const v1::Digest& digest : digests) total += digest.size_bytes();
  return digests.size() <= kMaxEnclosedFiles && total <= kMaxEnclosedBytes;
}

absl::Status enclose(UploadedCompile& compile) {
  for (const v1::Digest& digest : compile.digests) {
    NamedFile& named = compile.files.at(digest.sha256());
    if (!named.bytes) named.bytes = readSmallFile(named.path, kMaxEnclosedBytes);
    // The digest was computed earlier; the server checks it against the content, the client only against the size.
    if (!named.bytes || static_cast<int64_t>(named.bytes->size()) != digest.size_bytes()) {
      return absl::DataLossError(absl::StrCat(named.path, ": the file changed while it was being sent; send it again"));
    }
    v1::EnclosedFile& file = *compile.create.add_files();
    *file.mutable_digest() = digest;
    file.set_data(*std::exchange(named.bytes, std::nullopt));
  }
  return absl::OkStatus();
}

absl::Status uploadMissing(Channel& channel, const UploadedCompile& compile) {
  v1::FindMissingBlobsRequest find;
  find.mutable_digests()->Assign(compile.digests.begin(), compile.digests.end());
  TESSERA_ASSIGN_OR_RETURN(auto missing, channel.call(channel.blobs(), &v1::BlobService::Stub::FindMissingBlobs, find));
  for (const v1::Digest& digest : missing.missing()) {
    TESSERA_RETURN_IF_ERROR(
        // The server has just reported the blob as missing.
        uploadFile(channel, compile.files.at(digest.sha256()).path, digest, compile.upload_progress, true));
  }
  channel.knownBlobs().add(compile.digests);
  return absl::OkStatus();
}

absl::StatusOr<v1::Job> createOnce(Channel& channel, const UploadedCompile& uploaded) {
  if (uploaded.mode != v1::TUNE_MODE_UNSPECIFIED) {
    v1::CreateTuningRequest request;
    *request.mutable_job() = uploaded.create;
    request.set_mode(uploaded.mode);
    TESSERA_ASSIGN_OR_RETURN(
        auto created, channel.call(channel.versions(), &v1::ArtifactVersionService::Stub::CreateTuning, request));
    return std::move(*created.mutable_job());
  }
  TESSERA_ASSIGN_OR_RETURN(auto created,
                           channel.call(channel.jobs(), &v1::JobService::Stub::CreateJob, uploaded.create));
  return std::move(*created.mutable_job());
}

}  // namespace

absl::StatusOr<NamedFiles> nameFiles(const CompileRequest& request, v1::CompileSpec& spec) {
  NamedFiles files;
  auto name = [&](const std::string& path, v1::Digest& digest) {
    // A file that will be enclosed in the request is read only once.
    auto bytes = request.digest_cache.empty() ? readSmallFile(path, kMaxEnclosedBytes) : std::nullopt;
    TESSERA_ASSIGN_OR_RETURN(auto found, bytes ? digestOf(*bytes) : cachedDigestOfFile(path, request.digest_cache));
    files[found.sha256()] = {path, std::move(bytes)};
    digest = std::move(found);
    return absl::OkStatus();
  };
  TESSERA_RETURN_IF_ERROR(name(request.model_path, *spec.mutable_model()));
  std::map<std::string, std::string> outside = request.external_data;
  if (spec.format() == v1::MODEL_FORMAT_UNSPECIFIED || spec.format() == v1::ONNX) {
    const std::optional<std::string>& model = files.at(spec.model().sha256()).bytes;
    for (const std::string& location : model ? externalLocationsIn(*model) : externalLocations(request.model_path)) {
      if (outside.contains(location)) continue;  // the user named its file
      TESSERA_ASSIGN_OR_RETURN(auto beside, resolveExternalFile(request.model_path, location));
      if (!beside.empty()) outside.emplace(location, std::move(beside));
    }
  }
  for (const auto& [location, path] : outside) {
    TESSERA_RETURN_IF_ERROR(name(path, (*spec.mutable_external_data())[location]));
  }
  if (!request.pins_path.empty()) {
    TESSERA_RETURN_IF_ERROR(name(request.pins_path, *spec.mutable_pins()));
  }
  return files;
}

absl::StatusOr<UploadedCompile> uploadCompile(Channel& channel, const CompileRequest& request,
                                              const TransferProgress& upload_progress) {
  UploadedCompile uploaded;
  v1::CreateJobRequest& create = uploaded.create;
  auto start = Clock::now();
  *create.mutable_compile() = request.spec;
  TESSERA_ASSIGN_OR_RETURN(uploaded.files, nameFiles(request, *create.mutable_compile()));
  uploaded.upload_progress = upload_progress;
  const v1::CompileSpec& spec = create.compile();
  uploaded.digests.push_back(spec.model());
  for (const auto& [location, digest] : spec.external_data()) uploaded.digests.push_back(digest);
  if (spec.has_pins()) uploaded.digests.push_back(spec.pins());
  uploaded.times.digest_ms = millisecondsSince(start);

  start = Clock::now();
  uploaded.assumed = channel.knownBlobs().all(uploaded.digests);
  if (!uploaded.assumed) {
    uploaded.enclosed = areSmall(uploaded.digests);
    TESSERA_RETURN_IF_ERROR(uploaded.enclosed ? enclose(uploaded) : uploadMissing(channel, uploaded));
  }
  uploaded.times.upload_ms = millisecondsSince(start);

  create.set_request_id(request.request_id.empty() ? makeRequestId() : request.request_id);
  create.set_queue_timeout_us(request.queue_timeout_us);
  create.set_run_timeout_us(request.run_timeout_us);
  create.set_priority(request.priority);
  create.mutable_labels()->insert(request.labels.begin(), request.labels.end());
  create.set_skip_cache(request.skip_cache);
  create.set_validate_only(request.validate_only);
  return uploaded;
}

void convertToAnalysis(UploadedCompile& uploaded, v1::AnalyzeSpec::Question question) {
  v1::AnalyzeSpec analyze;
  *analyze.mutable_compile() = std::move(*uploaded.create.mutable_compile());
  analyze.set_question(question);
  *uploaded.create.mutable_analyze() = std::move(analyze);
}

absl::StatusOr<CompileOutcome> createCompile(Channel& channel, const UploadedCompile& uploaded) {
  CompileOutcome outcome;
  outcome.times = uploaded.times;
  auto start = Clock::now();
  auto job = createOnce(channel, uploaded);
  // If the blobs were uploaded just now, MISSING_BLOB has another cause that a second upload cannot remedy.
  const bool sent = !uploaded.assumed && !uploaded.enclosed;
  if (!job.ok() && !sent && failureOf(job.status()).reason() == v1::Failure::MISSING_BLOB) {
    channel.knownBlobs().forget(uploaded.digests);
    TESSERA_RETURN_IF_ERROR(uploadMissing(channel, uploaded));
    outcome.times.upload_ms += millisecondsSince(start);
    start = Clock::now();
    job = createOnce(channel, uploaded);
  }
  if (!job.ok()) return job.status();
  // The server stored the enclosed files as blobs, so later requests can refer to them.
  if (uploaded.enclosed) channel.knownBlobs().add(uploaded.digests);
  outcome.job = *std::move(job);
  outcome.times.answer_ms = millisecondsSince(start);
  return outcome;
}

absl::StatusOr<CompileOutcome> submitCompile(Channel& channel, const CompileRequest& request,
                                             const TransferProgress& upload_progress) {
  TESSERA_ASSIGN_OR_RETURN(auto uploaded, uploadCompile(channel, request, upload_progress));
  return createCompile(channel, uploaded);
}

namespace {

/// While a job is queued, or a failed attempt waits to be repeated, periodically reports what the job waits for.
class WaitReporter {
 public:
  WaitReporter(Channel& channel, const AwaitOptions& options)
      : channel_(channel), on_waiting_(options.on_waiting), pause_(options.first_look), rarest_(options.rarest_look) {}

  void event(const v1::JobEvent& event) {
    if (event.has_state()) queued_ = event.state().state() == v1::Job::QUEUED;
    if (event.has_progress()) queued_ = false;
    if (event.has_attempt()) queued_ = event.attempt().has_failure();  // a failed task returns to the queue
  }
  /// The time limit of the next stream: at most `stream`, less if a report is due earlier.
  std::chrono::milliseconds boundOf(std::chrono::milliseconds stream) const {
    return on_waiting_ ? std::min(queued_ ? pause_ : rarest_, stream) : stream;
  }
  /// Called when a stream reached its limit. Callers who may not list workers get no report.
  void look() {
    if (!queued_ || !on_waiting_) return;
    // Long waits change rarely: report with growing intervals.
    pause_ = std::min(2 * pause_, rarest_);
    const auto workers = channel_.call(channel_.fleet(), &v1::FleetService::Stub::ListWorkers, everyWorker());
    if (!workers.ok()) return;
    std::string now = describeWait(*workers);
    if (now != told_) on_waiting_(now);
    told_ = std::move(now);
  }

 private:
  static v1::ListWorkersRequest everyWorker() {
    v1::ListWorkersRequest request;
    request.set_page_size(1000);
    return request;
  }

  Channel& channel_;
  const std::function<void(const std::string&)>& on_waiting_;
  std::chrono::milliseconds pause_;
  const std::chrono::milliseconds rarest_;
  bool queued_ = true;  // until an event changes it
  std::string told_;
};

}  // namespace

absl::StatusOr<v1::Job> awaitJob(Channel& channel, const std::string& job_id, const EventFn& on_event,
                                 const AwaitOptions& options) {
  int64_t cursor = 0;
  RetryState server(channel);
  WaitReporter queue(channel, options);
  while (true) {
    grpc::ClientContext context;
    // A stream that ends at this deadline is followed by one that resumes after the cursor.
    context.set_deadline(std::chrono::system_clock::now() + queue.boundOf(options.stream));
    v1::WatchJobRequest watch;
    watch.set_id(job_id);
    watch.set_cursor(cursor);
    auto reader = channel.jobs().WatchJob(&context, watch);
    v1::WatchJobResponse response;
    while (reader->Read(&response)) {
      cursor = response.event().sequence();
      server.answered();
      queue.event(response.event());
      if (on_event) on_event(response.event());
    }
    const grpc::Status status = reader->Finish();
    // The server or the connection went away; any other error is final.
    const bool broken =
        status.error_code() == grpc::StatusCode::UNAVAILABLE || status.error_code() == grpc::StatusCode::CANCELLED;
    // The stream's own limit: not an error.
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      queue.look();
      continue;
    }
    if (!status.ok() && !broken) return fromGrpc(status);
    // After a broken stream this call waits until the server answers.
    v1::GetJobRequest get;
    get.set_id(job_id);
    auto answer = channel.call(channel.jobs(), &v1::JobService::Stub::GetJob, get, {.patience = options.patience});
    TESSERA_RETURN_IF_ERROR(answer.ok() ? absl::OkStatus() : channel.ended());
    if (absl::IsUnavailable(answer.status())) {
      return absl::UnavailableError(absl::StrCat("the server at ", channel.address(),
                                                 " has been away for too long; job ", job_id,
                                                 " goes on there: `tessera watch ", job_id, "`"));
    }
    if (!answer.ok()) return answer.status();
    // A server closes the stream after the last event. If the job is not terminal, resume the stream.
    if (status.ok() && terminal(answer->job().state())) return answer->job();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

}  // namespace tessera::client
