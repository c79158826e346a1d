#include "storage/bucket_mark.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"

namespace tessera::storage {
namespace {

constexpr char kMarks[] = "marks/";
constexpr char kMarkText[] =
    "The objects beside this one belong to a database of Tessera. See --bind-blobs of tesserad.\n";
constexpr char kIdSetting[] = "id", kMarkSetting[] = "blobs_mark";

class TextFile : public File {
 public:
  absl::StatusOr<FileInfo> facts() const override { return FileInfo{.size = sizeof(kMarkText) - 1}; }
  absl::StatusOr<size_t> readAt(int64_t offset, char* data, size_t size) const override {
    const std::string_view text = kMarkText;
    return static_cast<size_t>(offset) >= text.size() ? 0 : text.copy(data, size, static_cast<size_t>(offset));
  }
  absl::Status writeAt(int64_t, std::string_view) override { return absl::InternalError("only read"); }
  absl::Status truncate(int64_t) override { return absl::InternalError("only read"); }
  absl::Status sync() override { return absl::OkStatus(); }
};

/// The marks that the database has recorded.
struct Known {
  std::string mark;   ///< its own
  std::string bound;  ///< the mark that it has written before; empty: none
  bool has_blobs = false;
};

absl::StatusOr<Known> readKnown(Store& store) {
  std::random_device random;
  const std::string fresh = absl::StrFormat("%08x%08x%08x%08x", random(), random(), random(), random());
  Known known;
  TESSERA_RETURN_IF_ERROR(store.transact([&](Transaction& tx) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(known.mark, tx.setting(kIdSetting));
    if (known.mark.empty()) {
      known.mark = fresh;
      TESSERA_RETURN_IF_ERROR(tx.putSetting(kIdSetting, fresh));
    }
    TESSERA_ASSIGN_OR_RETURN(known.bound, tx.setting(kMarkSetting));
    return absl::OkStatus();
  }));
  if (!store.origin().empty()) absl::StrAppend(&known.mark, "_", store.origin());
  TESSERA_RETURN_IF_ERROR(store.read([&](Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(const int first,
                             reader.forEachAfter(Kind::kBlob, "", 1, [](const Stored&) { return absl::OkStatus(); }));
    known.has_blobs = first > 0;
    return absl::OkStatus();
  }));
  return known;
}

absl::StatusOr<std::vector<std::string>> marksIn(ObjectStore& objects) {
  std::vector<std::string> marks;
  TESSERA_RETURN_IF_ERROR(objects.list(kMarks, "", [&](const ObjectInfo& object) {
    marks.push_back(object.name.substr(sizeof(kMarks) - 1));
    return true;
  }));
  return marks;
}

/// A mark that is neither the database's own nor to be replaced; empty: none.
std::string foreignMark(const std::vector<std::string>& marks, const std::string& own, const std::string& replaces) {
  const auto foreign =
      std::ranges::find_if(marks, [&](const std::string& mark) { return mark != own && mark != replaces; });
  return foreign == marks.end() ? "" : *foreign;
}

absl::Status belongsTo(const ObjectStore& objects, const std::string& mark) {
  return absl::FailedPreconditionError(
      absl::StrCat("--blobs: ", objects.placeOf(""), " belongs to another database (its mark: ", mark,
                   "), and each of the two would delete the other's objects. Name another bucket, prefix or folder. If "
                   "that database "
                   "is gone, for example because this one is its restored copy, start once with --bind-blobs ",
                   mark));
}

/// Whether a place without any mark may become this database's.
absl::Status checkUnmarked(ObjectStore& objects, const Known& known) {
  const auto refuse = [&](const std::string& why) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--blobs: ", objects.placeOf(""), " ", why,
        ". Name the right bucket, prefix or folder. To use this one, start once with --bind-blobs ", kNoMark));
  };
  if (!known.bound.empty()) {
    return refuse("has no mark, but this database has used an object store before: it is another one, or was emptied");
  }
  bool has_objects = false;
  TESSERA_RETURN_IF_ERROR(objects.list("blobs/", "", [&](const ObjectInfo&) {
    has_objects = true;
    return false;
  }));
  return has_objects && !known.has_blobs ? refuse("has objects of an unknown database") : absl::OkStatus();
}

}  // namespace

absl::Status bindObjects(Store& store, ObjectStore& objects, const std::string& replaces) {
  TESSERA_ASSIGN_OR_RETURN(const Known known, readKnown(store));
  TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> marks, marksIn(objects));
  if (const std::string other = foreignMark(marks, known.mark, replaces); !other.empty()) {
    return belongsTo(objects, other);
  }
  if (marks.empty() && replaces != kNoMark) TESSERA_RETURN_IF_ERROR(checkUnmarked(objects, known));
  if (std::ranges::find(marks, known.mark) == marks.end()) {
    v1::Digest digest;
    digest.set_sha256(sha256Hex(kMarkText));
    digest.set_size_bytes(sizeof(kMarkText) - 1);
    TESSERA_RETURN_IF_ERROR(objects.put(kMarks + known.mark, TextFile(), digest));
    // Another database may have done the same at this moment. Each then sees the other's mark, and at most one stays.
    TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> now, marksIn(objects));
    if (const std::string other = foreignMark(now, known.mark, replaces); !other.empty()) {
      TESSERA_RETURN_IF_ERROR(objects.remove(kMarks + known.mark));
      return belongsTo(objects, other);
    }
    spdlog::info("{} belongs to this database from now on (mark {})", objects.placeOf(""), known.mark);
  }
  for (const std::string& mark : marks) {
    if (mark != known.mark) TESSERA_RETURN_IF_ERROR(objects.remove(kMarks + mark));
  }
  if (known.bound == known.mark) return absl::OkStatus();
  return store.transact([&](Transaction& tx) { return tx.putSetting(kMarkSetting, known.mark); });
}

}  // namespace tessera::storage
