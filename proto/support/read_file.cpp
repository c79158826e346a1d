#include "proto/support/read_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace tessera {

absl::StatusOr<std::string> readFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const absl::Cleanup close = [file] {
    if (file >= 0) ::close(file);
  };
  std::string content;
  std::array<char, 1 << 14> chunk{};
  ssize_t got = file < 0 ? -1 : 1;
  while (got > 0 || (got < 0 && file >= 0 && errno == EINTR)) {
    got = read(file, chunk.data(), chunk.size());
    if (got > 0) content.append(chunk.data(), static_cast<size_t>(got));
  }
  if (got < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  return content;
}

}  // namespace tessera
