#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera::compiler {

/// Links relocatable objects into a shared library that exports `exported_symbol` only, needs no other library and has
/// no undefined symbol. Returns the library's bytes. Runs lld within this process, one link at a time. Objects and
/// temporary files are written to `folder`, which must exist; the library itself is not written to a file. The result
/// depends only on the objects and their order. Fails with INTERNAL and lld's message.
absl::StatusOr<std::string> linkShared(const std::vector<std::string>& objects, const std::string& exported_symbol,
                                       const std::string& folder);

}  // namespace tessera::compiler
