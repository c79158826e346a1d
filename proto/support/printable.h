#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// Text of others for a terminal or a log: control characters (of ASCII, and those of Latin-1 that some terminals obey)
/// as
/// \x1b, so that they can neither steer the one nor forge lines of the other. `lines`: line breaks and tabs stay.
std::string printable(std::string_view text, bool lines = false);

/// The first bytes of a text, `most` of them or a few less: UTF-8 characters stay whole.
std::string_view firstBytes(std::string_view text, size_t most);

}  // namespace tessera
