#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace tessera {

/// Creates a private folder of a program (0700), and its parents. An existing folder must be empty, except for
/// lost+found and tesserad.log, or contain one of `marks`. Otherwise the call fails with FAILED_PRECONDITION and names
/// an entry that it found. Passing /tmp by mistake thus neither changes its permissions nor deletes its files. Programs
/// that start at the same time all succeed if each creates one of `marks` before any other file. A failed system call
/// returns its own error.
absl::Status createPrivateFolder(const std::string& path, std::initializer_list<std::string_view> marks);

/// Calls createPrivateFolder() for tesserad's data folder. Its mark is the lock of the database, which tesserad creates
/// first.
absl::Status createDataFolder(const std::string& path);

}  // namespace tessera
