#include "storage/blob_rows.h"

#include <ctime>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"

namespace tessera::storage {
namespace {

constexpr int kPage = 1000;  // rows per read in forEach()

template <typename T>
absl::StatusOr<T> readOf(Store& store, const std::function<absl::StatusOr<T>(Reader&)>& what) {
  absl::StatusOr<T> found = absl::UnknownError("not read");
  absl::Status status = store.read([&](Reader& reader) { return (found = what(reader)).status(); });
  if (!status.ok()) return status;
  return found;
}

absl::Status noRow(const std::string& sha256) {
  return absl::NotFoundError(absl::StrCat("there is no row of bytes of blob \"", sha256, "\""));
}

}  // namespace

absl::StatusOr<int64_t> BlobRows::size(const std::string& sha256) const {
  if (store_ == nullptr) return noRow(sha256);
  return readOf<int64_t>(*store_, [&](Reader& reader) { return reader.blobBytesSize(sha256); });
}

absl::StatusOr<std::string> BlobRows::get(const std::string& sha256) const {
  if (store_ == nullptr) return noRow(sha256);
  return readOf<std::string>(*store_, [&](Reader& reader) { return reader.blobBytes(sha256); });
}

absl::Status BlobRows::put(const std::string& sha256, std::string_view bytes) {
  return store_->transact([&](Transaction& tx) { return tx.putBlobBytes(sha256, bytes, time(nullptr)); });
}

absl::Status BlobRows::remove(const std::string& sha256) {
  return store_->transact([&](Transaction& tx) { return tx.eraseBlobBytes(sha256); });
}

absl::Status BlobRows::removeDamaged(const std::string& sha256, const std::string& found) {
  return store_->transact([&](Transaction& tx) {
    const absl::StatusOr<std::string> now = tx.blobBytes(sha256);
    return now.ok() && *now == found ? tx.eraseBlobBytes(sha256) : absl::OkStatus();
  });
}

absl::StatusOr<int64_t> BlobRows::totalBytes() const {
  if (store_ == nullptr) return 0;
  return readOf<int64_t>(*store_, [](Reader& reader) { return reader.rowBlobBytes(); });
}

absl::Status BlobRows::forEach(const std::function<absl::Status(const RowBlob& blob)>& visit) const {
  std::string last;
  while (store_ != nullptr) {
    const auto page =
        readOf<std::vector<RowBlob>>(*store_, [&](Reader& reader) { return reader.rowBlobsAfter(last, kPage); });
    if (!page.ok()) return page.status();
    if (page->empty()) break;
    for (const RowBlob& blob : *page) {
      TESSERA_RETURN_IF_ERROR(visit(blob));
    }
    last = page->back().sha256;
  }
  return absl::OkStatus();
}

}  // namespace tessera::storage
