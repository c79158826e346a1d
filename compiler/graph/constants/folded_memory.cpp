#include "compiler/graph/constants/folded_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace tessera::compiler {
namespace {

bool writeAll(int file, const char* data, int64_t size) {
  for (int64_t done = 0; done < size;) {
    const ssize_t written = pwrite(file, data + done, static_cast<size_t>(size - done), done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += written;
  }
  return true;
}

}  // namespace

DenseValue FoldedWeightStorage::keep(DenseValue value) const {
  const int64_t bytes = value.bytes();
  if (folder_.empty() || bytes < kMappedBytes || denseBytesInMemory() <= window_) return value;
  const int file = open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return value;
  void* mapped = MAP_FAILED;
  const auto size = static_cast<size_t>(bytes);
  if (writeAll(file, value.data, bytes)) mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return value;
  value.data = static_cast<const char*>(mapped);
  value.owner = std::shared_ptr<const void>(mapped, [size](const void* at) { munmap(const_cast<void*>(at), size); });
  return value;
}

}  // namespace tessera::compiler
