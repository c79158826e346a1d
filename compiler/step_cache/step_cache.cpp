#include "compiler/step_cache/step_cache.h"

#include "absl/strings/str_cat.h"
#include "proto/support/sha256.h"

namespace tessera::compiler {

std::string stepKey(std::string_view step, std::initializer_list<std::string_view> inputs) {
  Sha256 hash;
  const auto update = [&](std::string_view part) {
    // With its length, so that no two lists of parts run together to the same bytes.
    hash.update(absl::StrCat(part.size(), ":"));
    hash.update(part);
  };
  update(step);
  for (const std::string_view input : inputs) update(input);
  return hash.finish();
}

}  // namespace tessera::compiler
