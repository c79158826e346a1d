// Arbitrary bytes as FILE.sig of an artifact: rejected, or a signature that prints as it was read and whose check
// terminates.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "proto/signing/artifact_signature.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto read = tessera::parseSignature({reinterpret_cast<const char*>(data), size});
  if (!read.ok()) return absl::IsInvalidArgument(read.status()) ? 0 : (abort(), 0);
  const auto again = tessera::parseSignature(tessera::printSignature(*read));
  if (!again.ok() || again->sha256 != read->sha256 || again->public_key != read->public_key ||
      again->signature != read->signature || tessera::verifies(*again) != tessera::verifies(*read)) {
    abort();
  }
  return 0;
}
