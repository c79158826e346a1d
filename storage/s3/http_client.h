#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tessera::storage {

struct HttpRequest {
  std::string method, url;
  std::map<std::string, std::string> headers = {};
  std::string_view body = {};
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  ///< by lower-case name
  std::string body;                            ///< at most 16 MiB; empty if a sink took it
};

struct HttpOptions {
  std::string ca_file;          ///< PEM file of authorities; empty: the system's
  long connect_timeout_s = 10;  ///< NOLINT(google-runtime-int): libcurl's type
  long idle_timeout_s = 30;     ///< NOLINT(google-runtime-int): a transfer that stands still for this long fails
};

/// Sends HTTP requests by libcurl, over connections that are kept. Does not follow redirects. Thread-safe.
class HttpClient {
 public:
  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  using Sink = std::function<absl::Status(std::string_view chunk)>;

  /// UNAVAILABLE if the connection fails or ends early. If the answer's status is 200 or 206, `sink` (if set) gets the
  /// body in chunks; an error that it returns ends the transfer and is returned.
  absl::StatusOr<HttpResponse> send(const HttpRequest& request, const Sink& sink = nullptr);

 private:
  class Handle;

  std::unique_ptr<Handle> take();
  void giveBack(std::unique_ptr<Handle> handle);

  const HttpOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Handle>> idle_;
};

/// Seconds since the epoch of a date in a header or an S3 answer; -1 if it cannot be read.
int64_t parseHttpDate(const std::string& text);

}  // namespace tessera::storage
