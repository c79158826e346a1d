#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tessera::compiler {

/// Links relocatable objects into a shared library that exports `exported_symbol` and nothing else, needs no
/// other library and has no undefined symbol. Runs lld within this process; one link at a time. Objects and
/// all temporary files are put in `folder`, which must exist; the library is `folder`/code.so.
/// The result depends on the objects and their order only. Fails with INTERNAL and lld's words.
absl::Status linkShared(const std::vector<std::string>& objects, const std::string& exported_symbol,
                        const std::string& folder);

}  // namespace tessera::compiler
