#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cpp/channel.h"
#include "clients/cpp/transfer.h"

namespace tessera::client {

struct CompileRequest {
  std::string model_path;
  /// Maps locations in an ONNX model to local files that hold external tensors. Locations that are not listed are
  /// resolved in the model's folder.
  std::map<std::string, std::string> external_data;
  std::string pins_path;   ///< file of decisions to apply (pins); empty: none
  v1::CompileSpec spec;    ///< model, external_data and pins are filled in from the paths above
  std::string request_id;  ///< empty: a random id
  int64_t queue_timeout_us = 0;
  int64_t run_timeout_us = 0;
  int priority = 0;
  bool skip_cache = false;
  std::map<std::string, std::string> labels;  ///< stored with the job
  bool validate_only = false;                 ///< only check the request; creates no job
  std::string digest_cache;                   ///< see cachedDigestOfFile
};

/// Wall time of the client's own work, in milliseconds. Job.phases has the server's phases.
struct CompileTimes {
  double digest_ms = 0;
  double upload_ms = 0;
  double answer_ms = 0;  ///< from CreateJob to the terminal state
};

struct CompileOutcome {
  v1::Job job;  ///< terminal: SUCCEEDED, FAILED or CANCELLED
  CompileTimes times;
};

using EventFn = std::function<void(const v1::JobEvent&)>;

/// A local file that a request refers to.
struct NamedFile {
  std::string path;
  std::optional<std::string> bytes = std::nullopt;  ///< content of a small file, read when its digest was computed
};
using NamedFiles = std::map<std::string, NamedFile>;  ///< by SHA-256

/// Computes the digests of the request's files and stores them in `spec`.
absl::StatusOr<NamedFiles> nameFiles(const CompileRequest& request, v1::CompileSpec& spec);

/// Small files of a request are enclosed in it, up to this number and total size: the extra bytes cost no more than
/// asking whether the server has them.
inline constexpr size_t kMaxEnclosedFiles = 64;
inline constexpr int64_t kMaxEnclosedBytes = 64 << 10;

/// A request whose files are on the server or enclosed.
struct UploadedCompile {
  v1::CreateJobRequest create;
  NamedFiles files;
  std::vector<v1::Digest> digests;  ///< of all files
  TransferProgress upload_progress;
  bool assumed = false;   ///< the files were not looked up, since the server had them earlier (Channel::knownBlobs)
  bool enclosed = false;  ///< the files are in `create`
  v1::TuneMode mode = v1::TUNE_MODE_UNSPECIFIED;  ///< of a tune job
  CompileTimes times;
};

/// Uploads files that the server lacks, or encloses small ones. Does not ask about files that the server is known to
/// have had. Creates no job.
absl::StatusOr<UploadedCompile> uploadCompile(Channel& channel, const CompileRequest& request,
                                              const TransferProgress& upload_progress);

/// Turns the request into an analysis of the model; nothing is compiled.
void convertToAnalysis(UploadedCompile& uploaded, v1::AnalyzeSpec::Question question);

/// Creates the job. First uploads files that the server has collected since, or did not accept within the request. The
/// result may already be terminal (a cache hit).
absl::StatusOr<CompileOutcome> createCompile(Channel& channel, const UploadedCompile& uploaded);

/// uploadCompile followed by createCompile.
absl::StatusOr<CompileOutcome> submitCompile(Channel& channel, const CompileRequest& request,
                                             const TransferProgress& upload_progress);

struct AwaitOptions {
  /// How long to wait for a server that does not answer.
  std::chrono::milliseconds patience = std::chrono::minutes(2);
  /// Limit of one event stream, so that a stream that hangs costs at most this much time.
  std::chrono::milliseconds stream = std::chrono::minutes(5);
  /// Receives what the job waits for (describeWait), if it has been queued for `first_look` or its failed task waits to
  /// be repeated, and again whenever that changes. The interval doubles up to `rarest_look`. Empty: the workers are not
  /// queried.
  std::function<void(const std::string&)> on_waiting = {};
  std::chrono::milliseconds first_look = std::chrono::seconds(3);
  std::chrono::milliseconds rarest_look = std::chrono::seconds(30);
};

/// Follows a job to its end. Survives restarts of the server by resuming after the last event received.
absl::StatusOr<v1::Job> awaitJob(Channel& channel, const std::string& job_id, const EventFn& on_event,
                                 const AwaitOptions& options = {});

}  // namespace tessera::client
