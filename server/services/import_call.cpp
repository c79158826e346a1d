#include "server/services/import_call.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "server/limits.h"
#include "server/record_checks.h"
#include "server/request_checks.h"

namespace tessera::server {
namespace {

constexpr int kMaxReportedProblems = 100;  // reported at most

}  // namespace

grpc::ServerReadReactor<v1::ImportRecordsRequest>* ImportCall::start(std::shared_ptr<Ticket> ticket,
                                                                     std::string project, storage::Store& store,
                                                                     Executor& executor,
                                                                     v1::ImportRecordsResponse* response) {
  std::shared_ptr<ImportCall> call(new ImportCall(std::move(project), store, executor, response));
  call->keepAlive(std::move(ticket));
  call->StartRead(&call->message_);
  return call.get();
}

void ImportCall::OnReadDone(bool ok) {
  read_ = ok ? Read::kMessage : Read::kEnd;
  wake();
}

void ImportCall::OnCancel() {
  gone_ = true;
  wake();
}

absl::Status ImportCall::take() {
  TESSERA_RETURN_IF_ERROR(checkRange("records (count)", message_.records_size(), 0, Limits::kMaxRecords));
  validate_only_ = validate_only_ || message_.validate_only();
  std::vector<v1::TuningRecord> records;
  for (v1::TuningRecord& record : *message_.mutable_records()) {
    ++seen_;
    if (const absl::Status status = checkRecord(record); !status.ok()) {
      response_->set_refused(response_->refused() + 1);
      if (response_->problems_size() < kMaxReportedProblems) {
        response_->add_problems(absl::StrCat("record ", seen_, ": ", std::string(status.message())));
      }
      continue;
    }
    record.set_project(project_);
    records.push_back(std::move(record));
  }
  if (validate_only_) {
    return absl::OkStatus();
  }
  int64_t imported = 0;
  // One transaction per message of the stream, so an import of any size holds no long one. The store may run the body
  // again, so the count starts within it.
  TESSERA_RETURN_IF_ERROR(store_.transact([&](storage::Transaction& tx) -> absl::Status {
    imported = 0;
    for (const v1::TuningRecord& record : records) {
      TESSERA_ASSIGN_OR_RETURN(const bool stored, tx.mergeRecord(record));
      imported += stored ? 1 : 0;
    }
    return absl::OkStatus();
  }));
  response_->set_imported(response_->imported() + imported);
  response_->set_known(response_->known() + static_cast<int64_t>(records.size()) - imported);
  return absl::OkStatus();
}

void ImportCall::advance() {
  if (finished_) {
    return;
  }
  if (gone_) {
    return finish(absl::CancelledError("the client left"));
  }
  switch (read_.exchange(Read::kPending)) {
    case Read::kPending:
      return;
    case Read::kEnd:
      return finish(absl::OkStatus());
    case Read::kMessage:
      break;
  }
  if (const absl::Status status = take(); !status.ok()) {
    return finish(status);
  }
  message_.Clear();
  StartRead(&message_);
}

void ImportCall::finish(const absl::Status& status) {
  finished_ = true;
  Finish(finalStatus(status));
}

}  // namespace tessera::server
