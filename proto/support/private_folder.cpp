#include "proto/support/private_folder.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "proto/support/printable.h"

namespace tessera {

absl::Status createPrivateFolder(const std::string& path, std::initializer_list<std::string_view> marks) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot make ", path));
  const auto ours = [&] {
    return std::any_of(marks.begin(), marks.end(), [&](std::string_view mark) {
      std::error_code ignored;
      return fs::exists(fs::path(path) / mark, ignored);
    });
  };
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    if (name == "lost+found" || name == "tesserad.log") continue;
    // Check the marks only now: a program that starts concurrently creates its mark before any other file.
    if (ours()) break;
    return absl::FailedPreconditionError(absl::StrCat(path, " contains other files (", printable(name.substr(0, 80)),
                                                      "); name an empty folder, or one that does not exist"));
  }
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot read ", path));
  fs::permissions(path, fs::perms::owner_all, error);
  return error ? absl::ErrnoToStatus(error.value(), absl::StrCat("cannot restrict access to ", path))
               : absl::OkStatus();
}

absl::Status createDataFolder(const std::string& path) {
  return createPrivateFolder(path, {"tessera.db.lock", "tessera.db", "signing.key"});
}

}  // namespace tessera
