#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::worker {

/// Digest of a regular file; a symbolic link or anything else is refused (FAILED_PRECONDITION), since the
/// file may come from a task that is not trusted.
absl::StatusOr<v1::Digest> digestFile(const std::string& path);

/// The same of several, one after another, and the bytes of each.
absl::StatusOr<v1::Digest> digestFiles(const std::vector<std::string>& paths, std::vector<int64_t>* sizes);

}  // namespace tessera::worker
