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

namespace tessera::client {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr int kDeepest = 100;  // bodies within bodies

/// Messages of onnx.proto on the way to external data.
enum class Message { kModel, kGraph, kNode, kAttribute, kTensor, kSparseTensor, kTraining, kFunction, kEntry };

struct Child {
  Message message;
  int field;  ///< its number
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

/// The same, by message and number of a field: each tag of a model is looked up.
constexpr int kMessages = 9, kFields = 26;
constexpr auto kChildOf = [] {
  std::array<std::array<std::optional<Message>, kFields>, kMessages> table{};
  for (const Child& child : kChildren) table[static_cast<int>(child.message)][child.field] = child.is;
  return table;
}();

/// An entry of external_data: its key and value.
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
    const auto child = field < kFields ? kChildOf[static_cast<int>(message)][field] : std::nullopt;
    if (!child || depth == kDeepest ||
        WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&in, tag)) return false;
      continue;
    }
    int bytes = 0;
    if (!in.ReadVarintSizeAsInt(&bytes)) return false;
    const CodedInputStream::Limit limit = in.PushLimit(bytes);
    if (!walk(in, *child, depth + 1, found) || in.BytesUntilLimit() != 0) return false;
    in.PopLimit(limit);
  }
  return true;
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
    if (void* mapped = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0); mapped != MAP_FAILED) {
      found = externalLocationsIn({static_cast<const char*>(mapped), bytes});
      munmap(mapped, bytes);
    }
  }
  close(file);
  return found;
}

std::string besideModel(const std::string& model_path, const std::string& location) {
  namespace fs = std::filesystem;
  const fs::path relative(location);
  if (relative.empty() || relative.is_absolute() || std::ranges::find(relative, "..") != relative.end()) return {};
  const fs::path beside = fs::path(model_path).parent_path() / relative;
  std::error_code error;
  return fs::is_regular_file(beside, error) ? beside.string() : "";
}

}  // namespace tessera::client
