#include "compiler/driver/weights_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "proto/messages/failure.h"
#include "proto/support/io_failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

absl::Status internal(const std::string& message) { return failureStatus(v1::Failure::INTERNAL, message); }

absl::Status cannotWrite(const std::string& path) { return ioFailure("cannot write " + path, errno); }

absl::Status writeAt(int fd, std::string_view bytes, int64_t offset, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), offset);
    // A signal interrupted the call before it wrote anything.
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return cannotWrite(path);
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
  return absl::OkStatus();
}

constexpr int64_t kPiece = int64_t{64} << 20;
constexpr int64_t kWorthIt = int64_t{1} << 20;

absl::Status writeAll(int fd, std::vector<PlannedGraph::PlacedWeight>& weights, int64_t size, const std::string& path,
                      const std::function<void(int64_t bytes)>& written) {
  // Readers map the file. A hole for which the file system has no space would end them by SIGBUS, so all space is
  // reserved first, as zeros. A lack of space is thus reported before the first write.
  if (const int error = size > 0 ? posix_fallocate(fd, 0, size) : 0; error != 0)
    return ioFailure("cannot write " + path, error);
  int64_t end = 0, told = 0;
  for (auto& [offset, weight] : weights) {
    const auto bytes = static_cast<int64_t>(weight.bytes.size());
    if (offset < end || bytes > size - offset) {
      return internal(absl::StrCat("weight '", weight.spec.name(), "' takes bytes ", offset, " to ", offset + bytes,
                                   "; free are ", end, " to ", size));
    }
    for (int64_t done = 0; done < bytes; done += kPiece) {
      TESSERA_RETURN_IF_ERROR(writeAt(fd, weight.bytes.substr(done, kPiece), offset + done, path));
      // Starts writing back now, so that the later fsync waits less.
      if (bytes >= kWorthIt)
        (void)sync_file_range(fd, offset + done, std::min(kPiece, bytes - done), SYNC_FILE_RANGE_WRITE);
      end = offset + std::min(bytes, done + kPiece);
      if (written && end - told >= kPiece) written(told = end);
    }
    // Releases each weight once it is written, so that memory shrinks while the file grows.
    end = offset + bytes;
    weight.bytes = {};
    weight.owner.reset();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status writeWeights(std::vector<PlannedGraph::PlacedWeight> weights, int64_t size, const std::string& path,
                          const std::function<void(int64_t bytes)>& written) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return cannotWrite(path);
  absl::Status status = writeAll(fd, weights, size, path, written);
  if (close(fd) != 0 && status.ok()) status = cannotWrite(path);
  return status;
}

}  // namespace tessera::compiler
