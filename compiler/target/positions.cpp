#include "compiler/target/positions.h"

#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "compiler/target/text_parser.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

void walk(const Message& message, const TextFormat::ParseInfoTree& tree, const std::string& prefix,
          std::map<std::string, PositionedTarget::Position>& fields) {
  std::vector<const FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  for (const FieldDescriptor* field : set) {
    const int count = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const int index = field->is_repeated() ? i : -1;
      std::string path = absl::StrCat(prefix, field->name());
      if (field->is_repeated()) absl::StrAppend(&path, "[", i, "]");
      const TextFormat::ParseLocation location = tree.GetLocation(field, index);
      if (location.line >= 0) fields[path] = {location.line + 1, location.column + 1};
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      const Message& inner = field->is_repeated() ? message.GetReflection()->GetRepeatedMessage(message, field, i)
                                                  : message.GetReflection()->GetMessage(message, field);
      if (const auto* below = tree.GetTreeForNested(field, index)) walk(inner, *below, path + ".", fields);
    }
  }
}

}  // namespace

PositionedTarget::Position PositionedTarget::at(std::string path) const {
  while (!path.empty()) {
    if (const auto found = fields.find(path); found != fields.end()) return found->second;
    const size_t cut = path.find_last_of(".[");
    path.resize(cut == std::string::npos ? 0 : cut);
  }
  return {1, 1};
}

absl::StatusOr<PositionedTarget> parseTargetWithPositions(const std::string& text) {
  TextFormat::ParseInfoTree tree;
  TESSERA_ASSIGN_OR_RETURN(v1::Target target, parseTargetText(text, &tree));
  PositionedTarget positioned{std::move(target), {}};
  walk(positioned.target, tree, "", positioned.fields);
  return positioned;
}

}  // namespace tessera::compiler
