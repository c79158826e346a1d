#include "server/gateway/gateway.h"

#include <atomic>
#include <utility>

#include "proto/support/status_macros.h"
#include "server/gateway/answers.h"
#include "server/gateway/connection.h"
#include "server/gateway/listener.h"

namespace tessera::server::gateway {
namespace {

class HttpGateway : public Gateway {
 public:
  HttpGateway(const WebOptions& options, std::shared_ptr<grpc::Channel> services)
      : options_(options),
        upstream_(std::move(services)),
        answers_(upstream_, hostNames(options.hosts), options_.limits, stopping_) {}
  ~HttpGateway() override { stop(); }

  absl::Status open() {
    std::shared_ptr<SSL_CTX> tls;
    if (options_.tls) {
      TESSERA_ASSIGN_OR_RETURN(tls, tlsContext(*options_.tls));
    }
    for (std::string address : options_.listen) {
      listeners_.push_back(makeListener(answers_, tls, options_.limits));
      TESSERA_RETURN_IF_ERROR(listeners_.back()->open(address, "--web-listen"));
      addresses_.push_back(address);
    }
    return absl::OkStatus();
  }

  const std::vector<std::string>& addresses() const override { return addresses_; }

  void stop() override {
    stopping_ = true;
    for (const auto& listener : listeners_) {
      listener->end();
    }
  }

 private:
  const WebOptions options_;
  std::atomic<bool> stopping_ = false;
  Upstream upstream_;
  Answers answers_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::string> addresses_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Gateway>> Gateway::start(const WebOptions& options,
                                                        std::shared_ptr<grpc::Channel> services) {
  auto gateway = std::make_unique<HttpGateway>(options, std::move(services));
  TESSERA_RETURN_IF_ERROR(gateway->open());
  return gateway;
}

}  // namespace tessera::server::gateway
