#pragma once

#include <string_view>

namespace tessera {

/// Writes all bytes to the file descriptor `fd`. Returns false on failure, with errno set.
bool writeAll(int fd, std::string_view bytes);

}  // namespace tessera
