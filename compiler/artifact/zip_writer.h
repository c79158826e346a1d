#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace tessera::compiler {

/// Writes a zip of stored entries whose bytes depend only on names and contents: no times, no users. Entries can be
/// aligned (with padding in an extra field 0xd935, like zipalign and Commons Compress) and larger than 4 GiB (Zip64).
/// Contents are streamed. Errors carry a Failure of reason INTERNAL with the path.
class ZipWriter {
 public:
  using Observer = std::function<void(std::span<const uint8_t>)>;

  ~ZipWriter();
  ZipWriter() = default;
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  /// Creates or truncates the file. `always_zip64` writes Zip64 fields even for small numbers.
  absl::Status open(const std::string& path, bool always_zip64 = false);
  /// Aligns the first byte of the entry's contents to `alignment`, at most 32768.
  absl::Status add(const std::string& name, std::string_view contents, uint32_t alignment = 1);
  /// Copies a file; `observe`, if given, receives every byte in order.
  absl::Status addFile(const std::string& name, const std::string& path, uint32_t alignment, const Observer& observe);
  /// The same without copying the contents: the bytes before them are in the file that was opened, and the bytes after
  /// them go to a new file, `behind`. The zip is the concatenation of the three files.
  absl::Status addExternal(const std::string& name, const std::string& path, uint32_t alignment,
                           const std::string& behind);
  /// Writes the directory and closes the file. Syncing to disk is left to the blob store that takes the file.
  absl::Status finish();

 private:
  struct Entry {
    std::string name;
    uint64_t header_offset = 0;
    uint64_t size = 0;
    uint32_t crc32 = 0;
  };

  absl::Status begin(const std::string& name, uint64_t size, uint32_t alignment);
  absl::Status append(std::span<const uint8_t> contents);
  absl::Status end();
  absl::Status write(std::span<const uint8_t> bytes);
  bool wide(uint64_t value) const;

  std::string path_;
  int fd_ = -1;
  bool always_zip64_ = false;
  uint64_t position_ = 0;  // offset of the next byte in the zip
  uint64_t origin_ = 0;    // the position at which the open file begins
  std::vector<Entry> entries_;
};

}  // namespace tessera::compiler
