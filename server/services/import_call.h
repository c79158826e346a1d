#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "server/services/calls.h"
#include "storage/store.h"
#include "tessera/v1/record.pb.h"

namespace tessera::server {

/// One ImportRecords stream. The records of a message are stored in one transaction before the next message is read. A
/// broken stream has therefore stored whole messages, and can be repeated.
class ImportCall : public grpc::ServerReadReactor<v1::ImportRecordsRequest>, public WakeableCall {
 public:
  static grpc::ServerReadReactor<v1::ImportRecordsRequest>* start(std::shared_ptr<Ticket> ticket, std::string project,
                                                                  storage::Store& store, Executor& executor,
                                                                  v1::ImportRecordsResponse* response);

  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { release(); }

 private:
  enum class Read { kPending, kMessage, kEnd };

  ImportCall(std::string project, storage::Store& store, Executor& executor, v1::ImportRecordsResponse* response)
      : WakeableCall(executor), project_(std::move(project)), store_(store), response_(response) {}
  void advance() override;
  absl::Status take();
  void finish(const absl::Status& status);

  const std::string project_;  ///< owner of the imported records
  storage::Store& store_;
  v1::ImportRecordsResponse* response_;
  v1::ImportRecordsRequest message_;
  int64_t seen_ = 0;  ///< records in all messages so far
  bool validate_only_ = false;
  bool finished_ = false;
  std::atomic<Read> read_ = Read::kPending;
  std::atomic<bool> gone_ = false;
};

}  // namespace tessera::server
