#include "clients/cpp/transfer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/cpp/digest.h"
#include "clients/cpp/local_file.h"
#include "proto/messages/failure.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "proto/support/write_all.h"

namespace tessera::client {
namespace {

constexpr int64_t kChunk = 1 << 20;
constexpr int kAttempts = 5;
constexpr std::chrono::milliseconds kFirstPause(100), kLongestPause(2000);
constexpr std::chrono::minutes kOthersUpload(10);  // limit of another client's upload of the same blob
constexpr int64_t kMaxInMemory = 1 << 30;

bool worthAnotherTry(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status) || absl::IsDeadlineExceeded(status);
}

// FAILED_PRECONDITION: another client's upload of the same blob ended after the query, so the offset is not valid now.
bool uploadIsWorthAnotherTry(const absl::Status& status) {
  return worthAnotherTry(status) || absl::IsFailedPrecondition(status);
}

// Waits for an unanswered server; `status` is the result of the call. OK: try again.
absl::Status waitFor(const Channel& channel, RetryState& patience, const absl::Status& status) {
  TESSERA_RETURN_IF_ERROR(channel.ended());
  return patience.wait() ? absl::OkStatus() : status;
}

// Uploads `in`. With a query before, resumes at the offset that the server reports.
absl::Status uploadOnce(Channel& channel, std::istream& in, const v1::Digest& digest, const TransferProgress& progress,
                        bool ask, RetryState& patience, int64_t& committed) {
  int64_t done = 0;
  if (ask) {
    v1::QueryUploadRequest query;
    *query.mutable_digest() = digest;
    TESSERA_ASSIGN_OR_RETURN(
        auto state, channel.call(channel.blobs(), &v1::BlobService::Stub::QueryUpload, query, {.attempts = 1}));
    if (state.complete()) return absl::OkStatus();
    done = state.committed_bytes();
    // The server stored more bytes since the last attempt: it makes progress, so the wait restarts.
    if (done > committed) patience.answered();
    committed = done;
  }

  grpc::ClientContext context;
  v1::UploadBlobResponse response;
  auto writer = channel.blobs().UploadBlob(&context, &response);
  v1::UploadBlobRequest request;
  *request.mutable_digest() = digest;
  // The first message carries the offset, all further ones only data.
  request.set_offset(done);
  bool open = writer->Write(request);
  request.Clear();

  in.clear();
  in.seekg(done);
  std::string chunk(static_cast<size_t>(std::min(kChunk, digest.size_bytes())), '\0');
  while (open && done < digest.size_bytes()) {
    in.read(chunk.data(), std::min<int64_t>(kChunk, digest.size_bytes() - done));
    const auto got = in.gcount();
    if (got <= 0) {
      context.TryCancel();
      writer->Finish();
      return absl::DataLossError("the file became shorter while it was being sent; send it again");
    }
    request.set_data(chunk.data(), static_cast<size_t>(got));
    open = writer->Write(request);
    done += got;
    if (progress) progress(done, digest.size_bytes());
  }
  if (open) writer->WritesDone();
  const grpc::Status status = writer->Finish();
  return status.ok() ? absl::OkStatus() : fromGrpc(status);
}

absl::Status upload(Channel& channel, std::istream& in, const v1::Digest& digest, const TransferProgress& progress,
                    bool missing) {
  absl::Status status;
  auto pause = kFirstPause;
  auto others_until = std::chrono::steady_clock::now() + kOthersUpload;
  // A blob of one chunk is sent at once: querying its state would cost as much as sending it.
  bool ask = !missing || digest.size_bytes() > kChunk;
  RetryState patience(channel);
  int64_t committed = 0;
  for (int attempt = 0; attempt < kAttempts;) {
    status = uploadOnce(channel, in, digest, progress, ask, patience, committed);
    ask = true;
    if (status.ok() || !uploadIsWorthAnotherTry(status)) return status;
    if (absl::IsUnavailable(status)) {
      TESSERA_RETURN_IF_ERROR(waitFor(channel, patience, status));
      continue;
    }
    // ABORTED: another client is uploading the same blob. Its upload completes or is abandoned.
    const bool wait = absl::IsAborted(status) && std::chrono::steady_clock::now() < others_until;
    attempt += wait ? 0 : 1;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  return status;
}

// The partial file is kept: after a full disk, the next download resumes.
absl::Status cannotKeep(int error, const std::string& part, int64_t done, int64_t total) {
  return fileError(error, absl::StrCat("cannot write ", part, " beyond ", done, " of ", total,
                                       " bytes, which stay there for the next try to go on from"));
}

using Keep = std::function<absl::Status(const std::string& chunk)>;

// Passes the blob's bytes from `offset` on to `keep`, in order. An error of `keep` ends the download.
absl::Status downloadFrom(Channel& channel, const v1::Digest& digest, int64_t offset, RetryState& patience,
                          const Keep& keep) {
  grpc::ClientContext context;
  v1::DownloadBlobRequest request;
  request.set_sha256(digest.sha256());
  request.set_offset(offset);
  auto reader = channel.blobs().DownloadBlob(&context, request);
  v1::DownloadBlobResponse chunk;
  while (reader->Read(&chunk)) {
    patience.answered();
    if (absl::Status kept = keep(chunk.data()); !kept.ok()) {
      context.TryCancel();
      reader->Finish();
      return kept;
    }
  }
  const grpc::Status status = reader->Finish();
  return status.ok() ? absl::OkStatus() : fromGrpc(status);
}

// Appends the blob's bytes from `offset` on to `out`, the file `part`.
absl::Status appendFrom(Channel& channel, const v1::Digest& digest, int64_t offset, std::ostream& out,
                        const std::string& part, const TransferProgress& progress, Sha256& hash, RetryState& patience) {
  int64_t done = offset;
  return downloadFrom(channel, digest, offset, patience, [&](const std::string& chunk) {
    out.write(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    if (!out) return cannotKeep(errno, part, done, digest.size_bytes());
    hash.update(chunk);
    done += static_cast<int64_t>(chunk.size());
    if (progress) progress(done, digest.size_bytes());
    return absl::OkStatus();
  });
}

absl::Status otherBytes(const v1::Digest& digest) {
  return absl::DataLossError(absl::StrCat("the downloaded blob ", digest.sha256(), " does not match its digest"));
}

// Passes a whole blob to `keep` and verifies the digest. Resumes after a broken connection.
absl::Status downloadWhole(Channel& channel, const v1::Digest& digest, const Keep& keep) {
  int64_t done = 0;
  Sha256 hash;
  RetryState patience(channel);
  while (done < digest.size_bytes()) {
    absl::Status status = downloadFrom(channel, digest, done, patience, [&](const std::string& chunk) -> absl::Status {
      done += static_cast<int64_t>(chunk.size());
      // Never keep more than the announced size.
      if (done > digest.size_bytes()) return otherBytes(digest);
      hash.update(chunk);
      return keep(chunk);
    });
    if (status.ok()) break;
    if (!absl::IsUnavailable(status)) return status;
    TESSERA_RETURN_IF_ERROR(waitFor(channel, patience, status));
  }
  return hash.finish() == digest.sha256() ? absl::OkStatus() : otherBytes(digest);
}

}  // namespace

absl::Status uploadFile(Channel& channel, const std::string& path, const v1::Digest& digest,
                        const TransferProgress& progress, bool missing) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fileError(errno, absl::StrCat("cannot open ", path));
  return upload(channel, in, digest, progress, missing);
}

absl::Status uploadBytes(Channel& channel, std::string_view bytes, const v1::Digest& digest) {
  std::istringstream in{std::string(bytes)};
  return upload(channel, in, digest, {}, false);
}

absl::StatusOr<v1::Digest> findBlob(Channel& channel, const std::string& sha256) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  v1::DownloadBlobRequest request;
  request.set_sha256(sha256);
  request.set_limit(1);  // the first message states the total size
  auto reader = channel.blobs().DownloadBlob(&context, request);
  v1::Digest digest;
  digest.set_sha256(sha256);
  v1::DownloadBlobResponse response;
  if (reader->Read(&response)) digest.set_size_bytes(response.total_bytes());
  while (reader->Read(&response)) {
  }
  if (const grpc::Status status = reader->Finish(); !status.ok()) return fromGrpc(status);
  return digest;
}

absl::Status downloadFile(Channel& channel, const v1::Digest& digest, const std::string& path,
                          const TransferProgress& progress) {
  namespace fs = std::filesystem;
  TESSERA_RETURN_IF_ERROR(checkOutputPath(path, /*regular=*/true));
  const std::string file = resolveLinks(path), part = absl::StrCat(file, ".part");
  absl::Status status;
  RetryState patience(channel);
  for (int attempt = 0; attempt < kAttempts;) {
    std::error_code error;
    int64_t have = fs::exists(part, error) ? static_cast<int64_t>(fs::file_size(part, error)) : 0;
    // A longer partial file belongs to another blob.
    if (have > digest.size_bytes()) {
      fs::remove(part, error);
      have = 0;
    }
    std::ofstream out(part, std::ios::binary | std::ios::app);
    if (!out) return fileError(errno, absl::StrCat("cannot write ", part));
    Sha256 hash;  // of bytes received from offset 0, which need not be read again
    status = have == digest.size_bytes() ? absl::OkStatus()
                                         : appendFrom(channel, digest, have, out, part, progress, hash, patience);
    out.close();
    // Closing flushes: a full disk may appear only here.
    if (status.ok() && !out) return cannotKeep(errno, part, have, digest.size_bytes());
    if (status.ok()) {
      absl::StatusOr<v1::Digest> got;
      if (have == 0 && digest.size_bytes() > 0 &&
          static_cast<int64_t>(fs::file_size(part, error)) == digest.size_bytes()) {  // no other process wrote to it
        got = v1::Digest();
        got->set_sha256(hash.finish());
      } else {
        got = digestOfFile(part);
      }
      if (!got.ok()) return got.status();
      if (got->sha256() == digest.sha256()) {
        fs::rename(part, file, error);
        if (error) return fileError(error.value(), absl::StrCat("cannot rename ", part, " to ", file));
        return absl::OkStatus();
      }
      // The bytes that were there before the resume are no prefix of this blob: start over.
      fs::remove(part, error);
      status = otherBytes(digest);
      ++attempt;
      continue;
    }
    if (absl::IsUnavailable(status)) {
      TESSERA_RETURN_IF_ERROR(waitFor(channel, patience, status));
      continue;
    }
    if (!worthAnotherTry(status)) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(100 << attempt++));
  }
  return status;
}

absl::StatusOr<std::string> downloadBytes(Channel& channel, const v1::Digest& digest) {
  if (digest.size_bytes() > kMaxInMemory) {
    return failureStatus(v1::Failure::LIMIT_EXCEEDED, absl::StrCat("blob ", digest.sha256(), " has ",
                                                                   digest.size_bytes(), " bytes; save it to a file"));
  }
  std::string bytes;
  bytes.reserve(static_cast<size_t>(std::max<int64_t>(0, digest.size_bytes())));
  absl::Status status = downloadWhole(channel, digest, [&](const std::string& chunk) {
    bytes += chunk;
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return bytes;
}

absl::Status downloadInto(Channel& channel, const v1::Digest& digest, int file) {
  int64_t done = 0;
  return downloadWhole(channel, digest, [&](const std::string& chunk) -> absl::Status {
    if (!writeAll(file, chunk))
      return fileError(errno, absl::StrCat("cannot keep more than ", done, " of ", digest.size_bytes(), " bytes"));
    done += static_cast<int64_t>(chunk.size());
    return absl::OkStatus();
  });
}

absl::Status attachBytes(Channel& channel, std::string bytes, v1::TensorValue& value) {
  constexpr size_t kInlineBytes = 1 << 20;  // the limit of TensorValue.data
  if (bytes.size() <= kInlineBytes) {
    value.set_data(std::move(bytes));
    return absl::OkStatus();
  }
  *value.mutable_blob() = digestOf(bytes);
  return uploadBytes(channel, bytes, value.blob());
}

absl::StatusOr<std::string> bytesOf(Channel& channel, const v1::TensorValue& value) {
  if (!value.has_blob()) return value.data();
  return downloadBytes(channel, value.blob());
}

}  // namespace tessera::client
