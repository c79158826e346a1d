#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// Escapes control characters (ASCII, and the Latin-1 ones that some terminals interpret) as \x1b, so that untrusted
/// text can neither control a terminal nor forge log lines. `lines` keeps line breaks and tabs.
std::string printable(std::string_view text, bool lines = false);

/// Returns a prefix of at most `most` bytes that does not split a UTF-8 character.
std::string_view firstBytes(std::string_view text, size_t most);

}  // namespace tessera
