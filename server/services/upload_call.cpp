#include "server/services/upload_call.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "server/limits.h"
#include "server/request_checks.h"
#include "server/services/blob_row.h"

namespace tessera::server {

grpc::ServerReadReactor<v1::UploadBlobRequest>* UploadCall::start(Gate::Admission admission, Clock& clock,
                                                                  storage::Store& store, storage::BlobStore& blobs,
                                                                  Quotas& quotas, Executor& executor,
                                                                  const Limits& limits,
                                                                  v1::UploadBlobResponse* response) {
  std::shared_ptr<UploadCall> call(
      new UploadCall(std::move(admission.caller), clock, store, blobs, quotas, executor, limits, response));
  call->keepAlive(std::move(admission.ticket));
  call->readNext();
  return call.get();
}

void UploadCall::OnReadDone(bool ok) {
  ++reading_;
  read_ = ok ? Read::kMessage : Read::kEnd;
  wake();
}

void UploadCall::OnCancel() {
  gone_ = true;
  wake();
}

/// The row keeps the size that the client states, so it must equal the file's.
absl::Status UploadCall::checkSizeOfStored(const v1::Digest& digest) {
  const auto size = blobs_.size(digest.sha256());
  if (!size.ok() || *size == digest.size_bytes()) {
    return absl::OkStatus();
  }
  return fieldError("digest.size_bytes", absl::StrCat(digest.size_bytes()),
                    absl::StrCat(*size, ", the size of the blob that is there"));
}

/// Reads the next message. A client that sends nothing for too long loses its memory and disk space.
void UploadCall::readNext() {
  const int64_t reading = ++reading_;
  silence_ = std::make_unique<grpc::Alarm>();
  silence_->Set(std::chrono::system_clock::now() + limits_.upload_silence, [weak = weak_from_this(), reading](bool) {
    if (auto self = std::static_pointer_cast<UploadCall>(weak.lock()); self && self->reading_ == reading) {
      self->silent_ = reading;
      self->wake();
    }
  });
  StartRead(&message_);
}

absl::Status UploadCall::begin() {
  begun_ = true;
  TESSERA_RETURN_IF_ERROR(checkDigest("digest", message_.digest(), limits_.max_blob_bytes));
  digest_ = message_.digest();
  ticket().concerns(digest_.sha256());
  const bool trusted = caller_.role == v1::WORKER;
  bool may_read = trusted;
  if (!trusted) {
    TESSERA_ASSIGN_OR_RETURN(project_, oneProject(caller_));
    TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
      TESSERA_ASSIGN_OR_RETURN(may_read, reader.mayReadBlob(project_, digest_.sha256()));
      return may_read ? absl::OkStatus()
                      : checkRoom(quotas_, reader, project_, blobs_.unfinishedBytes(project_, digest_.sha256()),
                                  digest_.size_bytes());
    }));
  }
  if (may_read) {
    TESSERA_RETURN_IF_ERROR(checkSizeOfStored(digest_));
  }
  TESSERA_RETURN_IF_ERROR(checkRange("offset", message_.offset(), 0, digest_.size_bytes()));
  existed_ = may_read && blobs_.contains(digest_.sha256());
  if (message_.parts_size() > 0 || !message_.placed().empty()) {
    return beginFromFiles();
  }
  TESSERA_ASSIGN_OR_RETURN(upload_, blobs_.startUpload(digest_, message_.offset(), {project_, !may_read}));
  received_ = message_.offset();
  return absl::OkStatus();
}

/// Composes a blob from bytes that exist already. Workers only: a client would learn which blobs exist.
absl::Status UploadCall::beginFromFiles() {
  from_files_ = true;
  const char* field = message_.placed().empty() ? "parts" : "placed";
  if (caller_.role != v1::WORKER) {
    return fieldError(field, "set", "left out: it is for workers");
  }
  if (!message_.placed().empty() && caller_.name != kLocalWorkers) {
    return fieldError(field, "set", "left out: it is for workers on this machine");
  }
  if (message_.offset() != 0 || (message_.parts_size() > 0 && !message_.placed().empty())) {
    return fieldError(field, "set beside an offset or another source", "the one source of the bytes");
  }
  if (!message_.placed().empty()) {
    TESSERA_ASSIGN_OR_RETURN(upload_, blobs_.startPlaced(digest_, message_.placed()));
    received_ = digest_.size_bytes();
    return absl::OkStatus();
  }
  std::vector<storage::BlobStore::Part> parts;
  for (const v1::BlobPart& part : message_.parts()) {
    parts.push_back({part.sha256(), part.size_bytes()});
  }
  using DigestSource = storage::BlobStore::DigestSource;
  const DigestSource hashed = caller_.name == kLocalWorkers ? DigestSource::kTrusted : DigestSource::kUntrusted;
  TESSERA_ASSIGN_OR_RETURN(upload_, blobs_.startComposed(digest_, parts, hashed));  // has checked their sizes
  for (const storage::BlobStore::Part& part : parts) {
    received_ += part.sha256.empty() ? 0 : part.bytes;
  }
  return absl::OkStatus();
}

absl::Status UploadCall::take() {
  if (!begun_) {
    TESSERA_RETURN_IF_ERROR(begin());
  }
  TESSERA_RETURN_IF_ERROR(
      checkRange("data (bytes)", static_cast<int64_t>(message_.data().size()), 0, Limits::kMaxChunkBytes));
  received_ += static_cast<int64_t>(message_.data().size());
  return existed_ ? absl::OkStatus() : upload_->write(message_.data());
}

absl::Status UploadCall::complete() {
  if (!begun_) {
    return fieldError("digest", "an empty stream", "a first message that names the digest");
  }
  // A broken stream looks like an ended one until gRPC reports that it was cancelled.
  if (!existed_ && received_ < digest_.size_bytes()) {
    return absl::DataLossError(absl::StrCat(received_, " bytes were sent, ", digest_.size_bytes(),
                                            " announced; they are kept, go on from where QueryUpload says"));
  }
  // Also for a blob that existed: makes sure that it stays, since its writer may have died before. A file must be
  // durable before a row refers to it; bytes in a row become durable with it. Composed and placed blobs are files.
  const bool together = blobs_.becomesRow(digest_.size_bytes()) && !from_files_;
  TESSERA_RETURN_IF_ERROR(together ? absl::OkStatus() : upload_->commit());
  TESSERA_RETURN_IF_ERROR(store_.transact([&](storage::Transaction& tx) -> absl::Status {
    TESSERA_RETURN_IF_ERROR(together ? upload_->commit() : absl::OkStatus());
    return putBlobRow(tx, blobs_, quotas_, clock_.nowMicros(), project_, digest_, 0);
  }));
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
      if (silent_ != 0 && silent_ == reading_) {
        finish(absl::DeadlineExceededError(
            "no data came for too long; the received bytes are kept; resume at the offset that QueryUpload returns"));
      }
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
    return finish(complete());  // the rest of the bytes is not needed
  }
  message_.Clear();
  readNext();
}

void UploadCall::finish(const absl::Status& status) {
  finished_ = true;
  upload_.reset();  // before the client may resume after the bytes that it wrote
  Finish(finalStatus(status));
}

}  // namespace tessera::server
