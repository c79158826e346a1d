#include "server/services/download_call.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "server/limits.h"
#include "server/request_checks.h"
#include "server/retention/losses.h"
#include "server/services/project_scope.h"

namespace tessera::server {

grpc::ServerWriteReactor<v1::DownloadBlobResponse>* DownloadCall::start(Gate::Admission admission,
                                                                        storage::Store& store,
                                                                        storage::BlobStore& blobs, Executor& executor,
                                                                        v1::DownloadBlobRequest request) {
  std::shared_ptr<DownloadCall> call(
      new DownloadCall(std::move(admission.caller), store, blobs, executor, std::move(request)));
  call->keepAlive(std::move(admission.ticket));
  call->wake();
  return call.get();
}

void DownloadCall::OnWriteDone(bool ok) {
  if (!ok) {
    gone_ = true;
  }
  writing_ = false;
  wake();
}

void DownloadCall::OnCancel() {
  gone_ = true;
  wake();
}

absl::Status DownloadCall::begin() {
  begun_ = true;
  TESSERA_RETURN_IF_ERROR(checkSha256("sha256", request_.sha256()));
  int64_t size = 0;
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(const bool may_read, mayRead(reader, caller_, request_.sha256()));
    const auto stored = reader.blobSize(request_.sha256());
    if (!may_read || absl::IsNotFound(stored.status())) {
      return notFound("blob", request_.sha256());  // the same error for a blob of another project
    }
    TESSERA_RETURN_IF_ERROR(stored.status());
    size = *stored;
    return absl::OkStatus();
  }));
  TESSERA_RETURN_IF_ERROR(checkRange("offset", request_.offset(), 0, size));
  TESSERA_RETURN_IF_ERROR(checkRange("limit", request_.limit(), 0, INT64_MAX));
  next_ = request_.offset();
  end_ = request_.limit() == 0 ? size : next_ + std::min(request_.limit(), size - next_);
  if (next_ == 0 && end_ == size) {
    hash_.emplace();
  }
  message_.set_total_bytes(size);
  return absl::OkStatus();
}

absl::Status DownloadCall::readChunk() {
  std::string* data = message_.mutable_data();
  data->clear();
  const int64_t length = std::min<int64_t>(end_ - next_, Limits::kMaxChunkBytes);
  if (length > 0) {
    TESSERA_RETURN_IF_ERROR(blobs_.get(request_.sha256(), next_, length, [&](std::string_view chunk) {
      data->append(chunk);
      return absl::OkStatus();
    }));
  }
  if (static_cast<int64_t>(data->size()) != length) {
    return absl::DataLossError(absl::StrCat("they end at byte ", next_ + data->size()));
  }
  next_ += length;
  if (hash_) {
    hash_->update(*data);
  }
  return absl::OkStatus();
}

absl::Status DownloadCall::verify() {
  if (!hash_ || hash_->finish() == request_.sha256()) {
    return absl::OkStatus();
  }
  return absl::DataLossError("they are not those of its digest");
}

absl::Status DownloadCall::recordLoss(const absl::Status& status) {
  const std::string& sha256 = request_.sha256();
  if (absl::IsDataLoss(status)) {
    // BlobStore sets a damaged blob aside when it is read to the end.
    const absl::Status again = blobs_.get(sha256, 0, 0, [](std::string_view) { return absl::OkStatus(); });
    if (again.ok() || absl::IsUnavailable(again)) {
      return absl::UnavailableError(
          absl::StrCat("a cached copy of blob ", sha256, " was damaged and has been replaced; download it again"));
    }
  } else if (!absl::IsNotFound(status)) {
    return status;
  }
  const auto lost = noteLoss(store_, blobs_, sha256);
  if (!lost.ok()) {
    spdlog::error("the loss of blob {} cannot be stored: {}", sha256, std::string(lost.status().message()));
  } else if (!*lost && absl::IsNotFound(status)) {
    return notFound("blob", sha256);  // deleted since the call began
  }
  return absl::DataLossError(absl::StrCat("the bytes of blob ", sha256, " were lost on the server's disk (",
                                          status.message(), "); upload it, or send the request that made it, again"));
}

void DownloadCall::advance() {
  if (finished_ || writing_) {
    return;
  }
  if (gone_) {
    return finish(absl::CancelledError("the client left"));
  }
  const bool first = !begun_;
  if (first) {
    if (const absl::Status status = begin(); !status.ok()) {
      return finish(status);
    }
  } else {
    message_.clear_total_bytes();
  }
  if (!first && next_ == end_) {
    return finish(recordLoss(verify()));
  }
  if (const absl::Status status = readChunk(); !status.ok()) {
    return finish(recordLoss(status));
  }
  writing_ = true;
  StartWrite(&message_);
}

void DownloadCall::finish(const absl::Status& status) {
  finished_ = true;
  Finish(finalStatus(status));
}

}  // namespace tessera::server
