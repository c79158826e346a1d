#pragma once

#include <httplib.h>

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "server/access/concurrency_limiter.h"
#include "server/gateway/csrf_guard.h"
#include "server/gateway/listener.h"
#include "server/gateway/routes.h"
#include "server/gateway/upstream.h"
#include "server/gateway/web_limits.h"

namespace tessera::server::gateway {

/// Answers requests: files of the page, unary calls, reports, event streams. Thread-safe.
class Answers : public HttpService {
 public:
  Answers(Upstream& upstream, HostNames names, const WebLimits& limits, const std::atomic<bool>& stopping);

  bool refuse(const httplib::Request& request, httplib::Response& response) const override;
  void answer(const httplib::Request& request, const WebCaller& caller, httplib::Response& response) override;

 private:
  void page(const httplib::Request& request, httplib::Response& response) const;
  absl::Status call(const Match& match, const httplib::Request& request, const WebCaller& caller,
                    httplib::Response& response);
  absl::Status report(const Match& match, const WebCaller& caller, httplib::Response& response);
  absl::Status watch(const Match& match, const httplib::Request& request, const WebCaller& caller,
                     httplib::Response& response);

  Upstream& upstream_;
  const HostNames names_;
  const WebLimits& limits_;
  const std::atomic<bool>& stopping_;
  ConcurrencyLimiter watchers_, reports_, calls_, large_;
};

/// Turns the answer into an error, in JSON.
void setError(httplib::Response& response, const absl::Status& status);

}  // namespace tessera::server::gateway
