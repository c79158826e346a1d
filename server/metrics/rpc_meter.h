#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <set>
#include <string>
#include <vector>

#include "server/metrics/metrics.h"

namespace tessera::server {

/// Counts and times every call of a server, streams and refused ones included. `metrics` must outlive the server.
/// Methods that none of the services has, whose names anybody may make up, count together as "unknown".
class RpcMeter : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  /// `services`: by their names, "tessera.v1.JobService". gRPC's own need not be named.
  RpcMeter(Metrics& metrics, const std::vector<std::string>& services);
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override;

 private:
  Metrics& metrics_;
  std::set<std::string> methods_;  ///< "tessera.v1.JobService/GetJob"
};

}  // namespace tessera::server
