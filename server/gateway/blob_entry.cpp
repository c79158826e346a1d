#include "server/gateway/blob_entry.h"

#include <zip.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera::server::gateway {
namespace {

/// libzip reads a few bytes at a time, mostly consecutive; they are read in pieces of this size.
constexpr int64_t kPieceBytes = 256 << 10;
/// Limit of bytes to read in addition to the entry.
constexpr int64_t kDirectoryBytes = 4 << 20;

/// A zip source over byte ranges. Holds one piece.
class RangeSource {
 public:
  RangeSource(int64_t size, const ReadRange& read, int64_t budget) : size_(size), read_(read), budget_(budget) {
    zip_error_init(&error_);
  }
  ~RangeSource() { zip_error_fini(&error_); }
  RangeSource(const RangeSource&) = delete;
  RangeSource& operator=(const RangeSource&) = delete;

  static zip_int64_t answer(void* self, void* data, zip_uint64_t length, zip_source_cmd_t command) {
    return static_cast<RangeSource*>(self)->answer(data, length, command);
  }
  const absl::Status& status() const { return status_; }

 private:
  zip_int64_t fail(int why) {
    zip_error_set(&error_, why, 0);
    return -1;
  }

  zip_int64_t answer(void* data, zip_uint64_t length, zip_source_cmd_t command) {
    switch (command) {
      case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_SUPPORTS, ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE,
                                              ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL,
                                              ZIP_SOURCE_FREE, -1);
      case ZIP_SOURCE_OPEN:
        at_ = 0;
        return 0;
      case ZIP_SOURCE_READ:
        return take(static_cast<char*>(data), static_cast<int64_t>(std::min<zip_uint64_t>(length, INT64_MAX)));
      case ZIP_SOURCE_STAT: {
        if (length < sizeof(zip_stat_t)) {
          return fail(ZIP_ER_INVAL);
        }
        auto* facts = static_cast<zip_stat_t*>(data);
        zip_stat_init(facts);
        facts->size = static_cast<zip_uint64_t>(size_);
        facts->valid = ZIP_STAT_SIZE;
        return sizeof(zip_stat_t);
      }
      case ZIP_SOURCE_SEEK: {
        const zip_int64_t to = zip_source_seek_compute_offset(static_cast<zip_uint64_t>(at_),
                                                              static_cast<zip_uint64_t>(size_), data, length, &error_);
        if (to < 0) {
          return -1;
        }
        at_ = to;
        return 0;
      }
      case ZIP_SOURCE_TELL:
        return at_;
      case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&error_, data, length);
      case ZIP_SOURCE_CLOSE:
      case ZIP_SOURCE_FREE:
        return 0;
      default:
        return fail(ZIP_ER_OPNOTSUPP);
    }
  }

  zip_int64_t take(char* data, int64_t length) {
    const int64_t wanted = std::min(length, size_ - at_);
    int64_t done = 0;
    while (done < wanted) {
      if (at_ < start_ || at_ >= start_ + static_cast<int64_t>(piece_.size())) {
        start_ = at_ / kPieceBytes * kPieceBytes;
        budget_ -= kPieceBytes;
        if (budget_ < 0) {
          status_ = absl::ResourceExhaustedError("the file's directory is too large to be looked into here");
          return fail(ZIP_ER_READ);
        }
        auto piece = read_(start_, std::min(kPieceBytes, size_ - start_));
        if (!piece.ok() || start_ + static_cast<int64_t>(piece->size()) <= at_) {
          status_ = piece.ok() ? absl::DataLossError("the file ends early") : piece.status();
          piece_.clear();
          return fail(ZIP_ER_READ);
        }
        piece_ = *std::move(piece);
      }
      const int64_t within = at_ - start_;
      const int64_t count = std::min(wanted - done, static_cast<int64_t>(piece_.size()) - within);
      std::memcpy(data + done, piece_.data() + within, static_cast<size_t>(count));
      done += count;
      at_ += count;
    }
    return done;
  }

  const int64_t size_;
  const ReadRange& read_;
  int64_t budget_;  ///< bytes that may still be read: a malicious file could make libzip read forever
  int64_t at_ = 0;
  int64_t start_ = 0;  ///< of the piece
  std::string piece_;
  zip_error_t error_{};
  absl::Status status_;  ///< cause of a failed read
};

}  // namespace

absl::StatusOr<std::string> entryOf(int64_t size, const ReadRange& read, const std::string& entry, int64_t most) {
  RangeSource source(size, read, most + kDirectoryBytes);
  const auto broken = [&](const std::string& what) {
    return source.status().ok() ? absl::DataLossError(absl::StrCat("the file is no artifact: ", what))
                                : source.status();
  };
  zip_error_t why;
  zip_error_init(&why);
  zip_source_t* opened = zip_source_function_create(&RangeSource::answer, &source, &why);
  std::unique_ptr<zip_t, decltype(&zip_discard)> archive(
      opened == nullptr ? nullptr : zip_open_from_source(opened, ZIP_RDONLY, &why), &zip_discard);
  const std::string message = archive ? "" : zip_error_strerror(&why);
  zip_error_fini(&why);
  if (!archive) {
    if (opened != nullptr) {
      zip_source_free(opened);
    }
    return broken(message);
  }
  zip_stat_t facts;
  const zip_int64_t index = zip_name_locate(archive.get(), entry.c_str(), 0);
  if (index < 0 || zip_stat_index(archive.get(), static_cast<zip_uint64_t>(index), 0, &facts) != 0) {
    return source.status().ok() ? absl::NotFoundError(absl::StrCat("the artifact has no entry ", entry))
                                : source.status();
  }
  if (facts.size > static_cast<zip_uint64_t>(most)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(entry, " has ", facts.size, " bytes, at most ", most, " are shown here"));
  }
  std::string bytes(facts.size, '\0');
  const std::unique_ptr<zip_file_t, decltype(&zip_fclose)> file(
      zip_fopen_index(archive.get(), static_cast<zip_uint64_t>(index), 0), &zip_fclose);
  // The read after the last byte makes libzip check the checksum.
  char rest = 0;
  if (!file || zip_fread(file.get(), bytes.data(), bytes.size()) != static_cast<zip_int64_t>(bytes.size()) ||
      zip_fread(file.get(), &rest, 1) != 0) {
    return broken(absl::StrCat("cannot read ", entry));
  }
  return bytes;
}

}  // namespace tessera::server::gateway
