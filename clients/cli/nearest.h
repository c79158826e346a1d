#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::client {

/// Returns the name that a mistyped word is closest to: at most two letters wrong, missing, added or (counted once)
/// exchanged, and most letters right. Empty if no name is that close, or if two are equally close.
std::string nearest(std::string_view word, const std::vector<std::string>& names);

}  // namespace tessera::client
