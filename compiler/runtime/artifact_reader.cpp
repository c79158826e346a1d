#include "compiler/runtime/artifact_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>

namespace tessera::compiler {

RuntimeStatus ArtifactFile::open(const std::string& path, ArtifactFile* file) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO does not block
  if (fd < 0) return systemError("open " + path, errno);
  RuntimeStatus status = openFd(fd, file);
  // A mapping outlives its descriptor.
  close(fd);
  if (!status.ok()) return {status.code(), path + ": " + status.message()};
  return status;
}

RuntimeStatus ArtifactFile::openFd(int fd, ArtifactFile* file) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return systemError("fstat of the artifact", errno);
  if (!S_ISREG(info.st_mode)) return runtimeError(TESSERA_IO_ERROR, "the artifact is not a regular file");
  // mmap refuses a length of 0, with an error that says nothing about the file.
  if (info.st_size == 0) return runtimeError(TESSERA_CORRUPT, "not a valid artifact: the file is empty");
  const size_t size = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return systemError("map the artifact", errno);
  file->mapping_ = std::shared_ptr<const void>(data, [size](const void* p) { munmap(const_cast<void*>(p), size); });
  file->bytes_ = {static_cast<const uint8_t*>(data), size};
  return file->readDirectory();
}

RuntimeStatus ArtifactFile::fromMemory(std::span<const uint8_t> bytes, ArtifactFile* file) {
  file->mapping_.reset();
  file->bytes_ = bytes;
  return file->readDirectory();
}

RuntimeStatus ArtifactFile::readDirectory() { return readZipDirectory(bytes_, &entries_); }

const ZipEntry* ArtifactFile::find(std::string_view name) const {
  for (const ZipEntry& entry : entries_) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

RuntimeStatus ArtifactFile::read(std::string_view name, std::span<const uint8_t>* contents) const {
  const ZipEntry* entry = find(name);
  if (!entry) return {TESSERA_CORRUPT, "not a valid artifact: it has no '" + std::string(name) + "'"};
  const std::span<const uint8_t> found = bytes(*entry);
  if (crc32_z(0, found.data(), found.size()) != entry->crc32) {
    return {TESSERA_CORRUPT, "the artifact is damaged: the checksum of '" + std::string(name) + "' does not hold"};
  }
  *contents = found;
  return {};
}

RuntimeStatus ArtifactFile::readText(std::string_view name, std::string* contents) const {
  std::span<const uint8_t> found;
  if (RuntimeStatus status = read(name, &found); !status.ok()) return status;
  contents->assign(reinterpret_cast<const char*>(found.data()), found.size());
  return {};
}

}  // namespace tessera::compiler
