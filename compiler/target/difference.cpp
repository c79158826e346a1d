#include "compiler/target/difference.h"

#include <google/protobuf/text_format.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "compiler/target/chip.h"
#include "compiler/target/element_text.h"
#include "compiler/target/instruction_sets.h"

namespace tessera::compiler {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string keyOf(const Message& entry, int position) {
  const FieldDescriptor* name = entry.GetDescriptor()->FindFieldByName("name");
  if (name) return entry.GetReflection()->GetString(entry, name);
  if (entry.GetDescriptor() == v1::ComputeUnit::Rate::descriptor()) {
    const auto& rate = static_cast<const v1::ComputeUnit::Rate&>(entry);
    return rate.dtype() == v1::DATA_TYPE_UNSPECIFIED ? rate.operation()
                                                     : absl::StrCat(rate.operation(), " ", elementText(rate.dtype()));
  }
  return absl::StrCat(position);
}

void flatten(const Message& message, const std::string& prefix, std::map<std::string, std::string>& fields) {
  std::vector<const FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  for (const FieldDescriptor* field : set) {
    const std::string path = prefix + field->name();
    // Messages become paths down to plain fields ("levels[L1].capacity"); a list of plain values stays one entry.
    const bool nested = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (nested && !field->is_repeated()) {
      flatten(message.GetReflection()->GetMessage(message, field), path + ".", fields);
    }
    for (int i = 0; nested && field->is_repeated() && i < message.GetReflection()->FieldSize(message, field); ++i) {
      const Message& entry = message.GetReflection()->GetRepeatedMessage(message, field, i);
      flatten(entry, absl::StrCat(path, "[", keyOf(entry, i), "]."), fields);
    }
    if (nested) continue;
    std::string& text = fields[path];
    const int count = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      std::string value;
      google::protobuf::TextFormat::PrintFieldValueToString(message, field, field->is_repeated() ? i : -1, &value);
      absl::StrAppend(&text, i == 0 ? "" : " ", value);
    }
  }
}

std::map<std::string, std::string> flattened(v1::Target target) {
  const std::vector<v1::Intrinsic> instructions = instructionsOf(target);
  *target.mutable_cost_parameters() = completedTarget(target).cost_parameters();
  target.mutable_intrinsics()->Assign(instructions.begin(), instructions.end());
  std::map<std::string, std::string> fields;
  flatten(target, "", fields);
  return fields;
}

}  // namespace

std::vector<TargetDifference> differencesOf(const v1::Target& left, const v1::Target& right) {
  const std::map<std::string, std::string> ours = flattened(left), theirs = flattened(right);
  std::map<std::string, TargetDifference> differences;
  for (const auto& [field, text] : ours) differences[field] = {field, text, ""};
  for (const auto& [field, text] : theirs) {
    differences[field].field = field;
    differences[field].right = text;
  }
  std::vector<TargetDifference> found;
  for (auto& [field, difference] : differences) {
    if (difference.left != difference.right) found.push_back(std::move(difference));
  }
  return found;
}

std::vector<CostParameterText> costParametersOf(const v1::Target& target) {
  std::map<std::string, std::string> all, own;
  flatten(completedTarget(target).cost_parameters(), "", all);
  flatten(target.cost_parameters(), "", own);
  std::vector<CostParameterText> prices;
  for (const auto& [field, value] : all) prices.push_back({field, value, own.contains(field)});
  return prices;
}

}  // namespace tessera::compiler
