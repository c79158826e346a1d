#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace tessera::client {

/// Converts an errno of a file operation; `what` names the operation and file. A wrong path (a folder, a missing
/// folder, no permission) is INVALID_ARGUMENT, because PERMISSION_DENIED means that the service rejects the caller.
absl::Status fileError(int error, const std::string& what);

/// Returns the content of a regular file of at most `most_bytes` bytes, and nothing for larger or unreadable files; the
/// caller's next use of the path reports the error.
std::optional<std::string> readSmallFile(const std::string& path, int64_t most_bytes);

/// Checks that a file can be created or replaced at `path`, before work whose result would be lost. Devices and pipes
/// are accepted for text that is written directly. With `regular` they are rejected: a file that is written elsewhere
/// and renamed to `path` would replace the device.
absl::Status checkOutputPath(const std::string& path, bool regular = false);

/// Resolves symbolic links of `path`, also if the target does not exist yet. Renaming a temporary file to the result
/// has the same effect as writing through the link.
std::string resolveLinks(const std::string& path);

}  // namespace tessera::client
