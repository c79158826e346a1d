#include "server/services/record_service.h"

#include <utility>

#include "server/request_checks.h"
#include "server/services/calls.h"
#include "server/status_macros.h"

namespace tessera::server {
namespace {

/// One ExportRecords stream: a page of the store at a time.
class ExportCall : public grpc::ServerWriteReactor<v1::ExportRecordsResponse>, public PokedCall {
 public:
  static grpc::ServerWriteReactor<v1::ExportRecordsResponse>* start(std::shared_ptr<void> ticket, storage::Store& store,
                                                                    Executor& executor, const std::string& filter) {
    std::shared_ptr<ExportCall> call(new ExportCall(store, executor, filter));
    call->keepAlive(std::move(ticket));
    call->poke();
    return call.get();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      gone_ = true;
    }
    writing_ = false;
    poke();
  }
  void OnCancel() override {
    gone_ = true;
    poke();
  }
  void OnDone() override { release(); }

 private:
  ExportCall(storage::Store& store, Executor& executor, const std::string& filter)
      : PokedCall(executor), store_(store) {
    query_.page_size = 500;
    query_.filter = filter;
    query_.order_by = "create_time";
  }

  absl::Status fetch() {
    TESSERA_TRY(checkText("filter", query_.filter, Limits::kMaxFilterLength, true));
    next_ = 0;
    TESSERA_TRY(store_.read([&](storage::Reader& reader) -> absl::Status {
      TESSERA_ASSIGN(page_, reader.listRecords(query_));
      return absl::OkStatus();
    }));
    query_.page_token = page_.next_page_token;
    last_page_ = page_.next_page_token.empty();
    return absl::OkStatus();
  }

  void advance() override {
    if (finished_ || writing_) {
      return;
    }
    if (gone_) {
      return finish(absl::CancelledError("the client left"));
    }
    while (next_ == page_.items.size() && !last_page_) {
      if (const absl::Status status = fetch(); !status.ok()) {
        return finish(status);
      }
    }
    if (next_ == page_.items.size()) {
      return finish(absl::OkStatus());
    }
    message_.mutable_record()->Swap(&page_.items[next_++]);
    writing_ = true;
    StartWrite(&message_);
  }

  void finish(const absl::Status& status) {
    finished_ = true;
    Finish(toGrpc(status));
  }

  storage::Store& store_;
  storage::ListQuery query_;
  storage::Page<v1::TuningRecord> page_;
  size_t next_ = 0;
  bool last_page_ = false;
  bool finished_ = false;
  v1::ExportRecordsResponse message_;
  std::atomic<bool> writing_ = false;
  std::atomic<bool> gone_ = false;
};

}  // namespace

grpc::ServerUnaryReactor* RecordService::ListRecords(grpc::CallbackServerContext* context,
                                                     const v1::ListRecordsRequest* request,
                                                     v1::ListRecordsResponse* response) {
  return answer(context, gate_, Right::kLook, executor_, *request, [this, request, response]() -> absl::Status {
    TESSERA_TRY(checkList(*request));
    return store_.read([&](storage::Reader& reader) -> absl::Status {
      TESSERA_ASSIGN(const storage::Page<v1::TuningRecord> page, reader.listRecords(listQuery(*request)));
      response->mutable_records()->Assign(page.items.begin(), page.items.end());
      response->set_next_page_token(page.next_page_token);
      return absl::OkStatus();
    });
  });
}

grpc::ServerWriteReactor<v1::ExportRecordsResponse>* RecordService::ExportRecords(
    grpc::CallbackServerContext* context, const v1::ExportRecordsRequest* request) {
  auto admission = gate_.admit(*context, Right::kLook);
  if (!admission.ok()) {
    return new Refusal<grpc::ServerWriteReactor<v1::ExportRecordsResponse>>(admission.status());
  }
  return ExportCall::start(std::move(admission->ticket), store_, executor_, request->filter());
}

}  // namespace tessera::server
