#include "workers/blob_client.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "workers/backoff.h"
#include "workers/file_descriptor.h"
#include "workers/rpc.h"

namespace tessera::worker {
namespace {

constexpr int64_t kChunkBytes = 1 << 20;      // limit of the API
constexpr int kMaxFindMissing = 10'000;       // limit of the API
constexpr Milliseconds kCallTimeout{20'000};  // for calls without data
constexpr int64_t kShareBytes = 64 << 10;     // from this size a link is cheaper than sending
constexpr int kMismatches = 2;                // damaged uploads until our own file counts as damaged

// Timeout for a rate of at least 1 MiB/s; a slower transfer is cancelled and resumed.
Milliseconds transferTimeout(int64_t bytes) { return kCallTimeout + Milliseconds(bytes / 1024); }

using UploadWriter = grpc::ClientWriterInterface<v1::UploadBlobRequest>;

// Sends a file's bytes from `offset` to `end`. Also returns OK if the server stops reading; its response says why.
absl::Status sendFile(const std::string& path, int64_t offset, int64_t end, UploadWriter& writer) {
  const FileDescriptor source(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!source.valid()) return absl::InternalError(absl::StrCat(path, ": ", strerror(errno)));
  v1::UploadBlobRequest request;
  while (offset < end) {
    std::string& data = *request.mutable_data();
    data.resize(static_cast<size_t>(std::min(kChunkBytes, end - offset)));
    const ssize_t got = pread(source.get(), data.data(), data.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return absl::InternalError(absl::StrCat(path, ": ", got == 0 ? "shrank while read" : strerror(errno)));
    data.resize(static_cast<size_t>(got));
    offset += got;
    if (!writer.Write(request)) break;
  }
  return absl::OkStatus();
}

// Retries `once` until it succeeds, fails permanently, or is cancelled.
template <typename Once>
absl::Status retry(Cancellation& cancellation, const Once& once) {
  Backoff backoff;
  while (true) {
    absl::Status status = cancellation.cancelled() ? absl::CancelledError("the attempt has ended") : once();
    if (status.ok() || cancellation.cancelled() || !isTransient(status)) return status;
    if (!cancellation.sleepFor(backoff.next())) return absl::CancelledError("the attempt has ended");
  }
}

}  // namespace

absl::Status BlobClient::download(const v1::Digest& digest, const ByteSink& sink, Cancellation& cancellation) {
  int64_t offset = 0;
  // A failure of the sink (a full disk) is final: the sink may have kept part of the bytes, and a resumed transfer
  // would pass them twice.
  absl::Status kept;
  const ByteSink noting = [&](std::string_view bytes) { return kept = sink(bytes); };
  absl::Status status = retry(cancellation, [&] {
    absl::Status once = downloadOnce(digest, offset, noting, cancellation);
    return kept.ok() ? once : absl::OkStatus();
  });
  return kept.ok() ? status : kept;
}

absl::Status BlobClient::downloadOnce(const v1::Digest& digest, int64_t& offset, const ByteSink& sink,
                                      Cancellation& cancellation) {
  if (offset > 0 && offset >= digest.size_bytes()) return absl::OkStatus();
  v1::DownloadBlobRequest request;
  request.set_sha256(digest.sha256());
  request.set_offset(offset);
  CallContext context(cancellation, transferTimeout(digest.size_bytes() - offset));
  auto reader = stub_->DownloadBlob(context.get(), request);
  v1::DownloadBlobResponse response;
  while (reader->Read(&response)) {
    if (absl::Status status = sink(response.data()); !status.ok()) {
      context.get()->TryCancel();
      while (reader->Read(&response)) {
      }
      reader->Finish();
      return status;
    }
    offset += static_cast<int64_t>(response.data().size());
  }
  return toAbsl(reader->Finish());
}

absl::Status BlobClient::upload(const std::vector<File>& files, Cancellation& cancellation) {
  TESSERA_ASSIGN_OR_RETURN(auto wanted, missing(files, cancellation));
  for (const File& file : wanted) {
    int mismatches = 0;
    absl::Status status = retry(cancellation, [&] {
      absl::Status once = uploadOnce(file, cancellation);
      // ABORTED: another upload of the same blob is in progress. DATA_LOSS: the server discarded its data, for example
      // a partial upload that a crash had damaged; start over.
      if (absl::IsAborted(once) || (absl::IsDataLoss(once) && ++mismatches < kMismatches) ||
          absl::IsFailedPrecondition(once) || absl::IsOutOfRange(once)) {
        return absl::UnavailableError(once.message());
      }
      return once;
    });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<BlobClient::File>> BlobClient::missing(const std::vector<File>& files,
                                                                  Cancellation& cancellation) {
  std::set<std::string> absent;
  for (size_t first = 0; first < files.size(); first += kMaxFindMissing) {
    v1::FindMissingBlobsRequest request;
    for (size_t i = first; i < std::min(files.size(), first + kMaxFindMissing); ++i) {
      *request.add_digests() = files[i].digest;
    }
    absl::Status status = retry(cancellation, [&] {
      CallContext context(cancellation, kCallTimeout);
      v1::FindMissingBlobsResponse response;
      absl::Status once = toAbsl(stub_->FindMissingBlobs(context.get(), request, &response));
      for (const v1::Digest& digest : response.missing()) absent.insert(digest.sha256());
      return once;
    });
    if (!status.ok()) return status;
  }
  std::vector<File> result;
  for (const File& file : files) {
    if (absent.erase(file.digest.sha256()) > 0) result.push_back(file);  // duplicates are uploaded once
  }
  return result;
}

absl::Status BlobClient::uploadOnce(const File& file, Cancellation& cancellation) {
  v1::QueryUploadRequest query;
  *query.mutable_digest() = file.digest;
  v1::QueryUploadResponse state;
  {
    CallContext context(cancellation, kCallTimeout);
    const absl::Status status = toAbsl(stub_->QueryUpload(context.get(), query, &state));
    if (!status.ok() || state.complete()) return status;
  }
  if (!file.parts.empty()) return uploadParts(file, cancellation);
  if (auto name = file.digest.size_bytes() >= kShareBytes ? shared_.place(file.digest, file.path) : std::nullopt) {
    return uploadPlaced(file, *name, cancellation);
  }
  v1::UploadBlobResponse response;
  v1::UploadBlobRequest request;
  *request.mutable_digest() = file.digest;
  request.set_offset(state.committed_bytes());
  CallContext context(cancellation, transferTimeout(file.digest.size_bytes() - state.committed_bytes()));
  auto writer = stub_->UploadBlob(context.get(), &response);
  if (writer->Write(request)) {
    if (absl::Status status = sendFile(file.path, state.committed_bytes(), file.digest.size_bytes(), *writer);
        !status.ok()) {
      context.get()->TryCancel();
      writer->Finish();
      return status;
    }
  }
  writer->WritesDone();
  return toAbsl(writer->Finish());
}

absl::Status BlobClient::uploadPlaced(const File& file, const std::string& name, Cancellation& cancellation) {
  const absl::Cleanup forget = [&] { shared_.forget(name); };
  v1::UploadBlobResponse response;
  v1::UploadBlobRequest request;
  *request.mutable_digest() = file.digest;
  request.set_placed(name);
  // The server writes the data to its disk during this call.
  CallContext context(cancellation, transferTimeout(file.digest.size_bytes()));
  auto writer = stub_->UploadBlob(context.get(), &response);
  writer->Write(request);
  writer->WritesDone();
  return toAbsl(writer->Finish());
}

absl::Status BlobClient::uploadParts(const File& file, Cancellation& cancellation) {
  v1::UploadBlobResponse response;
  v1::UploadBlobRequest request;
  *request.mutable_digest() = file.digest;
  for (const File::Part& part : file.parts) {
    v1::BlobPart& described = *request.add_parts();
    if (part.is_there) described.set_sha256(part.digest.sha256());
    described.set_size_bytes(part.digest.size_bytes());
  }
  CallContext context(cancellation, transferTimeout(file.digest.size_bytes()));
  auto writer = stub_->UploadBlob(context.get(), &response);
  bool open = writer->Write(request);
  for (const File::Part& part : file.parts) {
    if (part.is_there || !open) continue;
    if (absl::Status status = sendFile(part.path, 0, part.digest.size_bytes(), *writer); !status.ok()) {
      context.get()->TryCancel();
      writer->Finish();
      return status;
    }
  }
  writer->WritesDone();
  return toAbsl(writer->Finish());
}

}  // namespace tessera::worker
