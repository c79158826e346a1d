#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tessera::server {

/// Names of the server's own workers, which no other worker can take, and the owner of their credential.
inline constexpr char kLocalWorkerPrefix[] = "local-";
/// Prefix of the local workers' names, followed by a number. Servers that share a store have different names.
inline std::string localWorkerPrefix(const std::string& server_name) {
  return server_name.empty() ? kLocalWorkerPrefix : kLocalWorkerPrefix + server_name + "-";
}
inline constexpr char kLocalWorkers[] = "this server's workers";

/// Limits of requests. A value beyond a limit is answered with INVALID_ARGUMENT, with the field and the accepted range.
struct Limits {
  int64_t max_model_bytes = int64_t{2} << 30;  ///< protobuf's own limit of an ONNX file
  int64_t max_blob_bytes = int64_t{64} << 30;
  int max_message_bytes = 16 << 20;
  std::chrono::milliseconds upload_silence{60'000};  ///< an upload without data for this long is ended

  static constexpr int kMaxDigests = 10'000;
  static constexpr int kMaxChunkBytes = 1 << 20;
  static constexpr int kMaxInlineTensorBytes = 1 << 20;
  static constexpr int kMaxFixedInputs = 64;
  static constexpr int kMaxFixedInputBytes = 64 << 10;      ///< of each input
  static constexpr int kMaxAllFixedInputBytes = 256 << 10;  ///< they are stored with the job and in the manifest
  static constexpr int kMaxRequestIdLength = 128;
  static constexpr int kMaxNameLength = 256;
  static constexpr int kMaxTensorNameLength = 4096;  ///< of inputs and outputs; exporters put scopes of a program there
  static constexpr int kMaxTensors = 1024;
  static constexpr int kMaxSpecializations = 64;  ///< maximum that an artifact can hold
  static constexpr int kMaxRank = 32;
  static constexpr int64_t kMaxDimension = int64_t{1} << 40;
  static constexpr int kMaxExternalFiles = 4096;
  static constexpr int64_t kMaxPinsBytes = int64_t{64} << 20;  // of a file of pins
  static constexpr int kMaxLocationLength = 1024;
  static constexpr int kMaxThreads = 1024;
  static constexpr int kMaxRepeat = 100'000;
  static constexpr int kMaxTrials = 10'000;         ///< of a workload
  static constexpr int kMaxChoices = 1000;          ///< of a model, in a tune job
  static constexpr int kMaxProposals = 10'000;      ///< of one batch of a search
  static constexpr int kMaxMeasuredRuns = 100'000;  ///< of a measurement
  static constexpr int kMaxTrialRuns = 10'000;      ///< of a trial; its confirmation has at most six times as many
  static constexpr int kTrialRuns = 7;              ///< if MeasuringRules.repeat is 0
  static constexpr int kMaxPriority = 1000;         ///< of an operator's jobs
  static constexpr int kMaxClientPriority = 0;      ///< of all other jobs; clients can only lower their priority
  static constexpr int64_t kMaxTokenLifetimeUs = int64_t{10} * 366 * 24 * 3600 * 1'000'000;
  static constexpr int64_t kMaxTimeoutUs = int64_t{7} * 24 * 3600 * 1'000'000;  ///< a week
  static constexpr int kMaxFilterLength = 4096;
  static constexpr int kMaxWorkerIdLength = 128;
  static constexpr int kMaxTroubleLength = 1024;
  static constexpr int kLeaseSecretBytes = 16;
  static constexpr int kMaxOutputFiles = 100'000;
  static constexpr int kMaxFailureTextBytes = 64 << 10;  ///< of each text of a failure
  static constexpr int kMaxKernels = 100'000;            ///< of a profile
  static constexpr int kMaxClientLength = 128;
  static constexpr int kMaxLabels = 16;
  static constexpr int kMaxLabelLength = 63;  ///< of key and value
  static constexpr int kMaxMeasures = 64;     ///< of a worker's sandbox
  static constexpr int kMaxBatchBlobs = 1000;
  static constexpr int64_t kMaxBatchBytes = int64_t{3} << 20;
  static constexpr int kMaxEnclosedFiles = 64;  ///< in one request to create a job
  static constexpr int64_t kMaxEnclosedFileBytes = int64_t{64} << 10;
  static constexpr int64_t kMaxEnclosedBytes = int64_t{1} << 20;
  static constexpr int kMaxSlots = 1024;
  static constexpr int kMaxOperators = 10'000;
  static constexpr int kMaxRecords = 1000;               ///< in one message of an import; also hashes in a query
  static constexpr int64_t kMaxRecordBytes = 256 << 10;  ///< of one record
  static constexpr int kMaxTop = 100;                    ///< records of each group
};

}  // namespace tessera::server
