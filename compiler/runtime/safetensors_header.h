#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/runtime/status.h"

namespace tessera::compiler {

/// A tensor as the header of a safetensors file states it; offsets are relative to the end of the header.
struct SafetensorsEntry {
  std::string name, dtype;
  std::vector<int64_t> shape;  ///< no negative extents
  uint64_t begin = 0, end = 0;
};

/// Parses the JSON of a header; leaves out "__metadata__". Fails with CORRUPT and the position of the error. Untrusted
/// text: the recursion is bounded, and numbers that do not fit are errors.
RuntimeStatus parseSafetensorsHeader(std::string_view text, std::vector<SafetensorsEntry>* entries);

}  // namespace tessera::compiler
