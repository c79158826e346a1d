#include "storage/s3/http_client.h"

#include <curl/curl.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tessera::storage {
namespace {

constexpr size_t kMaxBody = size_t{16} << 20;
constexpr size_t kMaxIdle = 32;  // connections kept; more may be open at once

/// What the callbacks of one transfer fill.
struct Transfer {
  CURL* handle;
  const HttpClient::Sink& sink;
  HttpResponse response;
  absl::Status status;  ///< of the sink
};

size_t takeBody(const char* data, size_t /*one*/, size_t size, void* to) {
  auto& transfer = *static_cast<Transfer*>(to);
  long status = 0;  // NOLINT(google-runtime-int)
  curl_easy_getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &status);
  if (transfer.sink && (status == 200 || status == 206)) {
    transfer.status = transfer.sink({data, size});
    return transfer.status.ok() ? size : 0;
  }
  if (transfer.response.body.size() + size > kMaxBody) return 0;
  transfer.response.body.append(data, size);
  return size;
}

size_t takeHeader(const char* data, size_t /*one*/, size_t size, void* to) {
  auto& headers = static_cast<Transfer*>(to)->response.headers;
  const std::string_view line(data, size);
  if (line.starts_with("HTTP/")) headers.clear();  // of an interim answer
  if (const size_t colon = line.find(':'); colon != std::string_view::npos) {
    const std::string value(line.substr(colon + 1));
    headers[absl::AsciiStrToLower(std::string(line.substr(0, colon)))] = std::string(absl::StripAsciiWhitespace(value));
  }
  return size;
}

}  // namespace

class HttpClient::Handle {
 public:
  Handle() : curl_(curl_easy_init()) {
    if (curl_ == nullptr) throw std::bad_alloc();
  }
  ~Handle() { curl_easy_cleanup(curl_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  CURL* get() const { return curl_; }

 private:
  CURL* curl_;
};

HttpClient::HttpClient(HttpOptions options) : options_(std::move(options)) {
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)initialized;
}
HttpClient::~HttpClient() = default;

std::unique_ptr<HttpClient::Handle> HttpClient::take() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<Handle>();
  auto handle = std::move(idle_.back());
  idle_.pop_back();
  return handle;
}

void HttpClient::giveBack(std::unique_ptr<Handle> handle) {
  curl_easy_reset(handle->get());  // keeps the connections
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kMaxIdle) idle_.push_back(std::move(handle));
}

absl::StatusOr<HttpResponse> HttpClient::send(const HttpRequest& request, const Sink& sink) {
  auto handle = take();
  CURL* const curl = handle->get();
  Transfer transfer{curl, sink, {}, {}};
  // libcurl would wait for "100 Continue", and call the body a form.
  curl_slist* headers = curl_slist_append(nullptr, "Expect:");
  headers = curl_slist_append(headers, "Content-Type: application/octet-stream");
  for (const auto& [name, value] : request.headers) {
    headers = curl_slist_append(headers, absl::StrCat(name, ": ", value).c_str());
  }
  const absl::Cleanup free_headers = [&] { curl_slist_free_all(headers); };
  char error[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (request.method == "PUT" || request.method == "POST") {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.data());
  } else if (request.method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  }
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, options_.connect_timeout_s);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, options_.idle_timeout_s);
  if (!options_.ca_file.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, options_.ca_file.c_str());
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, takeBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, takeHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  const CURLcode result = curl_easy_perform(curl);
  long status = 0;  // NOLINT(google-runtime-int)
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  giveBack(std::move(handle));
  if (!transfer.status.ok()) return transfer.status;
  if (result != CURLE_OK) {
    return absl::UnavailableError(error[0] != '\0' ? error : curl_easy_strerror(result));
  }
  transfer.response.status = static_cast<int>(status);
  return std::move(transfer.response);
}

int64_t parseHttpDate(const std::string& text) { return curl_getdate(text.c_str(), nullptr); }

}  // namespace tessera::storage
