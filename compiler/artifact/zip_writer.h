#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace tessera::compiler {

/// Writes a zip of stored entries whose bytes depend on names and contents only: no times, no users. Entries
/// can be aligned (padding is an extra field 0xd935, as zipalign and Commons Compress write it), and larger
/// than 4 GiB (Zip64). Contents are streamed. Errors carry a Failure of reason INTERNAL with the path.
class ZipWriter {
 public:
  using Observer = std::function<void(std::span<const uint8_t>)>;

  ~ZipWriter();
  ZipWriter() = default;
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  /// Creates or truncates the file. `always_zip64` writes Zip64 fields also where small numbers would do.
  absl::Status open(const std::string& path, bool always_zip64 = false);
  /// The first byte of the entry lies at a multiple of `alignment`, at most 32768.
  absl::Status add(const std::string& name, std::string_view contents, uint32_t alignment = 1);
  /// Copies a file; `observe`, when given, sees every byte in order.
  absl::Status addFile(const std::string& name, const std::string& path, uint32_t alignment, const Observer& observe);
  /// The same, but the contents stay where they are: what comes before them is in the file that was opened, what comes
  /// behind them goes to a new one, `behind`. The zip is the three one after another.
  absl::Status addApart(const std::string& name, const std::string& path, uint32_t alignment,
                        const std::string& behind);
  /// Writes the directory and closes. Flushing to the disk is left to the blob store that takes the file in.
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
  uint64_t position_ = 0;  // where the next byte goes
  uint64_t origin_ = 0;    // the position that the open file begins with
  std::vector<Entry> entries_;
};

}  // namespace tessera::compiler
