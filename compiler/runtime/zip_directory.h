#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/runtime/status.h"

namespace tessera::compiler {

/// One stored (uncompressed) file of a zip.
struct ZipEntry {
  std::string name;
  uint64_t offset = 0;  ///< of its first byte in the zip
  uint64_t size = 0;    ///< bytes
  uint32_t crc32 = 0;   ///< as given in the directory
};

/// Reads the central directory of a zip (PKWARE APPNOTE 6.3.10, including Zip64). The bytes are untrusted: every entry
/// is checked to be stored, inside the file, disjoint from every other, consistent with its local header, and uniquely
/// named. Fails with CORRUPT. Does not read contents.
RuntimeStatus readZipDirectory(std::span<const uint8_t> file, std::vector<ZipEntry>* entries);

}  // namespace tessera::compiler
