#include "clients/cpp/channel.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::client {

namespace {

struct ProxyError {
  const char* said;  ///< part of gRPC's message for a response that no tesserad sends
  const char* meaning;
};
constexpr ProxyError kProxyErrors[] = {
    {"http2 header with status: 413",
     "a proxy rejects requests of this size; raise its limit (nginx: client_max_body_size 0)"},
    {"http2 header with status: 502", "a proxy cannot reach the service; its log has the cause"},
    {"http2 header with status: 503", "a proxy cannot reach the service; its log has the cause"},
    {"http2 header with status: 504",
     "a proxy timed out waiting for the service; raise its limit (nginx: grpc_read_timeout)"},
    {"http2 header with status: 407", "a proxy requires its own credential"},
    {"http2 header with status: ", "the answer comes from a proxy or another server, not from tesserad"},
    {"RST_STREAM with error code 0",
     "a proxy ended the request before all of it was sent; raise its limits (nginx: client_max_body_size 0)"},
};

/// Returns gRPC's message. If a proxy or another server sent the response, its meaning is prepended.
std::string explained(const std::string& message) {
  for (const ProxyError& answer : kProxyErrors)
    if (absl::StrContains(message, answer.said)) return absl::StrCat(answer.meaning, " (", message, ")");
  return message;
}

}  // namespace

absl::Status fromGrpc(const grpc::Status& status) {
  const auto failure = failureInDetails(status.error_details());
  if (failure && failure->reason() != v1::Failure::REASON_UNSPECIFIED) return failureStatus(*failure);
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), explained(status.error_message()));
}

namespace {

grpc::ChannelArguments channelArguments() {
  grpc::ChannelArguments arguments;
  // Blob chunks and inline tensors have at most 1 MiB; other messages are small.
  arguments.SetMaxReceiveMessageSize(64 << 20);
  arguments.SetMaxSendMessageSize(64 << 20);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // retry() and the stream loops repeat calls. gRPC's own retry filter would cost every call 8 % of the client's CPU
  // time.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // A host or network that disappears sends no reset. Without keepalive pings a watch would wait forever.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Only grpc_proxy is honoured. http_proxy is meant for web traffic, not for a service of the own network.
  const char* proxy = std::getenv("grpc_proxy");
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, proxy != nullptr && *proxy != '\0' ? 1 : 0);
  return arguments;
}

/// Returns the cause and a remedy, derived from gRPC's message about its connection attempts.
std::string explainConnectionError(const std::string& address, absl::string_view said) {
  auto contains = [&](absl::string_view part) { return absl::StrContains(said, part); };
  if (contains("wrong version number"))
    return absl::StrCat("the server at ", address, " does not use TLS; omit --tls-ca (TESSERA_TLS_CA)");
  if (contains("handshake failed") || contains("peer certificate"))
    return absl::StrCat("the server at ", address,
                        " shows no certificate that the authority in --tls-ca (TESSERA_TLS_CA) made for this name, or "
                        "does not take the one that is shown: ",
                        said);
  if (contains("Socket closed") || contains("onnection reset"))
    return absl::StrCat("what listens at ", address,
                        " hangs up: a service with TLS (name its authority with --tls-ca or TESSERA_TLS_CA), or "
                        "another program than tesserad");
  if (contains("DNS resolution failed"))
    return absl::StrCat("cannot resolve the host name: ", address, " (--server or TESSERA_SERVER)");
  if (contains("Deadline Exceeded"))
    return absl::StrCat("nothing comes back from ", address,
                        ": the server stands still, or packets are lost, as in a firewall");
  return absl::StrCat("no server answers at ", address,
                      "; start one with `tesserad`, name another with --server or TESSERA_SERVER, or use --local");
}

/// Whether the client-side deadline ended the call. If the request's own deadline passed, the server sends a Failure.
bool timedOutLocally(const grpc::Status& status, const grpc::ClientContext& context) {
  return status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && !failureInDetails(status.error_details()) &&
         std::chrono::system_clock::now() >= context.deadline();
}

}  // namespace

Channel::Channel(const std::string& address)
    : Channel(address, grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), channelArguments())) {}

absl::StatusOr<std::unique_ptr<Channel>> Channel::open(const std::string& address, const Identity& identity) {
  TESSERA_ASSIGN_OR_RETURN(auto channel, openChannel(address, identity, channelArguments()));
  return std::unique_ptr<Channel>(new Channel(address, std::move(channel)));
}

Channel::Channel(std::string address, std::shared_ptr<grpc::Channel> channel)
    : address_(std::move(address)),
      channel_(std::move(channel)),
      jobs_(v1::JobService::NewStub(channel_)),
      blobs_(v1::BlobService::NewStub(channel_)),
      artifacts_(v1::ArtifactService::NewStub(channel_)),
      versions_(v1::ArtifactVersionService::NewStub(channel_)),
      execution_(v1::ExecutionService::NewStub(channel_)),
      targets_(v1::TargetService::NewStub(channel_)),
      records_(v1::RecordService::NewStub(channel_)),
      fleet_(v1::FleetService::NewStub(channel_)),
      operators_(v1::OperatorService::NewStub(channel_)),
      admin_(v1::AdminService::NewStub(channel_)),
      servers_(v1::ServerService::NewStub(channel_)),
      signing_(v1::SigningService::NewStub(channel_)) {}

void Channel::setUnreachableCallback(std::function<void(std::chrono::milliseconds)> away) {
  away_ = std::move(away);
  // The monitor starts its thread with the first call.
  silence_ = away_ ? std::make_unique<SlowCallMonitor>(away_) : nullptr;
}

absl::Status Channel::waitReady(std::chrono::milliseconds timeout) {
  if (channel_->WaitForConnected(std::chrono::system_clock::now() + timeout)) {
    answered_ = true;
    return absl::OkStatus();
  }
  TESSERA_RETURN_IF_ERROR(ended());
  // A call without wait_for_ready reports why there is no connection.
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
  v1::GetJobResponse none;
  return absl::UnavailableError(
      explainConnectionError(address_, jobs_->GetJob(&context, v1::GetJobRequest(), &none).error_message()));
}

absl::Status Channel::retry(const CallOptions& options,
                            const std::function<grpc::Status(grpc::ClientContext&)>& attempt) const {
  const auto start = std::chrono::system_clock::now();
  RetryState patience(*this, options);
  while (true) {
    grpc::ClientContext context;
    // A known server gets a full timeout for each attempt; an unknown one gets a single timeout for all of them.
    context.set_deadline((answered_ ? std::chrono::system_clock::now() : start) + options.timeout);
    const grpc::Status status = [&] {
      // Calls with a longer timeout than the default (such as a collection) are expected to be slow and are not
      // monitored.
      const SlowCallMonitor::Call call(options.timeout <= CallOptions().timeout ? silence_.get() : nullptr,
                                       options.timeout);
      return attempt(context);
    }();
    // A Failure is an answer, even with a code such as UNAVAILABLE.
    const bool silent =
        status.error_code() == grpc::StatusCode::UNAVAILABLE && !failureInDetails(status.error_details());
    // Any other status comes from a server, so from now on the channel waits for it after an outage.
    if (!silent && status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) answered_ = true;
    if (status.ok()) return absl::OkStatus();
    if (timedOutLocally(status, context)) {
      return absl::UnavailableError(
          absl::StrCat("the server at ", address_, " took the connection and did not answer within ",
                       absl::FormatDuration(absl::FromChrono(options.timeout)),
                       ": the server stands still, or packets are lost; the request may still be executed"));
    }
    if (!silent) return fromGrpc(status);
    TESSERA_RETURN_IF_ERROR(ended());
    // A call that must not be repeated may have been executed although its answer was lost.
    if (options.attempts <= 1 || !patience.wait()) {
      return absl::UnavailableError(
          absl::StrCat("the server at ", address_, " does not answer: ", explained(status.error_message())));
    }
  }
}

void Channel::pause(std::chrono::milliseconds length) const {
  if (channel_->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY) {
    std::this_thread::sleep_for(length);
  } else {
    channel_->WaitForConnected(std::chrono::system_clock::now() + length);
  }
}

void RetryState::answered() {
  channel_.answered_ = true;
  since_.reset();
}

bool RetryState::wait() {
  using std::chrono::milliseconds;
  constexpr milliseconds kFirst(100), kLongest(1000);
  const auto now = std::chrono::steady_clock::now();
  if (!since_) {
    since_ = now;
    pause_ = kFirst;
    tries_ = 0;
    told_ = false;
  }
  const auto away = std::chrono::duration_cast<milliseconds>(now - *since_);
  const bool known = channel_.answered();
  const bool over =
      // Give up if the next pause would exceed the limit, rather than after it.
      known ? away + pause_ > options_.patience : ++tries_ >= options_.attempts || away + pause_ >= options_.timeout;
  if (over) return false;
  if (known && !told_ && away >= kLongest && channel_.away_) {
    told_ = true;
    channel_.away_(options_.patience);
  }
  channel_.pause(pause_);
  pause_ = std::min(2 * pause_, kLongest);
  return true;
}

}  // namespace tessera::client
