#include "proto/messages/failure.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "proto/messages/failure_class.h"

namespace tessera {
namespace {

constexpr char kPayloadType[] = "type.googleapis.com/tessera.v1.Failure";

/// Length of the UTF-8 character at the start of `text`; 0 if there is none.
size_t characterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong encoding, surrogate, or beyond U+10FFFF (RFC 3629, section 4).
  const bool outside = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f) ||
                       (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f);
  return outside ? 0 : bytes;
}

/// Replaces bytes that are not valid UTF-8 by \xNN.
std::string readable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t bytes = characterBytes(text);
    if (bytes == 0) {
      result += absl::StrCat("\\x", absl::Hex(static_cast<unsigned char>(text[0]), absl::kZeroPad2));
    } else {
      result.append(text.substr(0, bytes));
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return result;
}

/// Sanitizes the text fields. A failure quotes untrusted input, and protobuf rejects a whole message that contains
/// invalid UTF-8, including the reason.
v1::Failure quotable(const v1::Failure& given) {
  v1::Failure failure = given;
  for (std::string* text :
       {failure.mutable_message(), failure.mutable_node(), failure.mutable_op_type(), failure.mutable_attribute(),
        failure.mutable_found(), failure.mutable_accepted(), failure.mutable_fix()}) {
    *text = readable(*text);
  }
  return failure;
}

}  // namespace

absl::Status failureStatus(const v1::Failure& given) {
  const v1::Failure failure = quotable(given);
  absl::Status status(classOf(failure.reason()).code, failure.message());
  // By view: Cord's string constructors are templates whose mangling differs between g++ 12 and clang 22.
  const std::string bytes = failure.SerializeAsString();
  status.SetPayload(kPayloadType, absl::Cord(absl::string_view(bytes)));
  return status;
}

absl::Status failureStatus(v1::Failure::Reason reason, const std::string& message) {
  v1::Failure failure;
  failure.set_reason(reason);
  failure.set_message(message);
  return failureStatus(failure);
}

v1::Failure failureOf(const absl::Status& status) {
  v1::Failure failure;
  if (auto payload = status.GetPayload(kPayloadType); payload && failure.ParseFromString(std::string(*payload))) {
    return failure;
  }
  failure.Clear();
  failure.set_reason(v1::Failure::INTERNAL);
  failure.set_message(std::string(status.message()));
  return failure;
}

v1::RpcStatus toRpcStatus(const absl::Status& status) {
  v1::RpcStatus result;
  result.set_code(static_cast<int>(status.code()));
  result.set_message(readable(std::string_view(status.message().data(), status.message().size())));
  if (const auto payload = status.GetPayload(kPayloadType)) {
    google::protobuf::Any* detail = result.add_details();
    detail->set_type_url(kPayloadType);
    detail->set_value(std::string(*payload));
  }
  return result;
}

std::optional<v1::Failure> failureInDetails(const std::string& details) {
  v1::RpcStatus status;
  if (!status.ParseFromString(details)) return std::nullopt;
  for (const google::protobuf::Any& detail : status.details()) {
    v1::Failure failure;
    if (detail.type_url() == kPayloadType && failure.ParseFromString(detail.value())) return failure;
  }
  return std::nullopt;
}

}  // namespace tessera
