#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace tessera {

/// Makes a folder that a program has for itself (0700), with those above it. One that is there has to be empty, but for
/// lost+found and a tesserad.log, or to hold one of `marks`: FAILED_PRECONDITION names what lies there instead. So
/// nobody is shut out of /tmp, and nothing there removed, by who names it. Of programs that start at the same moment
/// none is refused if each makes one of `marks` before any other file. What a system call refused is that call's error.
absl::Status makeOwnFolder(const std::string& path, std::initializer_list<std::string_view> marks);

/// makeOwnFolder() for the data of a tesserad, which takes the lock of its database before it makes any other file.
absl::Status makeDataFolder(const std::string& path);

}  // namespace tessera
