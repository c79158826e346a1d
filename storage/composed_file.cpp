#include "storage/composed_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/messages/blob_path.h"
#include "proto/support/status_macros.h"

namespace tessera::storage {
namespace {

constexpr char kFirstLine[] = "tessera-composed 1";
constexpr size_t kMaxHeader = 4096;
constexpr char kOwn[] = "own ", kBlob[] = "blob ";

class ComposedFile : public File {
 public:
  struct Piece {
    const File* file;
    int64_t begin;   // offset in the composed blob
    int64_t offset;  // offset in `file`
    int64_t bytes;
  };
  ComposedFile(std::unique_ptr<File> recipe, std::vector<std::unique_ptr<File>> others, std::vector<Piece> pieces)
      : recipe_(std::move(recipe)), others_(std::move(others)), pieces_(std::move(pieces)) {}

  absl::StatusOr<FileInfo> facts() const override {
    absl::StatusOr<FileInfo> facts = recipe_->facts();
    if (facts.ok()) facts->size = pieces_.empty() ? 0 : pieces_.back().begin + pieces_.back().bytes;
    return facts;
  }

  absl::StatusOr<size_t> readAt(int64_t offset, char* data, size_t size) const override {
    size_t done = 0;
    for (const Piece& piece : pieces_) {
      // Pieces are sorted and adjacent, so a read continues in the next one where this one ends.
      const int64_t within = offset + static_cast<int64_t>(done) - piece.begin;
      if (done == size || within < 0 || within >= piece.bytes) continue;
      const size_t wanted = std::min<size_t>(size - done, static_cast<size_t>(piece.bytes - within));
      absl::StatusOr<size_t> got = piece.file->readAt(piece.offset + within, data + done, wanted);
      if (!got.ok()) return got;
      done += *got;
      if (*got < wanted) break;
    }
    return done;
  }

  absl::Status writeAt(int64_t, std::string_view) override { return readOnly(); }
  absl::Status truncate(int64_t) override { return readOnly(); }
  absl::Status sync() override { return readOnly(); }

 private:
  static absl::Status readOnly() { return absl::InternalError("a composed blob is only read"); }

  const std::unique_ptr<File> recipe_;
  const std::vector<std::unique_ptr<File>> others_;
  const std::vector<Piece> pieces_;
};

}  // namespace

std::string recipeHeader(const std::vector<RecipePart>& parts) {
  std::string header = absl::StrCat(kFirstLine, "\n");
  for (const RecipePart& part : parts) absl::StrAppend(&header, part.own ? kOwn : kBlob, part.bytes, "\n");
  return header + "\n";
}

namespace {

/// Reads the header of a recipe; DATA_LOSS if it is malformed. `*header_bytes` is the offset of the inline bytes.
absl::StatusOr<std::vector<RecipePart>> readRecipe(const File& recipe, int64_t* header_bytes) {
  absl::Status bad = absl::DataLossError("the recipe of a composed blob is damaged");
  std::string start(kMaxHeader, '\0');
  TESSERA_ASSIGN_OR_RETURN(size_t got, recipe.readAt(0, start.data(), start.size()));
  start.resize(got);
  const size_t end = start.find("\n\n");
  if (end == std::string::npos) return bad;
  *header_bytes = static_cast<int64_t>(end) + 2;
  const std::vector<std::string> lines = absl::StrSplit(start.substr(0, end), '\n');
  if (lines[0] != kFirstLine) return bad;
  std::vector<RecipePart> parts;
  for (size_t i = 1; i < lines.size(); ++i) {
    absl::string_view line = lines[i];
    RecipePart& part = parts.emplace_back();
    part.own = absl::ConsumePrefix(&line, kOwn);
    if (!part.own && !absl::ConsumePrefix(&line, kBlob)) return bad;
    if (!absl::SimpleAtoi(line, &part.bytes) || part.bytes < 0) return bad;
  }
  return parts;
}

}  // namespace

std::string recipePath(const std::string& root, const std::string& sha256) {
  return absl::StrCat(root, "/", blobRelativePath(sha256), kRecipeSuffix);
}

std::string partPath(const std::string& root, const std::string& sha256, size_t index) {
  return absl::StrCat(root, "/parts/", sha256, ".", index);
}

absl::StatusOr<std::unique_ptr<File>> openComposed(FileSystem& files, const std::string& root,
                                                   const std::string& sha256) {
  TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<File> recipe,
                           files.open(recipePath(root, sha256), FileSystem::Access::kRead));
  int64_t header = 0;
  TESSERA_ASSIGN_OR_RETURN(std::vector<RecipePart> parts, readRecipe(*recipe, &header));
  std::vector<std::unique_ptr<File>> others;
  for (const RecipePart& part : parts) {
    if (part.own) continue;
    TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<File> other,
                             files.open(partPath(root, sha256, others.size()), FileSystem::Access::kRead));
    others.push_back(std::move(other));
  }
  return openComposed(std::move(recipe), std::move(others));
}

absl::StatusOr<std::unique_ptr<File>> openComposed(std::unique_ptr<File> recipe,
                                                   std::vector<std::unique_ptr<File>> others) {
  int64_t own = 0;
  TESSERA_ASSIGN_OR_RETURN(std::vector<RecipePart> parts, readRecipe(*recipe, &own));
  std::vector<ComposedFile::Piece> pieces;
  int64_t begin = 0;
  size_t other = 0;
  for (const RecipePart& part : parts) {
    if (part.own) {
      pieces.push_back({recipe.get(), begin, own, part.bytes});
      own += part.bytes;
    } else {
      if (other == others.size()) return absl::DataLossError("a part of a composed blob is missing");
      TESSERA_ASSIGN_OR_RETURN(FileInfo facts, others[other]->facts());
      if (facts.size != part.bytes) return absl::DataLossError("a part of a composed blob has another size");
      pieces.push_back({others[other++].get(), begin, 0, part.bytes});
    }
    begin += part.bytes;
  }
  return std::make_unique<ComposedFile>(std::move(recipe), std::move(others), std::move(pieces));
}

}  // namespace tessera::storage
