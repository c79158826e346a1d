#include "clients/cpp/external_data.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <filesystem>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/messages/failure.h"
#include "proto/support/printable.h"

namespace tessera::client {
namespace {

namespace fs = std::filesystem;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr int kDeepest = 100;  // nesting of graphs in attributes

/// The messages of onnx.proto on the paths that lead to external data.
enum class Message { kModel, kGraph, kNode, kAttribute, kTensor, kSparseTensor, kTraining, kFunction, kEntry };

struct Child {
  Message message;
  int field;  ///< the field's number
  Message is;
};
constexpr Child kChildren[] = {{Message::kModel, 7, Message::kGraph},
                               {Message::kModel, 20, Message::kTraining},
                               {Message::kModel, 25, Message::kFunction},
                               {Message::kTraining, 1, Message::kGraph},
                               {Message::kTraining, 2, Message::kGraph},
                               {Message::kFunction, 7, Message::kNode},
                               {Message::kFunction, 11, Message::kAttribute},
                               {Message::kGraph, 1, Message::kNode},
                               {Message::kGraph, 5, Message::kTensor},
                               {Message::kGraph, 15, Message::kSparseTensor},
                               {Message::kNode, 5, Message::kAttribute},
                               {Message::kAttribute, 5, Message::kTensor},
                               {Message::kAttribute, 6, Message::kGraph},
                               {Message::kAttribute, 10, Message::kTensor},
                               {Message::kAttribute, 11, Message::kGraph},
                               {Message::kAttribute, 22, Message::kSparseTensor},
                               {Message::kAttribute, 23, Message::kSparseTensor},
                               {Message::kSparseTensor, 1, Message::kTensor},
                               {Message::kSparseTensor, 2, Message::kTensor},
                               {Message::kTensor, 13, Message::kEntry}};

/// The same table indexed by message and field number: the parser looks up every tag of a model.
constexpr int kMessages = 9, kFields = 26;
constexpr auto kChildOf = [] {
  std::array<std::array<std::optional<Message>, kFields>, kMessages> table{};
  for (const Child& child : kChildren) table[static_cast<int>(child.message)][child.field] = child.is;
  return table;
}();

/// Reads one entry of external_data, a key and a value.
bool readEntry(CodedInputStream& in, std::set<std::string>& found) {
  std::string texts[2];
  while (const uint32_t tag = in.ReadTag()) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    const bool text = field <= 2 && WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    if (text ? !WireFormatLite::ReadBytes(&in, &texts[field - 1]) : !WireFormatLite::SkipField(&in, tag)) return false;
  }
  if (texts[0] == "location") found.insert(texts[1]);
  return true;
}

bool walk(CodedInputStream& in, Message message, int depth, std::set<std::string>& found) {
  if (message == Message::kEntry) return readEntry(in, found);
  while (const uint32_t tag = in.ReadTag()) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    // Fields that cannot lead to external data, such as raw weights, are skipped without reading them.
    const auto child = field < kFields ? kChildOf[static_cast<int>(message)][field] : std::nullopt;
    if (!child || depth == kDeepest ||
        WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&in, tag)) return false;
      continue;
    }
    int bytes = 0;
    if (!in.ReadVarintSizeAsInt(&bytes)) return false;
    const CodedInputStream::Limit limit = in.PushLimit(bytes);
    // A message that does not fill its length exactly is malformed: stop.
    if (!walk(in, *child, depth + 1, found) || in.BytesUntilLimit() != 0) return false;
    in.PopLimit(limit);
  }
  return true;
}

/// Requires paths without symbolic links.
bool liesWithin(const fs::path& file, const fs::path& folder) {
  return std::ranges::mismatch(folder, file).in1 == folder.end();
}

/// Returns the blob folder of a snapshot in Hugging Face's cache: REPOSITORY/blobs for a folder in
/// REPOSITORY/snapshots/REVISION, where REPOSITORY is models--ORG--NAME (or of a data set or a space).
std::optional<fs::path> blobsOfSnapshot(const fs::path& folder) {
  constexpr const char* kKinds[] = {"models--", "datasets--", "spaces--"};
  for (fs::path revision = folder; revision.has_relative_path(); revision = revision.parent_path()) {
    const fs::path repository = revision.parent_path().parent_path();
    if (revision.parent_path().filename() != "snapshots") continue;
    const std::string name = repository.filename().string();
    if (std::ranges::any_of(kKinds, [&](const char* kind) { return absl::StartsWith(name, kind); }))
      return repository / "blobs";
  }
  return std::nullopt;
}

}  // namespace

std::set<std::string> externalLocationsIn(std::string_view model) {
  std::set<std::string> found;
  CodedInputStream in(reinterpret_cast<const uint8_t*>(model.data()), static_cast<int>(model.size()));
  walk(in, Message::kModel, 0, found);
  return found;
}

std::set<std::string> externalLocations(const std::string& model_path) {
  std::set<std::string> found;
  const int file = open(model_path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat facts{};
  if (file < 0) return found;
  if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0 && facts.st_size <= INT_MAX) {
    const auto bytes = static_cast<size_t>(facts.st_size);
    // Mapped, so that skipped weights are never read from the disk.
    if (void* mapped = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0); mapped != MAP_FAILED) {
      found = externalLocationsIn({static_cast<const char*>(mapped), bytes});
      munmap(mapped, bytes);
    }
  }
  close(file);
  return found;
}

absl::StatusOr<std::string> resolveExternalFile(const std::string& model_path, const std::string& location) {
  const fs::path relative(location);
  if (relative.empty() || relative.is_absolute() || std::ranges::find(relative, "..") != relative.end()) return "";
  std::error_code error;
  const fs::path folder = fs::canonical(fs::absolute(model_path, error).parent_path(), error);
  if (error) return "";
  // canonical() resolves all links, so that the checks below see the file itself.
  const fs::path file = fs::canonical(folder / relative, error);
  if (error || !fs::is_regular_file(file, error)) return "";
  if (liesWithin(file, folder)) return file.string();
  if (const auto blobs = blobsOfSnapshot(folder); blobs && liesWithin(file, *blobs)) return file.string();
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_MODEL);
  failure.set_message(absl::StrCat("external data '", printable(location), "' of ", printable(model_path),
                                   ": a symbolic link leads out of the model's folder"));
  failure.set_attribute(location);
  failure.set_found(file.string());
  failure.set_accepted(absl::StrCat("files in ", folder.string(),
                                    ", and links from a snapshot of Hugging Face's cache to its own blobs"));
  failure.set_fix(absl::StrCat("if that file holds the model's weights, copy it into the folder or name it with ",
                               "--external-data LOCATION=FILE"));
  return failureStatus(failure);
}

}  // namespace tessera::client
