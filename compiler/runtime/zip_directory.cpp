#include "compiler/runtime/zip_directory.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

namespace tessera::compiler {
namespace {

constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint32_t kCentralSignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kEnd64LocatorSignature = 0x07064b50;
constexpr uint64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kEnd64LocatorBytes = 20;
constexpr uint16_t kZip64Extra = 0x0001;
constexpr uint32_t kIn64 = 0xffffffff;  // the value is in the Zip64 field
constexpr uint64_t kMaxEntries = 1024;
constexpr uint64_t kMaxComment = 0xffff;
constexpr uint64_t kMaxNameBytes = 255;

/// Little-endian reads at offsets that the caller has checked with has().
class Bytes {
 public:
  explicit Bytes(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  uint64_t size() const { return bytes_.size(); }
  bool has(uint64_t offset, uint64_t length) const { return offset <= size() && length <= size() - offset; }
  uint16_t u16(uint64_t at) const { return static_cast<uint16_t>(bytes_[at] | bytes_[at + 1] << 8); }
  uint32_t u32(uint64_t at) const { return u16(at) | static_cast<uint32_t>(u16(at + 2)) << 16; }
  uint64_t u64(uint64_t at) const { return u32(at) | static_cast<uint64_t>(u32(at + 4)) << 32; }
  std::string text(uint64_t at, uint64_t length) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + at, length};
  }

 private:
  std::span<const uint8_t> bytes_;
};

RuntimeStatus corrupt(const char* what) { return runtimeError(TESSERA_CORRUPT, "not a valid artifact: %s", what); }
RuntimeStatus corruptEntry(const std::string& name, const char* what) {
  return runtimeError(TESSERA_CORRUPT, "not a valid artifact: entry '%.64s' %s", name.c_str(), what);
}

/// Offset of the end record: the last position whose comment extends exactly to the end of the file.
std::optional<uint64_t> findEnd(const Bytes& zip) {
  if (zip.size() < kEndBytes) return std::nullopt;
  const uint64_t last = zip.size() - kEndBytes;
  const uint64_t first = last > kMaxComment ? last - kMaxComment : 0;
  for (uint64_t at = last + 1; at-- > first;) {
    if (zip.u32(at) == kEndSignature && at + kEndBytes + zip.u16(at + 20) == zip.size()) return at;
  }
  return std::nullopt;
}

struct Directory {
  uint64_t offset, size, entries;
};

RuntimeStatus findDirectory(const Bytes& zip, Directory* directory) {
  const std::optional<uint64_t> end = findEnd(zip);
  if (!end) return corrupt("it has no zip directory (is the file truncated?)");
  directory->entries = zip.u16(*end + 10);
  directory->size = zip.u32(*end + 12);
  directory->offset = zip.u32(*end + 16);
  uint64_t limit = *end;
  if (*end >= kEnd64LocatorBytes && zip.u32(*end - kEnd64LocatorBytes) == kEnd64LocatorSignature) {
    const uint64_t end64 = zip.u64(*end - kEnd64LocatorBytes + 8);
    if (!zip.has(end64, kEnd64Bytes) || end64 > *end - kEnd64LocatorBytes || zip.u32(end64) != kEnd64Signature) {
      return corrupt("its Zip64 directory is out of place");
    }
    directory->entries = zip.u64(end64 + 32);
    directory->size = zip.u64(end64 + 40);
    directory->offset = zip.u64(end64 + 48);
    limit = end64;
  }
  if (directory->offset > limit || directory->size > limit - directory->offset) {
    return corrupt("its zip directory lies outside the file");
  }
  if (directory->entries > kMaxEntries) return corrupt("it has more than 1024 entries");
  return {};
}

/// Replaces those of size, compressed size and offset that are marked as 64-bit by their values in the Zip64 field,
/// which holds them in this order.
bool readZip64(const Bytes& zip, uint64_t extra, uint64_t extra_size, uint64_t* size, uint64_t* compressed,
               uint64_t* offset) {
  const uint64_t end = extra + extra_size;
  while (extra + 4 <= end) {
    const uint16_t id = zip.u16(extra);
    uint64_t at = extra + 4;
    const uint64_t field_end = at + zip.u16(extra + 2);
    if (field_end > end) return false;
    extra = field_end;
    if (id != kZip64Extra) continue;
    for (uint64_t* value : {size, compressed, offset}) {
      if (*value != kIn64) continue;
      if (at + 8 > field_end) return false;
      *value = zip.u64(at);
      at += 8;
    }
    return true;
  }
  return false;
}

/// Checks the local header at `header` against the directory and finds the start of the contents.
RuntimeStatus locate(const Bytes& zip, uint64_t header, uint64_t limit, ZipEntry* entry) {
  const uint64_t name_size = entry->name.size();
  if (header > limit || kLocalBytes + name_size > limit - header) {
    return corruptEntry(entry->name, "lies outside the file");
  }
  if (zip.u32(header) != kLocalSignature || zip.u16(header + 26) != name_size ||
      zip.text(header + kLocalBytes, name_size) != entry->name) {
    return corruptEntry(entry->name, "has no local header of its own");
  }
  if (zip.u16(header + 6) & 0x9 || zip.u16(header + 8) != 0) {
    return corruptEntry(entry->name, "is encrypted, streamed or compressed; entries are stored");
  }
  const uint32_t local_size = zip.u32(header + 22);
  if (zip.u32(header + 14) != entry->crc32 || (local_size != kIn64 && local_size != entry->size)) {
    return corruptEntry(entry->name, "is described differently by its local header");
  }
  // Cannot overflow: header is at most the file's size.
  entry->offset = header + kLocalBytes + name_size + zip.u16(header + 28);
  if (entry->offset > limit || entry->size > limit - entry->offset) {
    return corruptEntry(entry->name, "reaches beyond the file");
  }
  return {};
}

RuntimeStatus checkDisjoint(std::vector<ZipEntry> entries) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i - 1].offset + entries[i - 1].size > entries[i].offset) {
      return corruptEntry(entries[i].name, "overlaps another one");
    }
  }
  return {};
}

}  // namespace

RuntimeStatus readZipDirectory(std::span<const uint8_t> file, std::vector<ZipEntry>* entries) {
  const Bytes zip(file);
  Directory directory{};
  if (RuntimeStatus status = findDirectory(zip, &directory); !status.ok()) return status;
  std::vector<ZipEntry> found;
  std::set<std::string> names;
  uint64_t at = directory.offset;
  const uint64_t end = directory.offset + directory.size;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (end - at < kCentralBytes || zip.u32(at) != kCentralSignature) return corrupt("its zip directory is cut short");
    const uint64_t name_size = zip.u16(at + 28), extra_size = zip.u16(at + 30), comment_size = zip.u16(at + 32);
    if (name_size + extra_size + comment_size > end - at - kCentralBytes) {
      return corrupt("its zip directory is cut short");
    }
    if (name_size == 0 || name_size > kMaxNameBytes) return corrupt("an entry has no name, or one above 255 bytes");
    ZipEntry entry;
    entry.name = zip.text(at + kCentralBytes, name_size);
    entry.crc32 = zip.u32(at + 16);
    entry.size = zip.u32(at + 24);
    uint64_t compressed = zip.u32(at + 20), header = zip.u32(at + 42);
    if (entry.size == kIn64 || compressed == kIn64 || header == kIn64) {
      if (!readZip64(zip, at + kCentralBytes + name_size, extra_size, &entry.size, &compressed, &header)) {
        return corruptEntry(entry.name, "lacks its Zip64 sizes");
      }
    }
    if (zip.u16(at + 8) & 0x9 || zip.u16(at + 10) != 0 || compressed != entry.size) {
      return corruptEntry(entry.name, "is encrypted, streamed or compressed; entries are stored");
    }
    if (!names.insert(entry.name).second) return corruptEntry(entry.name, "is there twice");
    if (RuntimeStatus status = locate(zip, header, directory.offset, &entry); !status.ok()) return status;
    found.push_back(std::move(entry));
    at += kCentralBytes + name_size + extra_size + comment_size;
  }
  if (RuntimeStatus status = checkDisjoint(found); !status.ok()) return status;
  *entries = std::move(found);
  return {};
}

}  // namespace tessera::compiler
