#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::worker {

/// Digest of a regular file. FAILED_PRECONDITION for a symbolic link or any other kind of file, since an untrusted task
/// may have created it.
absl::StatusOr<v1::Digest> digestFile(const std::string& path);

/// Digest of the concatenation of several files; `sizes` receives the size of each.
absl::StatusOr<v1::Digest> digestFiles(const std::vector<std::string>& paths, std::vector<int64_t>* sizes);

}  // namespace tessera::worker
