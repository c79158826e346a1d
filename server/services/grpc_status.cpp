#include "server/services/grpc_status.h"

#include <string>

#include "proto/failure.h"

namespace tessera::server {

grpc::Status toGrpc(const absl::Status& status) {
  if (status.ok()) {
    return grpc::Status::OK;
  }
  std::string details;
  bool has_failure = false;
  status.ForEachPayload([&](absl::string_view, const absl::Cord&) { has_failure = true; });
  if (has_failure) {
    details = failureOf(status).SerializeAsString();
  }
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message()), details};
}

}  // namespace tessera::server
