#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera::compiler {

/// Links relocatable objects into a shared library that exports `exported_symbol` and nothing else, needs no
/// other library and has no undefined symbol. Returns the library's bytes. Runs lld within this process; one link at a
/// time. Objects and all temporary files are put in `folder`, which must exist; the library itself is in no file.
/// The result depends on the objects and their order only. Fails with INTERNAL and lld's words.
absl::StatusOr<std::string> linkShared(const std::vector<std::string>& objects, const std::string& exported_symbol,
                                       const std::string& folder);

}  // namespace tessera::compiler
