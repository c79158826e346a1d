#include "compiler/step_cache/step_cache.h"

#include "absl/strings/str_cat.h"
#include "proto/support/sha256.h"

namespace tessera::compiler {

std::string stepKey(std::string_view step, std::initializer_list<std::string_view> inputs) {
  Sha256 hash;
  const auto update = [&](std::string_view part) {
    // Each part is preceded by its length, so that different lists of parts never hash the same bytes.
    hash.update(absl::StrCat(part.size(), ":"));
    hash.update(part);
  };
  update(step);
  for (const std::string_view input : inputs) update(input);
  return hash.finish();
}

}  // namespace tessera::compiler
