#include "server/services/grpc_status.h"

#include <string>
#include <string_view>

#include "proto/messages/failure.h"
#include "proto/support/printable.h"

namespace tessera::server {

namespace {

/// A byte of the message can take three in the trailer (percent encoding); three bytes of details take four (base64).
constexpr size_t kMessageBytes = 1200;
constexpr size_t kTextBytes = 500;     ///< of each text of a failure
constexpr size_t kDetailBytes = 2100;  ///< of all texts together
constexpr size_t kAgainBytes = 300;    ///< of the message's copy in the details
constexpr std::string_view kCut = " [...]";

/// Cuts to at most `limit` bytes, at a UTF-8 boundary.
std::string cut(const std::string& text, size_t limit) {
  return text.size() <= limit ? text : std::string(firstBytes(text, limit - kCut.size())).append(kCut);
}

std::string detailsOf(const absl::Status& status) {
  v1::Failure failure = failureOf(status);
  for (size_t limit = kTextBytes; failure.ByteSizeLong() > kDetailBytes && limit > kCut.size(); limit /= 2) {
    failure.set_message(cut(failure.message(), 2 * limit));
    for (std::string* text : {failure.mutable_node(), failure.mutable_op_type(), failure.mutable_attribute(),
                              failure.mutable_found(), failure.mutable_accepted(), failure.mutable_fix()}) {
      *text = cut(*text, limit);
    }
  }
  absl::Status short_one(status.code(), cut(std::string(status.message()), kAgainBytes));
  failureStatus(failure).ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { short_one.SetPayload(url, payload); });
  return toRpcStatus(short_one).SerializeAsString();
}

}  // namespace

grpc::Status toGrpc(const absl::Status& status) {
  if (status.ok()) {
    return grpc::Status::OK;
  }
  std::string details;
  bool has_failure = false;
  status.ForEachPayload([&](absl::string_view, const absl::Cord&) { has_failure = true; });
  if (has_failure) {
    details = detailsOf(status);
  }
  return {static_cast<grpc::StatusCode>(status.code()), cut(std::string(status.message()), kMessageBytes), details};
}

}  // namespace tessera::server
