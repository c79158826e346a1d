#include "compiler/runtime/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>

#include "compiler/runtime/safetensors_header.h"
#include "compiler/runtime/tessera.h"

namespace tessera::compiler {
namespace {

struct TypeName {
  int32_t dtype;
  const char* name;
};
constexpr std::array<TypeName, 13> kTypes = {{{TESSERA_F32, "F32"},
                                              {TESSERA_F64, "F64"},
                                              {TESSERA_F16, "F16"},
                                              {TESSERA_BF16, "BF16"},
                                              {TESSERA_I8, "I8"},
                                              {TESSERA_I16, "I16"},
                                              {TESSERA_I32, "I32"},
                                              {TESSERA_I64, "I64"},
                                              {TESSERA_U8, "U8"},
                                              {TESSERA_U16, "U16"},
                                              {TESSERA_U32, "U32"},
                                              {TESSERA_U64, "U64"},
                                              {TESSERA_BOOL, "BOOL"}}};
constexpr size_t kLengthBytes = 8;

int32_t typeOf(std::string_view name) {
  for (const TypeName& type : kTypes)
    if (name == type.name) return type.dtype;
  return 0;
}

RuntimeStatus corrupt(const std::string& what) {
  return {TESSERA_CORRUPT, "not a safetensors file that a state can be read from: " + what};
}

/// A file descriptor that the destructor closes.
class OpenFile {
 public:
  OpenFile(const char* path, int flags) : fd_(open(path, flags | O_CLOEXEC, 0666)) {}
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

bool writeAll(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t done = ::write(fd, data, size);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    data += done;
    size -= static_cast<size_t>(done);
  }
  return true;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", byte);
      out += escape.data();
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

}  // namespace

const char* safetensorsTypeName(int32_t dtype) {
  for (const TypeName& type : kTypes)
    if (dtype == type.dtype) return type.name;
  return "?";
}

RuntimeStatus readSafetensorsHeader(std::string_view text, uint64_t data_bytes,
                                    std::vector<SafetensorsPlace>* tensors) {
  std::vector<SafetensorsEntry> entries;
  if (RuntimeStatus status = parseSafetensorsHeader(text, &entries); !status.ok()) return status;
  // A tensor without bytes comes before the one that begins at the same place.
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  std::set<std::string_view> names;
  std::vector<SafetensorsPlace> places;
  uint64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    const auto fault = [&](const std::string& what) {
      return RuntimeStatus(TESSERA_CORRUPT, "tensor '" + entry.name + "' " + what);
    };
    const int32_t dtype = typeOf(entry.dtype);
    if (dtype == 0) return fault("has type " + entry.dtype);
    if (entry.begin < end || entry.begin > entry.end)
      return fault("has bytes that precede it or belong to another tensor");
    if (entry.end > data_bytes) {
      return fault("ends at byte " + std::to_string(entry.end) + " of " + std::to_string(data_bytes) +
                   ": the file is cut off");
    }
    auto size = static_cast<uint64_t>(tessera_dtype_size(dtype));
    for (const int64_t extent : entry.shape) {
      if (__builtin_mul_overflow(size, static_cast<uint64_t>(extent), &size)) return fault("is too large");
    }
    if (size != entry.end - entry.begin) {
      return fault("has " + std::to_string(entry.end - entry.begin) + " bytes, its shape takes " +
                   std::to_string(size));
    }
    if (!names.insert(entry.name).second) return fault("occurs twice");
    end = entry.end;
    places.push_back({entry.name, dtype, entry.shape, entry.begin, size});
  }
  *tensors = std::move(places);
  return {};
}

RuntimeStatus SafetensorsFile::read(const char* path, SafetensorsFile* file) {
  const OpenFile opened(path, O_RDONLY);
  struct stat info{};
  if (opened.fd() < 0 || fstat(opened.fd(), &info) != 0) return systemError(std::string("open ") + path, errno);
  if (!S_ISREG(info.st_mode)) return {TESSERA_IO_ERROR, std::string(path) + " is no regular file"};
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(opened.fd(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return systemError(std::string("read ") + path, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  RuntimeStatus status = parse(std::move(bytes), file);
  return status.ok() ? status : RuntimeStatus(status.code(), std::string(path) + " is " + status.message());
}

RuntimeStatus SafetensorsFile::parse(std::string bytes, SafetensorsFile* file) {
  uint64_t length = 0;
  if (bytes.size() < kLengthBytes) return corrupt("it has " + std::to_string(bytes.size()) + " bytes");
  for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | static_cast<uint8_t>(bytes[i]);
  if (length > bytes.size() - kLengthBytes) {
    return corrupt("its header takes " + std::to_string(length) + " bytes, the file has " +
                   std::to_string(bytes.size() - kLengthBytes) + " after the length");
  }
  const size_t begin = kLengthBytes + static_cast<size_t>(length);
  std::vector<SafetensorsPlace> places;
  if (RuntimeStatus status = readSafetensorsHeader(
          std::string_view(bytes).substr(kLengthBytes, static_cast<size_t>(length)), bytes.size() - begin, &places);
      !status.ok())
    return corrupt(status.message());
  SafetensorsFile made;
  made.bytes_ = std::move(bytes);
  for (SafetensorsPlace& place : places) {
    made.tensors_.push_back({std::move(place.name), place.dtype, std::move(place.shape),
                             reinterpret_cast<const uint8_t*>(made.bytes_.data()) + begin + place.begin,
                             static_cast<size_t>(place.size_bytes)});
  }
  // A moved string keeps its bytes where they are: it is longer than the small-string buffer or has no tensors' bytes.
  *file = std::move(made);
  return {};
}

const SafetensorsFile::Tensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const Tensor& t) { return t.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

void SafetensorsWriter::add(const std::string& name, int32_t dtype, std::span<const int64_t> shape, size_t size_bytes) {
  std::string extents;
  for (size_t d = 0; d < shape.size(); ++d) extents += (d ? "," : "") + std::to_string(shape[d]);
  header_ += (header_.empty() ? "" : ",") + quoted(name) + ":{\"dtype\":\"" + safetensorsTypeName(dtype) +
             "\",\"shape\":[" + extents + "],\"data_offsets\":[" + std::to_string(offset_) + "," +
             std::to_string(offset_ + size_bytes) + "]}";
  offset_ += size_bytes;
  sizes_.push_back(size_bytes);
}

RuntimeStatus SafetensorsWriter::write(const char* path,
                                       const std::function<void(size_t index, void* to)>& copy) const {
  // Tensors begin at a multiple of 8 bytes, as the format's own library writes them.
  std::string header = "{" + header_ + "}";
  header.resize((header.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  std::string length(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) length[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  const std::string unfinished = std::string(path) + ".unfinished";
  int error = 0;
  {
    const OpenFile opened(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
    if (opened.fd() < 0) return systemError("create " + unfinished, errno);
    bool good =
        writeAll(opened.fd(), length.data(), length.size()) && writeAll(opened.fd(), header.data(), header.size());
    std::string bytes;
    for (size_t i = 0; good && i < sizes_.size(); ++i) {
      bytes.resize(sizes_[i]);
      copy(i, bytes.data());
      good = writeAll(opened.fd(), bytes.data(), bytes.size());
    }
    if (!good) error = errno;
  }
  if (error == 0 && std::rename(unfinished.c_str(), path) != 0) error = errno;
  if (error == 0) return {};
  unlink(unfinished.c_str());
  return systemError(std::string("write ") + path, error);
}

}  // namespace tessera::compiler
