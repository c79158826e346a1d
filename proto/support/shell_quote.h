#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// Quotes text as one word of a shell command line, only where needed: batch=1, 'batch size=1'.
std::string shellQuote(std::string_view text);

}  // namespace tessera
