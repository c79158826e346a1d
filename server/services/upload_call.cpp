#include "server/services/upload_call.h"

#include "server/request_checks.h"
#include "server/status_macros.h"

namespace tessera::server {

grpc::ServerReadReactor<v1::UploadBlobRequest>* UploadCall::start(storage::Store& store, storage::BlobStore& blobs,
                                                                  Executor& executor, const Limits& limits,
                                                                  v1::UploadBlobResponse* response) {
  std::shared_ptr<UploadCall> call(new UploadCall(store, blobs, executor, limits, response));
  call->keepAlive();
  call->StartRead(&call->message_);
  return call.get();
}

void UploadCall::OnReadDone(bool ok) {
  read_ = ok ? Read::kMessage : Read::kEnd;
  poke();
}

void UploadCall::OnCancel() {
  gone_ = true;
  poke();
}

absl::Status UploadCall::begin() {
  begun_ = true;
  TESSERA_TRY(checkDigest("digest", message_.digest(), limits_.max_blob_bytes));
  digest_ = message_.digest();
  TESSERA_TRY(checkRange("offset", message_.offset(), 0, digest_.size_bytes()));
  existed_ = blobs_.contains(digest_.sha256());
  TESSERA_ASSIGN(upload_, blobs_.startUpload(digest_, message_.offset()));
  return absl::OkStatus();
}

absl::Status UploadCall::take() {
  if (!begun_) {
    TESSERA_TRY(begin());
  }
  TESSERA_TRY(checkRange("data (bytes)", static_cast<int64_t>(message_.data().size()), 0, Limits::kMaxChunkBytes));
  return existed_ ? absl::OkStatus() : upload_->write(message_.data());
}

absl::Status UploadCall::complete() {
  if (!begun_) {
    return fieldError("digest", "an empty stream", "a first message that names the digest");
  }
  // Of a blob that existed this makes sure that it stays: its writer may have ended before.
  TESSERA_TRY(upload_->commit());
  // The file is durable; only now may a row speak of it.
  TESSERA_TRY(store_.transact([&](storage::Transaction& tx) { return tx.putBlob(digest_); }));
  *response_->mutable_digest() = digest_;
  response_->set_existed(existed_);
  return absl::OkStatus();
}

void UploadCall::advance() {
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
      return finish(complete());
    case Read::kMessage:
      break;
  }
  if (const absl::Status status = take(); !status.ok()) {
    return finish(status);
  }
  if (existed_) {
    return finish(complete());  // no need to send the rest
  }
  message_.Clear();
  StartRead(&message_);
}

void UploadCall::finish(const absl::Status& status) {
  finished_ = true;
  upload_.reset();  // before the client may start over: there is one writer per digest
  Finish(toGrpc(status));
}

}  // namespace tessera::server
