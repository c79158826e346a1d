#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::client {

/// SHA-256 and size of some bytes.
v1::Digest digestOf(std::string_view bytes);

/// SHA-256 and size of a file.
absl::StatusOr<v1::Digest> digestOfFile(const std::string& path);

/// The same for an open file, from its beginning; `path` names it in errors.
absl::StatusOr<v1::Digest> digestOfFile(int file, const std::string& path);

/// The same, cached in `cache_folder` (empty: not cached) while the file's inode, size and times are unchanged. A file
/// that changed within the last two seconds is not cached, because a later write could leave the same times.
absl::StatusOr<v1::Digest> cachedDigestOfFile(const std::string& path, const std::string& cache_folder);

/// $XDG_CACHE_HOME/tessera/digests or ~/.cache/tessera/digests; empty when there is no home.
std::string defaultDigestCache();

}  // namespace tessera::client
