#pragma once

#include <google/protobuf/message.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/gateway/routes.h"
#include "tessera/v1/failure.pb.h"

/// HTTP requests to messages and back, by protobuf's JSON mapping.
namespace tessera::server::gateway {

using Parameters = std::multimap<std::string, std::string>;

/// Builds a route's request from the body (JSON; may be empty), then the query's parameters, then the path's variables.
/// Fields have either of their names ("pageSize", "page_size"); nested ones have dotted paths. INVALID_ARGUMENT for an
/// unknown field or a value that does not parse, with the accepted ones.
absl::StatusOr<std::unique_ptr<google::protobuf::Message>> requestOf(const Match& match, const Parameters& query,
                                                                     const std::string& body);

/// An empty response of the route's method.
std::unique_ptr<google::protobuf::Message> responseOf(const Route& route);

std::string toJson(const google::protobuf::Message& message);

/// HTTP status of an error, as google.rpc.Code defines it.
int httpStatus(absl::StatusCode code);

/// {"error": {"code": 404, "status": "NOT_FOUND", "message": "...", "details": [...]}}, the form of google.rpc.Status;
/// a Failure is a detail.
std::string errorJson(const absl::Status& status);

}  // namespace tessera::server::gateway
