#pragma once

#include <string_view>

namespace tessera {

/// Writes all of `bytes` where the open file `fd` is. Where that fails, errno says why.
bool writeAll(int fd, std::string_view bytes);

}  // namespace tessera
