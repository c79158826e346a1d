#pragma once

#include <grpcpp/support/server_interceptor.h>

#include "server/metrics/metrics.h"

namespace tessera::server {

/// Counts and times every call of a server, streams and refused ones included. `metrics` must outlive the server.
class RpcMeter : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit RpcMeter(Metrics& metrics) : metrics_(metrics) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override;

 private:
  Metrics& metrics_;
};

}  // namespace tessera::server
