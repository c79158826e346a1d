#include "compiler/backends/cpu/testing/tree_mutations.h"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/kernel_traits.h"

namespace tessera::compiler::codegen::testing {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

namespace {

bool isNested(const FieldDescriptor* field) { return field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE; }

/// Whether two elements of a repeated field are the same.
bool areEqual(const Message& message, const FieldDescriptor* field, int a, int b) {
  const auto* reflection = message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageDifferencer::Equals(reflection->GetRepeatedMessage(message, field, a),
                                        reflection->GetRepeatedMessage(message, field, b));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->GetRepeatedString(message, field, a) == reflection->GetRepeatedString(message, field, b);
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->GetRepeatedInt32(message, field, a) == reflection->GetRepeatedInt32(message, field, b);
    default:
      return reflection->GetRepeatedInt64(message, field, a) == reflection->GetRepeatedInt64(message, field, b);
  }
}

}  // namespace

Mutations::Mutations(const v1::Schedule& schedule, std::mt19937& random) : schedule_(schedule), random_(random) {
  for (const KernelTraits& kernel : kKernels) words_.emplace_back(kernel.name);
  for (const char* word : {"i0", "i1", "i2", "r1", "r2", "d0", "d1", "core", "L2", "panels", "apart", "strided", ""})
    words_.emplace_back(word);
  collect(schedule, {});
}

std::pair<v1::Schedule, std::string> Mutations::at(size_t place) {
  static constexpr const char* kKinds[] = {"", " less", " twice", " more", " swapped"};
  v1::Schedule changed = schedule_;
  Message* message = &changed;
  const Place& where = places_[place];
  std::string path;
  for (auto [field, index] : where.path) {
    message = field->is_repeated() ? message->GetReflection()->MutableRepeatedMessage(message, field, index)
                                   : message->GetReflection()->MutableMessage(message, field);
    absl::StrAppend(&path, field->name(), "[", index, "].");
  }
  change(*message, where);
  return {std::move(changed), absl::StrCat(path, where.field->name(), kKinds[static_cast<int>(where.kind)])};
}

void Mutations::collect(const Message& message, const std::vector<std::pair<Field, int>>& path) {
  const auto* reflection = message.GetReflection();
  messages_.push_back(&message);
  for (int f = 0; f < message.GetDescriptor()->field_count(); ++f) {
    const Field field = message.GetDescriptor()->field(f);
    if (field->is_repeated()) {
      collectRepeated(message, field, path);
      continue;
    }
    if (!isNested(field)) {
      places_.push_back({path, field, 0, Kind::kOther});
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) words_.push_back(reflection->GetString(message, field));
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) numbers_.push_back(reflection->GetInt64(message, field));
      continue;
    }
    // An unset message is created by setting a field in it.
    places_.push_back({path, field, 0, reflection->HasField(message, field) ? Kind::kLess : Kind::kMore});
    auto deeper = path;
    deeper.emplace_back(field, 0);
    collect(reflection->GetMessage(message, field), deeper);
  }
}

void Mutations::collectRepeated(const Message& message, Field field, const std::vector<std::pair<Field, int>>& path) {
  const auto* reflection = message.GetReflection();
  const int size = reflection->FieldSize(message, field);
  for (int i = 0; i < size; ++i) {
    places_.push_back({path, field, i, Kind::kLess});
    places_.push_back({path, field, i, Kind::kTwice});
    if (i + 1 < size && !areEqual(message, field, i, i + 1)) places_.push_back({path, field, i, Kind::kSwapped});
    if (!isNested(field)) {
      places_.push_back({path, field, i, Kind::kOther});
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING)
        words_.push_back(reflection->GetRepeatedString(message, field, i));
      continue;
    }
    auto deeper = path;
    deeper.emplace_back(field, i);
    collect(reflection->GetRepeatedMessage(message, field, i), deeper);
  }
  places_.push_back({path, field, size, Kind::kMore});
}

void Mutations::change(Message& message, const Place& place) {
  const auto* reflection = message.GetReflection();
  const auto [path, field, index, kind] = place;
  switch (kind) {
    case Kind::kOther:
      return setOther(message, field, index);
    case Kind::kLess:
      if (!field->is_repeated()) return reflection->ClearField(&message, field);
      for (int i = index; i + 1 < reflection->FieldSize(message, field); ++i)
        reflection->SwapElements(&message, field, i, i + 1);
      return reflection->RemoveLast(&message, field);
    case Kind::kSwapped:
      return reflection->SwapElements(&message, field, index, index + 1);
    case Kind::kMore:
      if (field->is_repeated()) return addElement(message, field);
      reflection->MutableMessage(&message, field);
      return;
    case Kind::kTwice: {
      if (isNested(field)) {
        // A reference would not survive the growth of the field.
        const std::string bytes = reflection->GetRepeatedMessage(message, field, index).SerializeAsString();
        ASSERT_TRUE(reflection->AddMessage(&message, field)->ParseFromString(bytes));
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        reflection->AddString(&message, field, reflection->GetRepeatedString(message, field, index));
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
        reflection->AddInt32(&message, field, reflection->GetRepeatedInt32(message, field, index));
      } else {
        reflection->AddInt64(&message, field, reflection->GetRepeatedInt64(message, field, index));
      }
      for (int i = reflection->FieldSize(message, field) - 1; i > index + 1; --i)
        reflection->SwapElements(&message, field, i, i - 1);
    }
  }
}

/// Appends an element: for messages a copy from elsewhere in the tree, if there is one.
void Mutations::addElement(Message& message, Field field) {
  const auto* reflection = message.GetReflection();
  if (isNested(field)) {
    std::vector<const Message*> others;
    for (const Message* other : messages_)
      if (other->GetDescriptor() == field->message_type()) others.push_back(other);
    const Message* other = others.empty() ? nullptr : others[random_() % others.size()];
    Message* added = reflection->AddMessage(&message, field);
    if (other) added->CopyFrom(*other);
  } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    reflection->AddString(&message, field, otherText(""));
  } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
    reflection->AddInt32(&message, field, static_cast<int32_t>(otherNumber(0)));
  } else {
    reflection->AddInt64(&message, field, otherNumber(0));
  }
}

int64_t Mutations::otherNumber(int64_t old) {
  const int64_t others[] = {old + 1,  old - 1, 2 * old, old / 2,
                            old + 16, 0,       1,       numbers_.empty() ? 2 : numbers_[random_() % numbers_.size()]};
  for (int tries = 0; tries < 20; ++tries)
    if (const int64_t other = others[random_() % std::size(others)]; other != old) return other;
  return old + 3;
}

std::string Mutations::otherText(const std::string& old) {
  for (int tries = 0; tries < 40; ++tries)
    if (const std::string& other = words_[random_() % words_.size()]; other != old) return other;
  return old + "x";
}

void Mutations::setOther(Message& message, Field field, int index) {
  const auto* reflection = message.GetReflection();
  const bool repeated = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      if (repeated)
        return reflection->SetRepeatedInt32(
            &message, field, index,
            static_cast<int32_t>(otherNumber(reflection->GetRepeatedInt32(message, field, index))));
      return reflection->SetInt32(&message, field,
                                  static_cast<int32_t>(otherNumber(reflection->GetInt32(message, field))));
    case FieldDescriptor::CPPTYPE_INT64:
      if (repeated)
        return reflection->SetRepeatedInt64(&message, field, index,
                                            otherNumber(reflection->GetRepeatedInt64(message, field, index)));
      return reflection->SetInt64(&message, field, otherNumber(reflection->GetInt64(message, field)));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->SetBool(&message, field, !reflection->GetBool(message, field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->SetEnumValue(
          &message, field,
          (reflection->GetEnumValue(message, field) + 1 + static_cast<int>(random_() % 4)) % v1::Tile::Join_ARRAYSIZE);
    case FieldDescriptor::CPPTYPE_STRING:
      if (repeated)
        return reflection->SetRepeatedString(&message, field, index,
                                             otherText(reflection->GetRepeatedString(message, field, index)));
      return reflection->SetString(&message, field, otherText(reflection->GetString(message, field)));
    default:
      FAIL() << "a field of a type that no mutation knows: " << field->full_name();
  }
}

}  // namespace tessera::compiler::codegen::testing
