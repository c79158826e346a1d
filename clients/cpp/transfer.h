#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "clients/cpp/channel.h"

namespace tessera::client {

/// Called with the bytes transferred and the total.
using TransferProgress = std::function<void(int64_t done, int64_t total)>;

/// Uploads a file as a blob; does nothing if the server has it. An interrupted upload resumes at the offset that the
/// server reports, up to five times. `digest` must be the file's. `missing`: the server has just reported the blob as
/// missing, so a file that fits one message is sent without another query.
absl::Status uploadFile(Channel& channel, const std::string& path, const v1::Digest& digest,
                        const TransferProgress& progress = {}, bool missing = false);

/// Uploads bytes in memory as a blob.
absl::Status uploadBytes(Channel& channel, std::string_view bytes, const v1::Digest& digest);

/// Stores a tensor's bytes in `value`: inside the message if they are few, otherwise as a blob that is uploaded.
absl::Status attachBytes(Channel& channel, std::string bytes, v1::TensorValue& value);

/// Returns the bytes of a tensor; downloads them if they are a blob.
absl::StatusOr<std::string> bytesOf(Channel& channel, const v1::TensorValue& value);

/// Returns the complete digest, including the size, of a blob on the server. NOT_FOUND if the server lacks it.
absl::StatusOr<v1::Digest> findBlob(Channel& channel, const std::string& sha256);

/// Downloads a blob to `path`.part (resumed if present), verifies the hash and renames. INVALID_ARGUMENT if `path`
/// exists and is not a regular file.
absl::Status downloadFile(Channel& channel, const v1::Digest& digest, const std::string& path,
                          const TransferProgress& progress = {});

/// Downloads a blob into memory. LIMIT_EXCEEDED above 1 GiB.
absl::StatusOr<std::string> downloadBytes(Channel& channel, const v1::Digest& digest);

/// Appends a blob of any size to an empty open file. After an error the file's content is unspecified.
absl::Status downloadInto(Channel& channel, const v1::Digest& digest, int file);

}  // namespace tessera::client
