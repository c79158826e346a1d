#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <set>
#include <string>
#include <vector>

#include "server/metrics/metrics.h"

namespace tessera::server {

/// Counts and times all calls of a server, including streams and rejected calls. `metrics` must outlive the server.
/// Unknown methods are counted together as "unknown", since anyone can invent names.
class RpcMeter : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  /// `services`: full names, "tessera.v1.JobService". gRPC's own services need not be listed.
  RpcMeter(Metrics& metrics, const std::vector<std::string>& services);
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override;

 private:
  Metrics& metrics_;
  std::set<std::string> methods_;  ///< "tessera.v1.JobService/GetJob"
};

}  // namespace tessera::server
