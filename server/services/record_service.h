#pragma once

#include "server/access/gate.h"
#include "server/executor.h"
#include "storage/store.h"
#include "tessera/v1/record.grpc.pb.h"

namespace tessera::server {

/// Tuning records of the caller's project: lists, best records and statistics, import and export. Thread-safe.
class RecordService : public v1::RecordService::CallbackService {
 public:
  RecordService(storage::Store& store, Gate& gate, Executor& executor)
      : store_(store), gate_(gate), executor_(executor) {}

  grpc::ServerUnaryReactor* ListRecords(grpc::CallbackServerContext* context, const v1::ListRecordsRequest* request,
                                        v1::ListRecordsResponse* response) override;
  grpc::ServerUnaryReactor* GetRecord(grpc::CallbackServerContext* context, const v1::GetRecordRequest* request,
                                      v1::GetRecordResponse* response) override;
  grpc::ServerUnaryReactor* BestRecords(grpc::CallbackServerContext* context, const v1::BestRecordsRequest* request,
                                        v1::BestRecordsResponse* response) override;
  grpc::ServerUnaryReactor* RecordStatistics(grpc::CallbackServerContext* context,
                                             const v1::RecordStatisticsRequest* request,
                                             v1::RecordStatisticsResponse* response) override;
  grpc::ServerReadReactor<v1::ImportRecordsRequest>* ImportRecords(grpc::CallbackServerContext* context,
                                                                   v1::ImportRecordsResponse* response) override;
  grpc::ServerWriteReactor<v1::ExportRecordsResponse>* ExportRecords(grpc::CallbackServerContext* context,
                                                                     const v1::ExportRecordsRequest* request) override;

 private:
  storage::Store& store_;
  Gate& gate_;
  Executor& executor_;
};

}  // namespace tessera::server
