#include "compiler/artifact/zip_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "proto/support/io_failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

// PKWARE APPNOTE 6.3.10, sections 4.3 and 4.5.
constexpr uint32_t kIn64 = 0xffffffff;
constexpr uint16_t kIn64Short = 0xffff;
constexpr uint16_t kZip64Extra = 0x0001;
constexpr uint16_t kAlignmentExtra = 0xd935;
constexpr uint16_t kVersionStored = 10, kVersionZip64 = 45;
constexpr uint16_t kMadeOnUnix = 3 << 8;
constexpr uint32_t kRegularFile0644 = 0100644u << 16;
constexpr uint16_t kFirstOfJanuary1980 = 0x21;  // the earliest date a zip can hold
constexpr uint64_t kCrcOffset = 14;             // within a local header

/// Little-endian fields in sequence.
class Fields {
 public:
  Fields& u16(uint64_t value) { return put(value, 2); }
  Fields& u32(uint64_t value) { return put(value, 4); }
  Fields& u64(uint64_t value) { return put(value, 8); }
  Fields& text(const std::string& text) {
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    return *this;
  }
  Fields& append(const Fields& other) {
    bytes_.insert(bytes_.end(), other.bytes_.begin(), other.bytes_.end());
    return *this;
  }
  Fields& zeros(uint64_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }
  uint64_t size() const { return bytes_.size(); }
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  Fields& put(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_.push_back(static_cast<uint8_t>(value >> (8 * i)));
    return *this;
  }
  std::vector<uint8_t> bytes_;
};

/// The CRC-32 of a file's first `size` bytes, computed in pieces on all cores.
absl::Status checksum(int source, const std::string& path, uint64_t size, uint32_t& crc) {
  constexpr uint64_t kPiece = uint64_t{16} << 20;
  constexpr size_t kChunk = size_t{1} << 20;
  std::vector<uint32_t> pieces((size + kPiece - 1) / kPiece, static_cast<uint32_t>(crc32(0, nullptr, 0)));
  std::atomic<size_t> next = 0;
  std::atomic<int> failed = 0;
  auto work = [&] {
    std::vector<uint8_t> chunk(kChunk);
    // Threads take pieces from a common counter until all are done or one fails.
    for (size_t i = next++; i < pieces.size() && failed == 0; i = next++) {
      const uint64_t end = std::min(size, (i + 1) * kPiece);
      for (uint64_t at = i * kPiece; at < end;) {
        const ssize_t count = pread(source, chunk.data(), std::min<uint64_t>(kChunk, end - at), static_cast<off_t>(at));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) {
          failed = count < 0 ? errno : EIO;
          return;
        }
        pieces[i] = static_cast<uint32_t>(crc32_z(pieces[i], chunk.data(), static_cast<size_t>(count)));
        at += static_cast<uint64_t>(count);
      }
    }
  };
  std::vector<std::thread> threads;
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  try {
    while (threads.size() + 1 < std::min(cores, pieces.size())) threads.emplace_back(work);
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): no more threads; fewer compute the same
  }
  work();
  for (std::thread& thread : threads) thread.join();
  if (failed != 0) return ioFailure("cannot read " + path, failed);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const uint64_t length = std::min(size, (i + 1) * kPiece) - i * kPiece;
    // In the order of the file: the combination is not commutative.
    crc = static_cast<uint32_t>(crc32_combine64(crc, pieces[i], static_cast<z_off64_t>(length)));
  }
  return absl::OkStatus();
}

}  // namespace

ZipWriter::~ZipWriter() {
  if (fd_ >= 0) close(fd_);
}

absl::Status ZipWriter::open(const std::string& path, bool always_zip64) {
  path_ = path;
  always_zip64_ = always_zip64;
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  return fd_ >= 0 ? absl::OkStatus() : ioFailure("cannot create " + path, errno);
}

bool ZipWriter::wide(uint64_t value) const { return always_zip64_ || value >= kIn64; }

absl::Status ZipWriter::write(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(position_ - origin_));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return ioFailure("cannot write " + path_, written < 0 ? errno : ENOSPC);
    position_ += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status ZipWriter::begin(const std::string& name, uint64_t size, uint32_t alignment) {
  constexpr uint64_t kFixedBytes = 30, kAlignmentFieldBytes = 6;
  entries_.push_back({name, position_, size, static_cast<uint32_t>(crc32(0, nullptr, 0))});
  Fields extra;
  if (wide(size)) extra.u16(kZip64Extra).u16(16).u64(size).u64(size);
  if (alignment > 1) {
    // Pads the extra field so that the contents begin at a multiple of the alignment.
    const uint64_t contents = position_ + kFixedBytes + name.size() + extra.size() + kAlignmentFieldBytes;
    const uint64_t padding = (alignment - contents % alignment) % alignment;
    extra.u16(kAlignmentExtra).u16(2 + padding).u16(alignment).zeros(padding);
  }
  const uint64_t short_size = wide(size) ? kIn64 : size;
  Fields header;
  header.u32(0x04034b50).u16(wide(size) ? kVersionZip64 : kVersionStored).u16(0).u16(0);
  header.u16(0).u16(kFirstOfJanuary1980).u32(0).u32(short_size).u32(short_size);  // the checksum follows in end()
  header.u16(name.size()).u16(extra.size()).text(name).append(extra);
  return write(header.bytes());
}

absl::Status ZipWriter::append(std::span<const uint8_t> contents) {
  Entry& entry = entries_.back();
  entry.crc32 = static_cast<uint32_t>(crc32_z(entry.crc32, contents.data(), contents.size()));
  return write(contents);
}

absl::Status ZipWriter::end() {
  const Entry& entry = entries_.back();
  const uint64_t after = position_;
  // Goes back to fill in the checksum, which is known only now.
  position_ = entry.header_offset + kCrcOffset;
  absl::Status status = write(Fields().u32(entry.crc32).bytes());
  position_ = after;
  return status;
}

absl::Status ZipWriter::add(const std::string& name, std::string_view contents, uint32_t alignment) {
  TESSERA_RETURN_IF_ERROR(begin(name, contents.size(), alignment));
  absl::Status status = append({reinterpret_cast<const uint8_t*>(contents.data()), contents.size()});
  return status.ok() ? end() : status;
}

absl::Status ZipWriter::addFile(const std::string& name, const std::string& path, uint32_t alignment,
                                const Observer& observe) {
  constexpr size_t kChunk = size_t{1} << 20;
  const int source = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (source < 0) return ioFailure("cannot open " + path, errno);
  struct stat info{};
  absl::Status status = fstat(source, &info) == 0 ? absl::OkStatus() : ioFailure("cannot read " + path, errno);
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  if (status.ok()) status = begin(name, size, alignment);
  std::vector<uint8_t> chunk(std::min<uint64_t>(kChunk, std::max<uint64_t>(size, 1)));
  for (uint64_t left = size; status.ok() && left > 0;) {
    const ssize_t count = read(source, chunk.data(), std::min<uint64_t>(chunk.size(), left));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      status = ioFailure("cannot read " + path, count < 0 ? errno : EIO);
      break;
    }
    const std::span<const uint8_t> contents(chunk.data(), static_cast<size_t>(count));
    if (observe) observe(contents);
    status = append(contents);
    left -= static_cast<uint64_t>(count);
  }
  close(source);
  return status.ok() ? end() : status;
}

absl::Status ZipWriter::addExternal(const std::string& name, const std::string& path, uint32_t alignment,
                                    const std::string& behind) {
  const int source = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (source < 0) return ioFailure("cannot open " + path, errno);
  const absl::Cleanup close_source = [source] { close(source); };
  struct stat info{};
  if (fstat(source, &info) != 0) return ioFailure("cannot read " + path, errno);
  const auto size = static_cast<uint64_t>(info.st_size);
  TESSERA_RETURN_IF_ERROR(begin(name, size, alignment));
  TESSERA_RETURN_IF_ERROR(checksum(source, path, size, entries_.back().crc32));
  TESSERA_RETURN_IF_ERROR(end());
  position_ += size;
  // The rest of the zip goes into the second file; offsets continue as if the weights were in between.
  if (close(std::exchange(fd_, -1)) != 0) return ioFailure("cannot close " + path_, errno);
  path_ = behind;
  origin_ = position_;
  fd_ = ::open(behind.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  return fd_ >= 0 ? absl::OkStatus() : ioFailure("cannot create " + behind, errno);
}

absl::Status ZipWriter::finish() {
  const uint64_t directory = position_;
  Fields fields;
  for (const Entry& entry : entries_) {
    Fields extra;
    if (wide(entry.size)) extra.u64(entry.size).u64(entry.size);
    if (wide(entry.header_offset)) extra.u64(entry.header_offset);
    Fields zip64;
    if (extra.size() > 0) zip64.u16(kZip64Extra).u16(extra.size()).append(extra);
    const uint16_t version = zip64.size() > 0 ? kVersionZip64 : kVersionStored;
    const uint64_t size = wide(entry.size) ? kIn64 : entry.size;
    fields.u32(0x02014b50).u16(kMadeOnUnix | kVersionZip64).u16(version).u16(0).u16(0);
    fields.u16(0).u16(kFirstOfJanuary1980).u32(entry.crc32).u32(size).u32(size);
    fields.u16(entry.name.size()).u16(zip64.size()).u16(0).u16(0).u16(0).u32(kRegularFile0644);
    fields.u32(wide(entry.header_offset) ? kIn64 : entry.header_offset).text(entry.name).append(zip64);
  }
  const uint64_t size = fields.size(), count = entries_.size();
  const bool zip64 = wide(directory) || wide(size);
  if (zip64) {
    const uint64_t end64 = directory + size;
    fields.u32(0x06064b50).u64(44).u16(kMadeOnUnix | kVersionZip64).u16(kVersionZip64).u32(0).u32(0);
    fields.u64(count).u64(count).u64(size).u64(directory);
    fields.u32(0x07064b50).u32(0).u64(end64).u32(1);
  }
  const uint64_t short_count = zip64 ? kIn64Short : count;
  fields.u32(0x06054b50).u16(0).u16(0).u16(short_count).u16(short_count);
  fields.u32(zip64 ? kIn64 : size).u32(zip64 ? kIn64 : directory).u16(0);
  TESSERA_RETURN_IF_ERROR(write(fields.bytes()));
  return close(std::exchange(fd_, -1)) == 0 ? absl::OkStatus() : ioFailure("cannot close " + path_, errno);
}

}  // namespace tessera::compiler
