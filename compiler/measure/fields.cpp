#include "compiler/measure/fields.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tessera::compiler {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// "memory[1]" -> "memory", 1; -1 without an index.
std::pair<std::string, int> nameAndIndex(absl::string_view part) {
  const size_t bracket = part.find('[');
  int index = -1;
  if (bracket != part.npos && !absl::SimpleAtoi(part.substr(bracket + 1, part.size() - bracket - 2), &index))
    std::abort();
  return {std::string(part.substr(0, bracket)), index};
}

/// The position of a line in a printed description.
struct Level {
  std::string place;
  const Descriptor* type;
  std::map<std::string, int> seen;  // entries of lists
};

}  // namespace

void setField(v1::Target& target, const std::string& place, double value) {
  Message* message = &target;
  const std::vector<std::string> parts = absl::StrSplit(place, '.');
  for (const std::string& part : parts) {
    const auto [name, index] = nameAndIndex(part);
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(name);
    if (!field) std::abort();  // paths are constants of this program
    const auto& reflection = *message->GetReflection();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      message = index < 0 ? reflection.MutableMessage(message, field)
                          : reflection.MutableRepeatedMessage(message, field, index);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      reflection.SetDouble(message, field, value);
    } else {
      const auto whole = std::max<int64_t>(1, std::llround(value));
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
        reflection.SetInt64(message, field, whole);
      } else {
        reflection.SetInt32(message, field, static_cast<int32_t>(whole));
      }
    }
  }
}

std::string commentedText(const v1::Target& target, const std::map<std::string, std::vector<std::string>>& comments) {
  std::string printed, text;
  google::protobuf::TextFormat::PrintToString(target, &printed);
  std::vector<Level> levels = {{"", v1::Target::descriptor(), {}}};
  for (absl::string_view line : absl::StrSplit(printed, '\n', absl::SkipEmpty())) {
    const std::string content(absl::StripAsciiWhitespace(line));
    if (content == "}") {
      levels.pop_back();
      absl::StrAppend(&text, line, "\n");
      continue;
    }
    Level& level = levels.back();
    const std::string name = content.substr(0, content.find_first_of(": "));
    const FieldDescriptor* field = level.type->FindFieldByName(name);
    if (!field) std::abort();  // every printed field exists
    std::string place = level.place.empty() ? name : absl::StrCat(level.place, ".", name);
    if (field->is_repeated()) absl::StrAppend(&place, "[", level.seen[name]++, "]");
    if (const auto found = comments.find(place); found != comments.end())
      for (const std::string& comment : found->second)
        absl::StrAppend(&text, std::string(2 * (levels.size() - 1), ' '), "# ", comment, "\n");
    absl::StrAppend(&text, line, "\n");
    if (absl::EndsWith(content, "{")) levels.push_back({place, field->message_type(), {}});
  }
  return text;
}

}  // namespace tessera::compiler
