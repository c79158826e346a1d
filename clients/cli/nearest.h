#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::client {

/// The name that a mistyped word is meant for: at most two letters are wrong, missing, too many or (as one) exchanged,
/// and most are right. Empty: none is that near, or two are equally.
std::string nearest(std::string_view word, const std::vector<std::string>& names);

}  // namespace tessera::client
