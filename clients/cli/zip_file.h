#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tessera::client {

/// What all entries of a file may have together beside kMostGrowth times its own size.
inline constexpr int64_t kSpareZipBytes = int64_t{1} << 30;
inline constexpr int64_t kMostGrowth = 16;

/// Hands every entry of a zip file to `use`, stored or deflated. INVALID_ARGUMENT names the file; it is also the answer
/// to entries that are more, all together, than the file's size lets expect: a little that is deflated may be a lot.
absl::Status forEachZipEntry(const std::string& path,
                             const std::function<absl::Status(const std::string& name, std::string bytes)>& use,
                             int64_t spare = kSpareZipBytes);

/// One entry's bytes; INVALID_ARGUMENT when the file is no zip, lacks it, or has more than `most` bytes of it.
absl::StatusOr<std::string> readZipEntry(const std::string& path, const std::string& entry, size_t most);

}  // namespace tessera::client
