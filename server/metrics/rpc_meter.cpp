#include "server/metrics/rpc_meter.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

namespace tessera::server {
namespace {

/// One call; lives as long as gRPC's call object.
class MeteredCall : public grpc::experimental::Interceptor {
 public:
  MeteredCall(Metrics& metrics, const std::string& method)
      : metrics_(metrics), calls_(metrics.callsOf(method)), begin_(std::chrono::steady_clock::now()) {
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
  int code_ = grpc::StatusCode::CANCELLED;  // a call without a status was abandoned by its client
};

}  // namespace

RpcMeter::RpcMeter(Metrics& metrics, const std::vector<std::string>& services)
    : metrics_(metrics),
      methods_{"grpc.health.v1.Health/Check", "grpc.health.v1.Health/Watch",
               "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
               "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"} {
  for (const std::string& name : services) {
    const auto* service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    for (int i = 0; i < service->method_count(); ++i) {
      methods_.insert(absl::StrCat(name, "/", service->method(i)->name()));
    }
  }
}

grpc::experimental::Interceptor* RpcMeter::CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) {
  const char* sent = info->method();
  const std::string method = sent != nullptr && sent[0] == '/' ? sent + 1 : "";
  return new MeteredCall(metrics_, methods_.contains(method) ? method : "unknown");
}

}  // namespace tessera::server
