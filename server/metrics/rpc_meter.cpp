#include "server/metrics/rpc_meter.h"

#include <chrono>

namespace tessera::server {
namespace {

/// One call: it lives as long as gRPC keeps the call.
class MeteredCall : public grpc::experimental::Interceptor {
 public:
  MeteredCall(Metrics& metrics, const char* method)
      : metrics_(metrics),
        // "/tessera.v1.JobService/GetJob" without what all have.
        calls_(metrics.callsOf(method != nullptr && method[0] == '/' ? method + 1 : "unknown")),
        begin_(std::chrono::steady_clock::now()) {
    metrics_.callBegan();
  }
  ~MeteredCall() override {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin_;
    metrics_.callEnded(calls_, code_, took.count());
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_STATUS)) {
      code_ = methods->GetSendStatus().error_code();
    }
    methods->Proceed();
  }

 private:
  Metrics& metrics_;
  Metrics::Calls& calls_;
  const std::chrono::steady_clock::time_point begin_;
  int code_ = grpc::StatusCode::CANCELLED;  // a call that ends without a status was left by its client
};

}  // namespace

grpc::experimental::Interceptor* RpcMeter::CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) {
  return new MeteredCall(metrics_, info->method());
}

}  // namespace tessera::server
