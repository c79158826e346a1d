#include "proto/channel/identity.h"

#include <arpa/inet.h>
#include <grpcpp/support/client_interceptor.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/messages/project.h"
#include "proto/support/read_file.h"
#include "proto/support/status_macros.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr char kIpv4[] = "ipv4:";

absl::StatusOr<std::string> contentOf(const std::string& path, const char* what) {
  auto content = readFile(path);
  if (!content.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", content.status().message()));
  }
  if (content->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", path, " is empty"));
  }
  return content;
}

/// gRPC ends the process over a header with other characters.
bool isHeaderText(const std::string& text) {  // gRPC aborts the process if a header contains other characters.
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

absl::Status checkToken(const std::string& token, const std::string& from) {
  if (isHeaderText(token)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(from, " holds no token; accepted: the line that `tessera admin token create` prints"));
}

/// Addresses of a list of servers, separated by commas; otherwise empty.
std::vector<std::string> listOf(const std::string& address) {
  if (!absl::StrContains(address, ',')) {
    return {};
  }
  return absl::StrSplit(absl::string_view(address).substr(absl::StartsWith(address, kIpv4) ? sizeof(kIpv4) - 1 : 0),
                        ',');
}

absl::Status checkList(const std::vector<std::string>& servers, const std::string& list) {
  for (const std::string& server : servers) {
    const std::vector<std::string> parts = absl::StrSplit(server, ':');
    in_addr address{};
    int port = 0;
    if (parts.size() != 2 || inet_pton(AF_INET, parts[0].c_str(), &address) != 1 ||
        !absl::SimpleAtoi(parts[1], &port) || port < 1 || port > 65535) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the servers' addresses: found '", server, "' in '", list,
          "', accepted: IPv4 addresses with ports, separated by commas; servers with names: one name that resolves to "
          "all of them, or the name of a load balancer"));
    }
  }
  return absl::OkStatus();
}

/// The target of gRPC for a list, in random order, so that callers spread over the servers. A server that does not
/// answer is noticed within a lease.
std::string targetOf(std::vector<std::string> servers, const Identity& identity, grpc::ChannelArguments& arguments) {
  constexpr int kPingMs = 6'000, kPingAnswerMs = 3'000, kConnectMs = 3'000;
  if (identity.tls()) {
    arguments.SetSslTargetNameOverride(servers.front().substr(0, servers.front().find(':')));
  }
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingAnswerMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  std::shuffle(servers.begin(), servers.end(), std::random_device());
  return absl::StrCat(kIpv4, absl::StrJoin(servers, ","));
}

absl::Status checkAddress(const std::string& address) {
  if (const std::vector<std::string> servers = listOf(address); !servers.empty()) {
    return checkList(servers, address);
  }
  for (const char* scheme : {"unix:", "unix-abstract:", "dns:", "ipv4:", "ipv6:"}) {
    if (absl::StartsWith(address, scheme)) {
      return absl::OkStatus();
    }
  }
  const size_t colon = address.rfind(':');
  if (colon != std::string::npos && address.find(':') < colon && address.front() != '[' &&
      !absl::StrContains(address, "://")) {
    return absl::InvalidArgumentError(absl::StrCat("the server's address: found '", address,
                                                   "', accepted: an IPv6 address in brackets, as in [::1]:7400"));
  }
  int port = 0;
  const bool good = colon != std::string::npos && colon > 0 && !absl::StrContains(address, "://") &&
                    absl::SimpleAtoi(address.substr(colon + 1), &port) && port > 0 && port <= 65535;
  return good ? absl::OkStatus()
              : absl::InvalidArgumentError(
                    absl::StrCat("the server's address: found '", address, "', accepted: host:port or unix:/path"));
}

std::string trimmed(const std::string& text) { return std::string(absl::StripAsciiWhitespace(text)); }

/// Provides the current token, and rereads its file when the modification time changes. Thread-safe.
class TokenSource {
 public:
  TokenSource(std::string token, std::string file) : token_(std::move(token)), file_(std::move(file)) {}

  std::string now() {
    if (file_.empty()) {
      return token_;
    }
    const std::lock_guard lock(mutex_);
    std::error_code error;
    const auto written = fs::last_write_time(file_, error);
    if (!error && written != written_) {
      if (const auto content = contentOf(file_, "token file"); content.ok() && isHeaderText(trimmed(*content))) {
        token_ = trimmed(*content);
        written_ = written;
      }
    }
    return token_;
  }

 private:
  std::mutex mutex_;
  std::string token_;
  const std::string file_;
  fs::file_time_type written_;
};

/// Adds the token and the project to the metadata of each call.
class ShowIdentity : public grpc::experimental::Interceptor {
 public:
  ShowIdentity(std::shared_ptr<TokenSource> source, std::string project)
      : source_(std::move(source)), project_(std::move(project)) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* call) override {
    if (call->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      // gRPC sends what this points to after it has returned; it lives as long as the call.
      if (const std::string token = source_->now(); !token.empty()) {
        header_ = absl::StrCat("Bearer ", token);
        call->GetSendInitialMetadata()->insert({"authorization", header_});
      }
      if (!project_.empty()) {
        call->GetSendInitialMetadata()->insert({kProjectMetadata, project_});
      }
    }
    call->Proceed();
  }

 private:
  const std::shared_ptr<TokenSource> source_;
  const std::string project_;
  std::string header_;
};

class ShowIdentities : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  ShowIdentities(std::shared_ptr<TokenSource> source, std::string project)
      : source_(std::move(source)), project_(std::move(project)) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(grpc::experimental::ClientRpcInfo*) override {
    return new ShowIdentity(source_, project_);
  }

 private:
  const std::shared_ptr<TokenSource> source_;
  const std::string project_;
};

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> credentialsOf(const Identity& identity) {
  if (!identity.tls()) {
    return grpc::InsecureChannelCredentials();
  }
  grpc::SslCredentialsOptions options;
  const std::pair<const std::string&, std::pair<const char*, std::string*>> files[] = {
      {identity.ca_file, {"certificate authority", &options.pem_root_certs}},
      {identity.certificate_file, {"certificate", &options.pem_cert_chain}},
      {identity.key_file, {"private key", &options.pem_private_key}},
  };
  for (const auto& [path, use] : files) {
    if (!path.empty()) {
      TESSERA_ASSIGN_OR_RETURN(auto content, contentOf(path, use.first));
      if (!absl::StrContains(content, "-----BEGIN ")) {  // gRPC would find no server to answer
        return absl::InvalidArgumentError(absl::StrCat(use.first, ": ", path, " is not a PEM file"));
      }
      *use.second = std::move(content);
    }
  }
  if (options.pem_cert_chain.empty() != options.pem_private_key.empty()) {
    return absl::InvalidArgumentError("a certificate needs its private key, and the key its certificate");
  }
  return grpc::SslCredentials(options);
}

}  // namespace

Identity withEnvironment(Identity identity) {
  const bool has_token = !identity.token.empty() || !identity.token_file.empty();
  const std::pair<const char*, std::string*> variables[] = {
      {"TESSERA_TLS_CA", &identity.ca_file},
      {"TESSERA_TLS_CERT", &identity.certificate_file},
      {"TESSERA_TLS_KEY", &identity.key_file},
      {"TESSERA_PROJECT", &identity.project},
      {"TESSERA_TOKEN", has_token ? nullptr : &identity.token},
      {"TESSERA_TOKEN_FILE", has_token ? nullptr : &identity.token_file},
  };
  for (const auto& [name, field] : variables) {
    if (const char* value = std::getenv(name); value != nullptr && field != nullptr && field->empty()) {
      *field = value;
    }
  }
  return identity;
}

bool isLocalAddress(const std::string& address) {
  if (const std::vector<std::string> servers = listOf(address); !servers.empty()) {
    return std::ranges::all_of(servers, isLocalAddress);
  }
  for (const char* local : {"unix:", "unix-abstract:", "localhost:", "127.", "[::1]:", "ipv4:127.", "ipv6:[::1]:"}) {
    if (absl::StartsWith(address, local)) {
      return true;
    }
  }
  return address == "localhost" || address == "[::1]" || address == "::1";
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> openChannel(const std::string& address, const Identity& identity,
                                                           const grpc::ChannelArguments& arguments) {
  TESSERA_RETURN_IF_ERROR(checkAddress(address));
  grpc::ChannelArguments complete = arguments;
  const std::vector<std::string> servers = listOf(address);
  const std::string target = servers.empty() ? address : targetOf(servers, identity, complete);
  TESSERA_ASSIGN_OR_RETURN(auto credentials, credentialsOf(identity));
  std::string token = trimmed(identity.token);
  if (!identity.token_file.empty()) {
    TESSERA_ASSIGN_OR_RETURN(auto content, contentOf(identity.token_file, "token file"));
    token = trimmed(content);
  }
  const std::string from = identity.token_file.empty() ? "TESSERA_TOKEN" : identity.token_file;
  TESSERA_RETURN_IF_ERROR(checkToken(token, from));
  // Project names cannot contain such characters, so no such project exists.
  if (!isHeaderText(identity.project)) {
    return absl::InvalidArgumentError(absl::StrCat("there is no project '", identity.project, "'"));
  }
  // Nothing to send, so no interceptor is needed.
  if (token.empty() && identity.project.empty()) {
    return grpc::CreateCustomChannel(target, credentials, complete);
  }
  // Refuse before connecting: the first call would send the token already.
  if (!token.empty() && !identity.tls() && !isLocalAddress(address) && !identity.allow_plaintext_token) {
    return absl::InvalidArgumentError(
        absl::StrCat("the token would go to ", address,
                     " in plain text, for everybody on the way to read; name the server's certificate authority "
                     "(--tls-ca, TESSERA_TLS_CA), or say --token-in-clear"));
  }
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<ShowIdentities>(
      std::make_shared<TokenSource>(std::move(token), identity.token_file), identity.project));
  return grpc::experimental::CreateCustomChannelWithInterceptors(target, credentials, complete,
                                                                 std::move(interceptors));
}

}  // namespace tessera
