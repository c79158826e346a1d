#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// Text as one word of a shell's command line, in single quotes where it needs them: batch=1, 'batch size=1'.
std::string shellWord(std::string_view text);

}  // namespace tessera
