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
  uint32_t crc32 = 0;   ///< as the directory claims
};

/// Reads the central directory of a zip (PKWARE APPNOTE 6.3.10; Zip64 included). The bytes are untrusted:
/// every entry is checked to be stored, inside the file, disjoint from every other, described equally by its
/// local header, and named once. Fails with CORRUPT. Contents are not read.
RuntimeStatus readZipDirectory(std::span<const uint8_t> file, std::vector<ZipEntry>* entries);

}  // namespace tessera::compiler
