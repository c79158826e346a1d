#include "compiler/codegen/testing/tree_mutations.h"

#include <gtest/gtest.h>

namespace tessera::compiler::codegen::testing {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

Mutations::Mutations(const v1::Schedule& schedule, std::mt19937& random) : schedule_(schedule), random_(random) {
  collect(schedule, {});
}

std::pair<v1::Schedule, std::string> Mutations::at(size_t place) {
  v1::Schedule changed = schedule_;
  Message* message = &changed;
  const Place& where = places_[place];
  std::string path;
  for (auto [field, index] : where.path) {
    message = field->is_repeated() ? message->GetReflection()->MutableRepeatedMessage(message, field, index)
                                   : message->GetReflection()->MutableMessage(message, field);
    path += field->name() + "[" + std::to_string(index) + "].";
  }
  change(*message, where.field, where.index);
  return {std::move(changed), path + where.field->name()};
}

void Mutations::collect(const Message& message, const std::vector<std::pair<const FieldDescriptor*, int>>& path) {
  const auto* reflection = message.GetReflection();
  for (int f = 0; f < message.GetDescriptor()->field_count(); ++f) {
    const FieldDescriptor* field = message.GetDescriptor()->field(f);
    const bool nested = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    const int size = field->is_repeated() ? reflection->FieldSize(message, field)
                                          : (nested && !reflection->HasField(message, field) ? 0 : 1);
    for (int i = 0; i < size; ++i) {
      if (!nested) {
        places_.push_back({path, field, i});
        continue;
      }
      places_.push_back({path, field, i});  // removed
      auto deeper = path;
      deeper.emplace_back(field, i);
      collect(field->is_repeated() ? reflection->GetRepeatedMessage(message, field, i)
                                   : reflection->GetMessage(message, field),
              deeper);
    }
  }
}

void Mutations::change(Message& message, const FieldDescriptor* field, int index) {
  const auto* reflection = message.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    if (!field->is_repeated()) return reflection->ClearField(&message, field);
    for (int i = index; i + 1 < reflection->FieldSize(message, field); ++i)
      reflection->SwapElements(&message, field, i, i + 1);
    return reflection->RemoveLast(&message, field);
  }
  auto number = [&](int64_t old) {
    const int64_t others[] = {old + 1, old - 1, 2 * old, old / 2, old + 16, 0, 1};
    for (int tries = 0; tries < 20; ++tries)
      if (const int64_t other = others[random_() % 7]; other != old) return other;
    return old + 3;
  };
  auto text = [&](const std::string& old) -> std::string {
    const char* others[] = {"i0",
                            "i1",
                            "i2",
                            "r1",
                            "r2",
                            "d0",
                            "d1",
                            "core",
                            "L2",
                            "pack",
                            "scalar",
                            "reduction",
                            "outer-product",
                            "sliding",
                            "panels",
                            "apart",
                            ""};
    for (int tries = 0; tries < 40; ++tries)
      if (const std::string other = others[random_() % std::size(others)]; other != old) return other;
    return old + "x";
  };
  const bool repeated = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      if (repeated)
        return reflection->SetRepeatedInt32(
            &message, field, index, static_cast<int32_t>(number(reflection->GetRepeatedInt32(message, field, index))));
      return reflection->SetInt32(&message, field, static_cast<int32_t>(number(reflection->GetInt32(message, field))));
    case FieldDescriptor::CPPTYPE_INT64:
      if (repeated)
        return reflection->SetRepeatedInt64(&message, field, index,
                                            number(reflection->GetRepeatedInt64(message, field, index)));
      return reflection->SetInt64(&message, field, number(reflection->GetInt64(message, field)));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->SetBool(&message, field, !reflection->GetBool(message, field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->SetEnumValue(&message, field, (reflection->GetEnumValue(message, field) + 1) % 5);
    case FieldDescriptor::CPPTYPE_STRING:
      if (repeated)
        return reflection->SetRepeatedString(&message, field, index,
                                             text(reflection->GetRepeatedString(message, field, index)));
      return reflection->SetString(&message, field, text(reflection->GetString(message, field)));
    default:
      FAIL() << "a field of a type that no mutation knows: " << field->full_name();
  }
}

}  // namespace tessera::compiler::codegen::testing
