#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace tessera::client {

/// What kept this program from a file, named by `what`. Where the path is to blame (a folder, no folder, no
/// permission), INVALID_ARGUMENT: PERMISSION_DENIED is the service's word about a caller.
absl::Status fileError(int error, const std::string& what);

/// The bytes of a file that has at most `most_bytes` of them. Nothing of any other, or where there is none that can be
/// read: who goes on with its name says why.
std::optional<std::string> readSmallFile(const std::string& path, int64_t most_bytes);

/// Whether a file can be made at `path` or take the place of one there, asked before work whose result would be lost.
/// Devices and pipes will do for text that is written in one go; not where a file is made beside it and renamed, which
/// would take the device's own place: `regular`.
absl::Status checkOutputPath(const std::string& path, bool regular = false);

/// The file that is meant by `path`: where links lead, though nothing be there yet. What is made beside and renamed
/// takes that file's place, as writing through the link would.
std::string behindLinks(const std::string& path);

}  // namespace tessera::client
