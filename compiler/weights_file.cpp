#include "compiler/weights_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/failure.h"

namespace tessera::compiler {
namespace {

absl::Status internal(const std::string& message) { return failureStatus(v1::Failure::INTERNAL, message); }

absl::Status ioFailure(const std::string& path) {
  return internal(absl::StrCat("cannot write ", path, ": ", strerror(errno)));
}

absl::Status writeAt(int fd, std::string_view bytes, int64_t offset, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return ioFailure(path);
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
  return absl::OkStatus();
}

absl::Status writeAll(int fd, const std::vector<PlannedGraph::PlacedWeight>& weights, int64_t size,
                      const std::string& path) {
  int64_t end = 0;
  for (const auto& [offset, weight] : weights) {
    const auto bytes = static_cast<int64_t>(weight.bytes.size());
    if (offset < end || bytes > size - offset) {
      return internal(absl::StrCat("weight '", weight.spec.name(), "' takes bytes ", offset, " to ", offset + bytes,
                                   "; free are ", end, " to ", size));
    }
    if (absl::Status status = writeAt(fd, weight.bytes, offset, path); !status.ok()) return status;
    end = offset + bytes;
  }
  // Also fills the end with zeros; holes in between read as zeros.
  return ftruncate(fd, size) == 0 ? absl::OkStatus() : ioFailure(path);
}

}  // namespace

absl::Status writeWeights(const std::vector<PlannedGraph::PlacedWeight>& weights, int64_t size,
                          const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return ioFailure(path);
  absl::Status status = writeAll(fd, weights, size, path);
  if (close(fd) != 0 && status.ok()) status = ioFailure(path);
  return status;
}

}  // namespace tessera::compiler
