#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tessera::compiler {

/// A zip with stored entries, as artifacts are, in memory.
inline std::vector<uint8_t> storedZip(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::vector<uint8_t> zip, directory;
  const auto number = [](std::vector<uint8_t>& to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) to.push_back(static_cast<uint8_t>(value >> (8 * i)));
  };
  const auto append = [](std::vector<uint8_t>& to, const std::string& text) {
    to.insert(to.end(), text.begin(), text.end());
  };
  // The fields that the local header and the directory share.
  const auto common = [&](std::vector<uint8_t>& to, const std::string& name, const std::string& content) {
    number(to, 20, 2);  // version needed
    number(to, 0, 2);   // flags
    number(to, 0, 2);   // stored
    number(to, 0, 4);   // time and date
    number(to, crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())), 4);
    number(to, content.size(), 4);
    number(to, content.size(), 4);
    number(to, name.size(), 2);
    number(to, 0, 2);  // extra field
  };
  for (const auto& [name, content] : entries) {
    const size_t offset = zip.size();
    number(zip, 0x04034b50, 4);
    common(zip, name, content);
    append(zip, name);
    append(zip, content);
    number(directory, 0x02014b50, 4);
    number(directory, 20, 2);  // version made by
    common(directory, name, content);
    number(directory, 0, 2);  // comment
    number(directory, 0, 2);  // disk
    number(directory, 0, 2);  // internal attributes
    number(directory, 0, 4);  // external attributes
    number(directory, offset, 4);
    append(directory, name);
  }
  const size_t start = zip.size();
  zip.insert(zip.end(), directory.begin(), directory.end());
  number(zip, 0x06054b50, 4);
  number(zip, 0, 4);  // disks
  number(zip, entries.size(), 2);
  number(zip, entries.size(), 2);
  number(zip, directory.size(), 4);
  number(zip, start, 4);
  number(zip, 0, 2);  // comment
  return zip;
}

}  // namespace tessera::compiler
