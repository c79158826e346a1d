#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tessera::client {

/// Allowance for all entries of a file together, in addition to kMaxGrowth times the file's size.
inline constexpr int64_t kSpareZipBytes = int64_t{1} << 30;
inline constexpr int64_t kMaxGrowth = 16;

/// Passes every entry of a zip file to `use`, stored or deflated. INVALID_ARGUMENT names the file. The same error
/// limits the total size of the entries, since a small deflated file can expand to a huge one.
absl::Status forEachZipEntry(const std::string& path,
                             const std::function<absl::Status(const std::string& name, std::string bytes)>& use,
                             int64_t spare = kSpareZipBytes);

/// Returns one entry's bytes. INVALID_ARGUMENT if the file is not a zip file, lacks the entry, or the entry exceeds
/// `most` bytes.
absl::StatusOr<std::string> readZipEntry(const std::string& path, const std::string& entry, size_t most);

}  // namespace tessera::client
