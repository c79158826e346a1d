#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "clients/cpp/channel.h"

namespace tessera::client {

/// Called with bytes done and bytes in all.
using TransferProgress = std::function<void(int64_t done, int64_t total)>;

/// Sends a file as a blob; does nothing when the server has it. An interrupted upload goes on where the
/// server says it stopped, up to five times. `digest` must be the file's. `missing`: the server has just said that it
/// has none; what is one message then goes at once, whatever came of it before.
absl::Status uploadFile(Channel& channel, const std::string& path, const v1::Digest& digest,
                        const TransferProgress& progress = {}, bool missing = false);

/// Sends bytes at hand as a blob.
absl::Status uploadBytes(Channel& channel, std::string_view bytes, const v1::Digest& digest);

/// Gives a tensor its bytes: small ones inside the message, others as a blob that is sent now.
absl::Status attachBytes(Channel& channel, std::string bytes, v1::TensorValue& value);

/// The bytes of a tensor, fetched where they are a blob.
absl::StatusOr<std::string> bytesOf(Channel& channel, const v1::TensorValue& value);

/// The full digest, size included, of a blob that the server has. NOT_FOUND when it has none.
absl::StatusOr<v1::Digest> findBlob(Channel& channel, const std::string& sha256);

/// Fetches a blob into a file: into `path`.part first (resumed when present), hash verified, then renamed.
/// INVALID_ARGUMENT where something else than an ordinary file is at `path`.
absl::Status downloadFile(Channel& channel, const v1::Digest& digest, const std::string& path,
                          const TransferProgress& progress = {});

/// Fetches a small blob. LIMIT_EXCEEDED over 1 GiB.
absl::StatusOr<std::string> downloadBytes(Channel& channel, const v1::Digest& digest);

/// Appends a blob of any size to an empty open file, which holds other bytes than the blob's after an error.
absl::Status downloadInto(Channel& channel, const v1::Digest& digest, int file);

}  // namespace tessera::client
