#include "server/queue/digest_references.h"

#include <vector>

#include "proto/support/sha256.h"

namespace tessera::server {

// By reflection, so that a new field with a digest keeps its blob alive without anybody listing it here. A text that
// only looks like a digest keeps a blob longer than needed, which is harmless.
void forEachSha256(const google::protobuf::Message& message, const std::function<void(const std::string&)>& use) {
  using google::protobuf::FieldDescriptor;
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  std::string scratch;
  for (const FieldDescriptor* field : fields) {
    const bool many = field->is_repeated();
    const int count = many ? reflection->FieldSize(message, field) : 1;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      for (int i = 0; i < count; ++i) {
        forEachSha256(many ? reflection->GetRepeatedMessage(message, field, i) : reflection->GetMessage(message, field),
                      use);
      }
    } else if (field->type() == FieldDescriptor::TYPE_STRING) {
      for (int i = 0; i < count; ++i) {
        const std::string& text = many ? reflection->GetRepeatedStringReference(message, field, i, &scratch)
                                       : reflection->GetStringReference(message, field, &scratch);
        if (isSha256(text)) {
          use(text);
        }
      }
    }
  }
}

}  // namespace tessera::server
