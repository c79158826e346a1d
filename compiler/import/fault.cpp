#include "absl/strings/escaping.h"
#include "compiler/import/model_error.h"
#include "google/protobuf/stubs/common.h"

namespace tessera::compiler {
namespace {

/// Failure's fields are proto3 strings and must be UTF-8, but text of the model may be any bytes.
std::string cleaned(std::string_view text, size_t limit) {
  std::string_view head = text.substr(0, limit);
  bool control = false;
  for (unsigned char c : head) control |= c < 0x20 || c == 0x7f;
  const bool valid = google::protobuf::internal::IsStructurallyValidUTF8(head.data(), static_cast<int>(head.size()));
  std::string result = control || !valid ? absl::CHexEscape(std::string(head)) : std::string(head);
  if (head.size() < text.size()) result += "...";
  return result;
}

}  // namespace

std::string printable(std::string_view text) { return cleaned(text, 200); }

absl::Status fault(v1::Failure::Reason reason, std::string_view message, const ErrorDetails& details) {
  v1::Failure failure;
  failure.set_reason(reason);
  failure.set_message(cleaned(message, 8000));
  failure.set_node(printable(details.node));
  failure.set_op_type(printable(details.op_type));
  failure.set_attribute(printable(details.attribute));
  failure.set_found(printable(details.found));
  failure.set_accepted(cleaned(details.accepted, 2000));
  failure.set_fix(cleaned(details.remedy, 2000));
  return failureStatus(failure);
}

}  // namespace tessera::compiler
