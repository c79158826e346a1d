#pragma once

#include <string>

namespace tessera {

/// Replaces field names of the previous release by the present ones, in a message as text ("name: value") or as JSON
/// ("name" or the lower camel case form). Values, comments, and the number of lines stay. The readers of target
/// descriptions, exported records and `/v1` requests accept former names for one release; remove them in the next one.
std::string withPresentNamesInText(const std::string& text);
std::string withPresentNamesInJson(const std::string& json);

}  // namespace tessera
