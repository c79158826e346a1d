#include "clients/cli/record_stream.h"

#include <fstream>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "clients/cli/output.h"
#include "google/protobuf/util/json_util.h"

namespace tessera::client {
namespace {

constexpr int kBatch = 500;              // records of a message
constexpr size_t kBatchBytes = 1 << 20;  // and their size; a record more may come

using Writer = grpc::ClientWriter<v1::ImportRecordsRequest>;

/// The records of one file, sent as they are read.
absl::Status sendFile(Writer& writer, const std::string& path, std::istream& in, bool validate_only) {
  v1::ImportRecordsRequest batch;
  size_t bytes = 0;
  const auto send = [&] {
    batch.set_validate_only(validate_only);
    const bool going = batch.records().empty() || writer.Write(batch);
    batch.Clear();
    bytes = 0;
    return going;
  };
  std::string text;
  for (int64_t number = 1; std::getline(in, text); ++number) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto parsed = google::protobuf::util::JsonStringToMessage(text, batch.add_records());
    if (!parsed.ok())
      return absl::InvalidArgumentError(absl::StrCat(path, ":", number, ": this line is no tuning record (",
                                                     std::string(parsed.message()),
                                                     "); accepted: lines that `tessera records export` writes"));
    bytes += text.size();
    if ((batch.records_size() == kBatch || bytes >= kBatchBytes) && !send()) return absl::OkStatus();
  }
  if (in.bad()) return absl::DataLossError(absl::StrCat(path, ": cannot be read to its end"));
  send();
  return absl::OkStatus();
}

}  // namespace

bool counts(const v1::TuningRecord& record) {
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
  absl::Status sent;
  for (const std::string& path : paths) {
    if (path == "-") {
      sent = sendFile(*writer, path, std::cin, validate_only);
    } else if (std::ifstream in(path); in) {
      sent = sendFile(*writer, path, in, validate_only);
    } else {
      sent = absl::NotFoundError(absl::StrCat(path, ": there is no such file to read"));
    }
    if (!sent.ok()) break;
  }
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  if (!status.ok()) return fromGrpc(status);
  if (!sent.ok()) return sent;
  return response;
}

}  // namespace tessera::client
