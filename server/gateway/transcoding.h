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

/// HTTP to messages and back, by protobuf's JSON mapping.
namespace tessera::server::gateway {

using Parameters = std::multimap<std::string, std::string>;

/// The request of a route: the body (JSON; empty: none), then the query's parameters, then the path's variables.
/// Fields go by either of their names ("pageSize", "page_size"), nested ones by dotted paths. INVALID_ARGUMENT names
/// what is unknown or does not parse, and what is accepted.
absl::StatusOr<std::unique_ptr<google::protobuf::Message>> requestOf(const Match& match, const Parameters& query,
                                                                     const std::string& body);

/// An empty response of the route's method.
std::unique_ptr<google::protobuf::Message> responseOf(const Route& route);

std::string toJson(const google::protobuf::Message& message);

/// HTTP's status for an error, as google.rpc.Code maps them.
int httpStatus(absl::StatusCode code);

/// {"error": {"code": 404, "status": "NOT_FOUND", "message": "...", "details": [...]}}, the shape of google.rpc.Status;
/// a Failure that rides along is its detail.
std::string errorJson(const absl::Status& status);

}  // namespace tessera::server::gateway
