#include "server/gateway/csrf_guard.h"

#include <arpa/inet.h>
#include <google/protobuf/stubs/common.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/support/status_macros.h"
#include "server/gateway/web_limits.h"

namespace tessera::server::gateway {
namespace {

/// "build.example.com:7480" without the port; "[::1]:7480" without brackets.
std::string hostWithoutPort(const std::string& header) {
  if (absl::StartsWith(header, "[")) {
    const size_t close = header.find(']');
    const bool whole = close != std::string::npos && (close + 1 == header.size() || header[close + 1] == ':');
    return whole ? header.substr(1, close - 1) : std::string();
  }
  return absl::AsciiStrToLower(header.substr(0, header.rfind(':')));
}

bool isFigures(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 || inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool isText(const std::string& bytes) {
  return google::protobuf::internal::IsStructurallyValidUTF8(bytes.data(), static_cast<int>(bytes.size()));
}

absl::Status checkHost(const httplib::Request& request, const HostNames& names) {
  if (request.get_header_value_count("Host") != 1) {
    return absl::InvalidArgumentError("a request names one host");
  }
  const std::string host = hostWithoutPort(request.get_header_value("Host"));
  if (host == "localhost" || isFigures(host) || std::find(names.begin(), names.end(), host) != names.end()) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat("this service is not called \"", host.substr(0, 253),
                                                  "\"; if it is, start tesserad with --web-host ",
                                                  host.substr(0, 253)));
}

absl::Status checkOrigin(const httplib::Request& request) {
  const std::string origin = request.get_header_value("Origin");
  const std::string host = absl::AsciiStrToLower(request.get_header_value("Host"));
  if (request.has_header("Origin") && origin != absl::StrCat("http://", host) &&
      origin != absl::StrCat("https://", host)) {
    return absl::PermissionDeniedError("pages of other sites may not ask this service");
  }
  const std::string site = request.get_header_value("Sec-Fetch-Site");
  const bool followed = request.get_header_value("Sec-Fetch-Mode") == "navigate" && request.method == "GET";
  if ((site == "cross-site" || site == "same-site") && !followed) {
    return absl::PermissionDeniedError("pages of other sites may not ask this service");
  }
  return absl::OkStatus();
}

/// The end of a body must be stated exactly once; otherwise a proxy in front could see different requests (smuggling).
absl::Status checkLength(const httplib::Request& request) {
  const size_t codings = request.get_header_value_count("Transfer-Encoding");
  if (request.get_header_value_count("Content-Length") + codings > 1 ||
      (codings == 1 && absl::AsciiStrToLower(request.get_header_value("Transfer-Encoding")) != "chunked")) {
    return absl::InvalidArgumentError(
        "the length of a body is said once, by Content-Length or by Transfer-Encoding: chunked");
  }
  return absl::OkStatus();
}

absl::Status checkBody(const httplib::Request& request) {
  if (!request.has_header("Authorization") && !request.has_header("X-Tessera")) {
    return absl::PermissionDeniedError(
        "what does something needs a token (Authorization: Bearer ...) or the header X-Tessera, with any value: so no "
        "other site's page can do it");
  }
  // Compressed bodies can expand to any size, and forms are parsed differently.
  if (request.has_header("Content-Encoding")) {
    return absl::InvalidArgumentError("Content-Encoding: bodies are taken as they are, not packed");
  }
  // Without a length the body would be read until the peer disconnects.
  if (!request.has_header("Content-Length") && !request.has_header("Transfer-Encoding")) {
    return absl::InvalidArgumentError("Content-Length: say how long the body is; 0 where there is none");
  }
  size_t length = 0;
  if (request.has_header("Content-Length") &&
      (!absl::SimpleAtoi(request.get_header_value("Content-Length"), &length) || length > WebLimits::kMaxBodyBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a body has at most ", WebLimits::kMaxBodyBytes, " bytes; models and tensors go over gRPC"));
  }
  const std::string type = absl::AsciiStrToLower(request.get_header_value("Content-Type"));
  const bool empty = request.get_header_value("Content-Length") == "0";
  if (!(empty && type.empty()) && type != "application/json" && !absl::StartsWith(type, "application/json;")) {
    return absl::InvalidArgumentError("Content-Type: a body is application/json");
  }
  return absl::OkStatus();
}

}  // namespace

HostNames hostNames(HostNames names) {
  char own[256] = "";
  if (::gethostname(own, sizeof(own) - 1) == 0 && own[0] != '\0') {
    names.emplace_back(own);
  }
  for (std::string& name : names) {
    name = absl::AsciiStrToLower(name);
  }
  return names;
}

absl::Status checkCrossSite(const httplib::Request& request, const HostNames& names) {
  TESSERA_RETURN_IF_ERROR(checkHost(request, names));
  TESSERA_RETURN_IF_ERROR(checkOrigin(request));
  if (request.path.size() > WebLimits::kMaxPathBytes || request.params.size() > WebLimits::kMaxParameters) {
    return absl::InvalidArgumentError(absl::StrCat("a path has at most ", WebLimits::kMaxPathBytes,
                                                   " bytes, a query at most ", WebLimits::kMaxParameters,
                                                   " parameters"));
  }
  // protobuf would log invalid UTF-8 instead of reporting it to the caller.
  bool text = isText(request.path);
  for (const auto& [name, value] : request.params) {
    text = text && isText(name) && isText(value);
  }
  if (!text) {
    return absl::InvalidArgumentError("paths and parameters are UTF-8");
  }
  TESSERA_RETURN_IF_ERROR(checkLength(request));
  if (request.method == "POST") {
    return checkBody(request);
  }
  if (request.method != "GET" && request.method != "HEAD") {
    return absl::UnimplementedError("GET looks, POST does; there is nothing else");
  }
  if (request.has_header("Transfer-Encoding") ||
      (request.has_header("Content-Length") && request.get_header_value("Content-Length") != "0")) {
    return absl::InvalidArgumentError("a request that only looks has no body");
  }
  return absl::OkStatus();
}

void addSafetyHeaders(httplib::Response& response) {
  static const std::pair<const char*, const char*> kHeaders[] = {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
  };
  for (const auto& [name, value] : kHeaders) {
    if (!response.has_header(name)) {
      response.set_header(name, value);
    }
  }
  if (!response.has_header("Cache-Control")) {
    response.set_header("Cache-Control", "no-store");
  }
}

}  // namespace tessera::server::gateway
