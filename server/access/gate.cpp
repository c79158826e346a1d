#include "server/access/gate.h"

#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/status_macros.h"

namespace tessera::server {
namespace {

constexpr char kBearer[] = "bearer ";
/// What `tessera admin certificates` writes into a certificate: "tessera://client/ada".
constexpr char kUriScheme[] = "tessera://";

std::string metadataOf(const grpc::CallbackServerContext& context, const char* name) {
  const auto found = context.client_metadata().find(name);
  return found == context.client_metadata().end() ? std::string()
                                                  : std::string(found->second.data(), found->second.size());
}

/// The machine a call comes from, "ipv4:10.0.0.7" or "unix:": the port is another one with every connection.
std::string machineOf(const grpc::CallbackServerContext& context, bool behind_web) {
  if (behind_web) {
    const std::string address = metadataOf(context, kWebAddress);
    return absl::StrCat(absl::StrContains(address, ":") ? "ipv6:" : "ipv4:", address);
  }
  const std::string peer = context.peer();
  return peer.rfind("unix:", 0) == 0 ? "unix:" : peer.substr(0, peer.rfind(':'));
}

std::optional<std::string> bearerOf(const grpc::CallbackServerContext& context) {
  const auto header = context.client_metadata().find("authorization");
  if (header == context.client_metadata().end()) {
    return std::nullopt;
  }
  const absl::string_view value(header->second.data(), header->second.size());
  return absl::StartsWithIgnoreCase(value, kBearer) ? std::string(value.substr(sizeof(kBearer) - 1)) : std::string();
}

/// Whom the URI in a certificate names.
std::optional<Caller> namedBy(absl::string_view uri) {
  const size_t slash = absl::ConsumePrefix(&uri, kUriScheme) ? uri.find('/') : absl::string_view::npos;
  v1::Role role = v1::ROLE_UNSPECIFIED;
  if (slash != absl::string_view::npos && v1::Role_Parse(absl::AsciiStrToUpper(uri.substr(0, slash)), &role) &&
      slash + 1 < uri.size()) {
    return Caller{std::string(uri.substr(slash + 1)), role, false};
  }
  return std::nullopt;
}

/// The identity in the client's certificate, where it showed one that the listener's authority signed.
std::optional<Caller> certified(const grpc::CallbackServerContext& context, bool behind_web) {
  if (behind_web) {
    return namedBy(metadataOf(context, kWebCertificate));
  }
  const auto authenticated = context.auth_context();
  if (authenticated == nullptr || !authenticated->IsPeerAuthenticated()) {
    return std::nullopt;
  }
  for (const grpc::string_ref& property : authenticated->FindPropertyValues("peer_uri")) {
    if (auto caller = namedBy(absl::string_view(property.data(), property.size()))) {
      return caller;
    }
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Caller> Gate::identify(const grpc::CallbackServerContext& context) const {
  // A token says more precisely who calls than the machine's certificate does.
  if (const auto secret = bearerOf(context)) {
    return tokens_.find(*secret);
  }
  if (auto caller = certified(context, policy_.behind_web)) {
    return *std::move(caller);
  }
  if (policy_.strangers == v1::ROLE_UNSPECIFIED) {
    return absl::UnauthenticatedError(
        "this service wants to know who calls: send a token (`tessera --token-file`, TESSERA_TOKEN) that "
        "`tessera admin token create` made, or a certificate");
  }
  return Caller{machineOf(context, policy_.behind_web), policy_.strangers, true};
}

absl::StatusOr<Gate::Admission> Gate::admit(const grpc::CallbackServerContext& context, Right right, size_t bytes) {
  TESSERA_ASSIGN(Caller caller, identify(context));
  if (!may(caller.role, right)) {
    return absl::PermissionDeniedError(absl::StrCat(
        caller.name, " is ", describe(caller.role), " here, who may not do this",
        right == Right::kAdminister ? "; on the server's machine, `tessera --operator-of DATA-FOLDER` is its operator"
                                    : ""));
  }
  const auto held = static_cast<int64_t>(bytes);
  const std::string who = absl::StrCat(v1::Role_Name(caller.role), " ", caller.name);
  {
    const std::lock_guard lock(load_->mutex);
    const auto known = load_->of_one.find(who);
    const int own = known == load_->of_one.end() ? 0 : known->second;
    if (load_->calls >= policy_.max_calls || own >= policy_.max_calls_of_one) {
      return absl::ResourceExhaustedError(
          absl::StrCat("too many calls at a time (", own, " of yours, ", load_->calls, " in all); try again"));
    }
    if (load_->bytes + held > policy_.max_held_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("requests of ", load_->bytes, " bytes wait for their answers already; try again"));
    }
    ++load_->calls;
    load_->bytes += held;
    ++load_->of_one[who];
  }
  std::shared_ptr<void> ticket(nullptr, [load = load_, who, held](void*) {
    const std::lock_guard lock(load->mutex);
    --load->calls;
    load->bytes -= held;
    if (--load->of_one[who] == 0) {
      load->of_one.erase(who);
    }
  });
  return Admission{std::move(caller), std::move(ticket)};
}

}  // namespace tessera::server
