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

/// The same of an open file, from its begin; `path` is its name in errors.
absl::StatusOr<v1::Digest> digestOfFile(int file, const std::string& path);

/// The same, remembered between calls below `cache_folder` (empty: not remembered) for as long as the file's
/// inode, size and times are unchanged. A file changed within the last two seconds is not remembered: a later
/// write could leave the same times.
absl::StatusOr<v1::Digest> cachedDigestOfFile(const std::string& path, const std::string& cache_folder);

/// $XDG_CACHE_HOME/tessera/digests or ~/.cache/tessera/digests; empty when there is no home.
std::string defaultDigestCache();

}  // namespace tessera::client
