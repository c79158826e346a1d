#include "server/services/record_service.h"

#include <utility>

#include "proto/support/status_macros.h"
#include "server/record_checks.h"
#include "server/request_checks.h"
#include "server/services/calls.h"
#include "server/services/import_call.h"
#include "server/services/project_scope.h"

namespace tessera::server {
namespace {

constexpr int kMaxGroups = 1000;  // of statistics, in one answer

/// One ExportRecords stream: reads one page of the store at a time.
class ExportCall : public grpc::ServerWriteReactor<v1::ExportRecordsResponse>, public WakeableCall {
 public:
  static grpc::ServerWriteReactor<v1::ExportRecordsResponse>* start(std::shared_ptr<Ticket> ticket,
                                                                    storage::Store& store, Executor& executor,
                                                                    const std::string& filter,
                                                                    const std::string& project) {
    std::shared_ptr<ExportCall> call(new ExportCall(store, executor, filter, project));
    call->keepAlive(std::move(ticket));
    call->wake();
    return call.get();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      gone_ = true;
    }
    writing_ = false;
    wake();
  }
  void OnCancel() override {
    gone_ = true;
    wake();
  }
  void OnDone() override { release(); }

 private:
  ExportCall(storage::Store& store, Executor& executor, const std::string& filter, const std::string& project)
      : WakeableCall(executor), store_(store) {
    query_.project = project;
    query_.page_size = 500;
    query_.filter = filter;
    query_.order_by = "create_time";
  }

  absl::Status fetch() {
    TESSERA_RETURN_IF_ERROR(checkText("filter", query_.filter, Limits::kMaxFilterLength, true));
    next_ = 0;
    TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
      TESSERA_ASSIGN_OR_RETURN(page_, reader.listRecords(query_));
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
    Finish(finalStatus(status));
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
  return answer(context, gate_, Right::kRead, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkList(*request));
                  return store_.read([&](storage::Reader& reader) -> absl::Status {
                    TESSERA_ASSIGN_OR_RETURN(const storage::Page<v1::TuningRecord> page,
                                             reader.listRecords(listQuery(*request, scopeOf(caller))));
                    response->mutable_records()->Assign(page.items.begin(), page.items.end());
                    response->set_next_page_token(page.next_page_token);
                    return absl::OkStatus();
                  });
                });
}

grpc::ServerUnaryReactor* RecordService::GetRecord(grpc::CallbackServerContext* context,
                                                   const v1::GetRecordRequest* request,
                                                   v1::GetRecordResponse* response) {
  return answer(context, gate_, Right::kRead, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkText("id", request->id(), Limits::kMaxNameLength, false));
                  return store_.read([&](storage::Reader& reader) -> absl::Status {
                    TESSERA_ASSIGN_OR_RETURN(*response->mutable_record(), recordOf(reader, caller, request->id()));
                    return absl::OkStatus();
                  });
                });
}

grpc::ServerUnaryReactor* RecordService::BestRecords(grpc::CallbackServerContext* context,
                                                     const v1::BestRecordsRequest* request,
                                                     v1::BestRecordsResponse* response) {
  return answer(context, gate_, Right::kRead, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkBestRecords(*request));
                  storage::BestQuery query;
                  TESSERA_ASSIGN_OR_RETURN(query.project, oneProject(caller));
                  query.workloads.assign(request->workload_hashes().begin(), request->workload_hashes().end());
                  query.target = request->target_name();
                  query.chip = request->target_hash();
                  query.threads = request->threads();
                  query.top = request->top() == 0 ? 1 : request->top();
                  query.page_size = request->page_size();
                  query.page_token = request->page_token();
                  return store_.read([&](storage::Reader& reader) -> absl::Status {
                    TESSERA_ASSIGN_OR_RETURN(const storage::Page<storage::BestGroup> page, reader.bestRecords(query));
                    for (const storage::BestGroup& found : page.items) {
                      v1::BestRecordsResponse::Group& group = *response->add_groups();
                      group.set_workload_hash(found.workload);
                      group.set_target_name(found.target);
                      group.set_target_hash(found.chip);
                      group.set_threads(static_cast<int32_t>(found.threads));
                      group.mutable_records()->Assign(found.records.begin(), found.records.end());
                    }
                    response->set_next_page_token(page.next_page_token);
                    return absl::OkStatus();
                  });
                });
}

grpc::ServerUnaryReactor* RecordService::RecordStatistics(grpc::CallbackServerContext* context,
                                                          const v1::RecordStatisticsRequest* request,
                                                          v1::RecordStatisticsResponse* response) {
  return answer(context, gate_, Right::kRead, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_RETURN_IF_ERROR(checkText("filter", request->filter(), Limits::kMaxFilterLength, true));
                  TESSERA_RETURN_IF_ERROR(checkText("group_by", request->group_by(), Limits::kMaxNameLength, true));
                  return store_.read([&](storage::Reader& reader) -> absl::Status {
                    TESSERA_ASSIGN_OR_RETURN(const std::vector<storage::RecordGroup> groups,
                                             reader.recordStatistics(scopeOf(caller), request->filter(),
                                                                     request->group_by(), kMaxGroups + 1));
                    for (const storage::RecordGroup& found : groups) {
                      if (response->groups_size() == kMaxGroups) {
                        response->set_more(true);
                        break;
                      }
                      v1::RecordStatisticsResponse::Group& group = *response->add_groups();
                      group.set_value(found.value);
                      group.set_records(found.records);
                      group.set_failed(found.failed);
                      group.set_workloads(found.workloads);
                      group.set_best_ms(found.best_ms);
                      group.set_best_speed(found.best_speed);
                      group.set_first_time_us(found.first_time_us);
                      group.set_last_time_us(found.last_time_us);
                    }
                    return absl::OkStatus();
                  });
                });
}

grpc::ServerReadReactor<v1::ImportRecordsRequest>* RecordService::ImportRecords(grpc::CallbackServerContext* context,
                                                                                v1::ImportRecordsResponse* response) {
  auto admission = gate_.admit(*context, Right::kAdminister, {.method = "ImportRecords"});
  if (!admission.ok()) {
    return new Refusal<grpc::ServerReadReactor<v1::ImportRecordsRequest>>(admission.status());
  }
  const absl::StatusOr<std::string> project = oneProject(admission->caller);
  if (!project.ok()) {
    admission->ticket->answered(project.status());
    return new Refusal<grpc::ServerReadReactor<v1::ImportRecordsRequest>>(project.status());
  }
  return ImportCall::start(std::move(admission->ticket), *project, store_, executor_, response);
}

grpc::ServerWriteReactor<v1::ExportRecordsResponse>* RecordService::ExportRecords(
    grpc::CallbackServerContext* context, const v1::ExportRecordsRequest* request) {
  auto admission = gate_.admit(*context, Right::kRead, CallFacts::of(*request));
  if (!admission.ok()) {
    return new Refusal<grpc::ServerWriteReactor<v1::ExportRecordsResponse>>(admission.status());
  }
  return ExportCall::start(std::move(admission->ticket), store_, executor_, request->filter(),
                           scopeOf(admission->caller));
}

}  // namespace tessera::server
