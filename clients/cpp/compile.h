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
  /// Location in the model -> local file, of tensors that an ONNX model keeps outside; what is not named is looked for
  /// beside the model.
  std::map<std::string, std::string> external_data;
  std::string pins_path;   ///< decisions to take over; empty: none
  v1::CompileSpec spec;    ///< model, external_data and pins are filled in from the paths
  std::string request_id;  ///< empty: one is made
  int64_t queue_timeout_us = 0;
  int64_t run_timeout_us = 0;
  int priority = 0;
  bool skip_cache = false;
  std::map<std::string, std::string> labels;  ///< kept with the job
  bool validate_only = false;                 ///< the server checks the request; no job comes of it
  std::string digest_cache;                   ///< see cachedDigestOfFile
};

/// Wall time of what the client itself did, in milliseconds. The server's phases are in Job.phases.
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

/// A file that a request names.
struct NamedFile {
  std::string path;
  std::optional<std::string> bytes = std::nullopt;  ///< of a small one, as its digest was made of them
};
using NamedFiles = std::map<std::string, NamedFile>;  ///< by SHA-256

/// Fills in the digests of the request's files.
absl::StatusOr<NamedFiles> nameFiles(const CompileRequest& request, v1::CompileSpec& spec);

/// Files of a request that are small together come within it: asking whether the server has them costs as much.
inline constexpr size_t kMostEnclosed = 64;
inline constexpr int64_t kEnclosedBytes = 64 << 10;

/// A request whose files the server has, or that brings them.
struct UploadedCompile {
  v1::CreateJobRequest create;
  NamedFiles files;
  std::vector<v1::Digest> digests;  ///< of the files
  TransferProgress upload_progress;
  bool assumed = false;   ///< that the server has them still: it had, and was not asked (Channel::knownBlobs)
  bool enclosed = false;  ///< the files are in `create`
  v1::TuneMode mode = v1::TUNE_MODE_UNSPECIFIED;  ///< of a tune job
  CompileTimes times;
};

/// Uploads what the server lacks, or encloses it where it is small; does not ask about what it is known to have had. No
/// job exists yet.
absl::StatusOr<UploadedCompile> uploadCompile(Channel& channel, const CompileRequest& request,
                                              const TransferProgress& upload_progress);

/// Makes the request a question about the model instead; nothing is compiled then.
void askInstead(UploadedCompile& uploaded, v1::AnalyzeSpec::Question question);

/// Creates the job, and uploads first what the server has collected unexpectedly, or did not take with the request. The
/// answer may already be terminal (a cache hit).
absl::StatusOr<CompileOutcome> createCompile(Channel& channel, const UploadedCompile& uploaded);

/// Both, one after the other.
absl::StatusOr<CompileOutcome> submitCompile(Channel& channel, const CompileRequest& request,
                                             const TransferProgress& upload_progress);

struct AwaitOptions {
  /// How long a server may stay away.
  std::chrono::milliseconds patience = std::chrono::minutes(2);
  /// No stream of events lasts longer: one that hangs, for whatever reason, costs that long at most.
  std::chrono::milliseconds stream = std::chrono::minutes(5);
  /// Hears what a job waits for that has been queued for `first_look` (waitsFor), or whose task failed and waits to be
  /// tried again, and again when that changes; looks become rarer. Empty: nobody asks the workers.
  std::function<void(const std::string&)> on_waiting = {};
  std::chrono::milliseconds first_look = std::chrono::seconds(3);
  std::chrono::milliseconds rarest_look = std::chrono::seconds(30);
};

/// Follows a job to its end; survives restarts of the server by resuming from the last event seen.
absl::StatusOr<v1::Job> awaitJob(Channel& channel, const std::string& job_id, const EventFn& on_event,
                                 const AwaitOptions& options = {});

}  // namespace tessera::client
