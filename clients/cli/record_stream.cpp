#include "clients/cli/record_stream.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/cli/metaschedule.h"
#include "clients/cli/output.h"
#include "google/protobuf/util/json_util.h"
#include "proto/messages/former_names.h"

namespace tessera::client {
namespace {

constexpr int kBatch = 500;              // limit of records in a message
constexpr size_t kBatchBytes = 1 << 20;  // limit of their bytes, exceeded by at most one record

using Writer = grpc::ClientWriter<v1::ImportRecordsRequest>;

/// Sends records in batches.
class Sender {
 public:
  Sender(Writer& writer, bool validate_only) : writer_(writer), validate_only_(validate_only) {}

  /// Returns the next record, to be filled in; call sendFull() afterwards.
  v1::TuningRecord* add() { return batch_.add_records(); }
  /// False: the server accepts no more, and the call's status states why.
  bool sendFull(size_t bytes) {
    bytes_ += bytes;
    return (batch_.records_size() < kBatch && bytes_ < kBatchBytes) || send();
  }
  void sendAllButLast() {
    batch_.mutable_records()->RemoveLast();
    send();
  }
  bool send() {
    batch_.set_validate_only(validate_only_);
    const bool going = batch_.records().empty() || writer_.Write(batch_);
    batch_.Clear();
    bytes_ = 0;
    return going;
  }

 private:
  Writer& writer_;
  bool validate_only_;
  v1::ImportRecordsRequest batch_;
  size_t bytes_ = 0;
};

/// Sends the records of one file while reading it.
absl::Status sendFile(Sender& sender, const std::string& path, std::istream& in) {
  std::string text;
  for (int64_t number = 1; std::getline(in, text); ++number) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto parsed = google::protobuf::util::JsonStringToMessage(withPresentNamesInJson(text), sender.add());
    if (!parsed.ok()) {
      sender.sendAllButLast();
      return absl::InvalidArgumentError(absl::StrCat(path, ":", number, ": this line is no tuning record (",
                                                     parsed.message().ToString().substr(0, parsed.message().find('\n')),
                                                     "); accepted: lines that `tessera records export` writes"));
    }
    if (!sender.sendFull(text.size())) return absl::OkStatus();
  }
  if (in.bad()) return absl::DataLossError(absl::StrCat(path, ": cannot be read to its end"));
  sender.send();
  return absl::OkStatus();
}

/// Sends the records of a MetaSchedule folder; `told` counts those that cannot be represented.
absl::Status sendFolder(Sender& sender, const std::string& path, v1::ImportRecordsResponse& told) {
  absl::Status status = readMetaSchedule(
      path,
      [&](v1::TuningRecord record) {
        const size_t bytes = record.ByteSizeLong();
        *sender.add() = std::move(record);
        return sender.sendFull(bytes);
      },
      told);
  sender.send();
  return status;
}

}  // namespace

bool hasValidTime(const v1::TuningRecord& record) {
  const bool failed =
      record.outcome() == v1::TuningRecord::OUTCOME_UNSPECIFIED
          ? record.validation().starts_with("failed")
          : record.outcome() != v1::TuningRecord::UNCHECKED && record.outcome() != v1::TuningRecord::PASSED;
  return !failed && record.median_ms() > 0;
}

absl::Status forEachRecord(Channel& channel, const std::string& filter,
                           const std::function<void(const v1::TuningRecord&)>& use) {
  grpc::ClientContext context;
  v1::ExportRecordsRequest request;
  request.set_filter(filter);
  auto reader = channel.records().ExportRecords(&context, request);
  v1::ExportRecordsResponse response;
  while (reader->Read(&response)) use(response.record());
  const grpc::Status status = reader->Finish();
  return status.ok() ? absl::OkStatus() : fromGrpc(status);
}

int exportRecords(const CommandLine& line, Channel& channel, const std::string& filter, std::ostream& out) {
  const absl::Status status =
      forEachRecord(channel, filter, [&](const v1::TuningRecord& record) { out << toJson(record) << "\n"; });
  return status.ok() ? 0 : reportError(status, line.json);
}

absl::StatusOr<v1::ImportRecordsResponse> importRecords(Channel& channel, const std::vector<std::string>& paths,
                                                        bool validate_only) {
  grpc::ClientContext context;
  v1::ImportRecordsResponse response;
  const auto writer = channel.records().ImportRecords(&context, &response);
  v1::ImportRecordsResponse unmapped;
  absl::Status sent;
  for (const std::string& path : paths) {
    Sender sender(*writer, validate_only);
    std::error_code unknown;
    if (path == "-") {
      sent = sendFile(sender, path, std::cin);
    } else if (std::filesystem::is_directory(path, unknown)) {
      sent = sendFolder(sender, path, unmapped);
    } else if (std::ifstream in(path); in) {
      sent = sendFile(sender, path, in);
    } else {
      sent = absl::NotFoundError(absl::StrCat(path, ": there is no such file to read"));
    }
    if (!sent.ok()) break;
  }
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  if (!status.ok()) return fromGrpc(status);
  if (!sent.ok()) return sent;
  response.set_refused(response.refused() + unmapped.refused());
  response.mutable_problems()->MergeFrom(unmapped.problems());
  return response;
}

}  // namespace tessera::client
