#include "server/access/gate.h"

#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "proto/support/status_macros.h"
#include "server/request_checks.h"

namespace tessera::server {
namespace {

constexpr char kBearer[] = "bearer ";
/// Scheme of the URI that `tessera admin certificates` writes into certificates: "tessera://client/ada".
constexpr char kUriScheme[] = "tessera://";
constexpr char kUriProject[] = "?project=";

std::string metadataOf(const grpc::CallbackServerContext& context, const char* name) {
  const auto found = context.client_metadata().find(name);
  return found == context.client_metadata().end() ? std::string()
                                                  : std::string(found->second.data(), found->second.size());
}

/// The caller's host, "ipv4:10.0.0.7" or "unix:", without the port, which differs for each connection.
std::string callerAddress(const grpc::CallbackServerContext& context, bool from_gateway) {
  if (from_gateway) {
    const std::string address = metadataOf(context, kWebAddress);
    return absl::StrCat(absl::StrContains(address, ":") ? "ipv6:" : "ipv4:", address);
  }
  const std::string peer = context.peer();
  return peer.starts_with("unix:") ? "unix:" : peer.substr(0, peer.rfind(':'));
}

std::optional<std::string> bearerOf(const grpc::CallbackServerContext& context) {
  const auto header = context.client_metadata().find("authorization");
  if (header == context.client_metadata().end()) {
    return std::nullopt;
  }
  const absl::string_view value(header->second.data(), header->second.size());
  return absl::StartsWithIgnoreCase(value, kBearer) ? std::string(value.substr(sizeof(kBearer) - 1)) : std::string();
}

/// Caller named by the URI in a certificate: tessera://ROLE/NAME, or tessera://ROLE/NAME?project=PROJECT.
std::optional<Caller> namedBy(absl::string_view uri) {
  const std::string whole(uri);
  const size_t slash = absl::ConsumePrefix(&uri, kUriScheme) ? uri.find('/') : absl::string_view::npos;
  Caller caller;
  if (slash == absl::string_view::npos || !v1::Role_Parse(absl::AsciiStrToUpper(uri.substr(0, slash)), &caller.role)) {
    return std::nullopt;
  }
  absl::string_view name = uri.substr(slash + 1);
  if (const size_t query = name.find(kUriProject); query != absl::string_view::npos) {
    caller.project = std::string(name.substr(query + sizeof(kUriProject) - 1));
    name = name.substr(0, query);
  }
  if (name.empty() || !isProjectName(caller.project)) {
    return std::nullopt;
  }
  caller.name = std::string(name);
  caller.anonymous = false;
  caller.credential = absl::StrCat("certificate ", whole);
  return caller;
}

/// Identity in the client's certificate, if it presented one that an accepted authority signed.
std::optional<Caller> certified(const grpc::CallbackServerContext& context, bool from_gateway) {
  if (from_gateway) {
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

/// Selects the call's project: an operator may act for any project or for all; other callers have their own.
absl::Status speakFor(const std::string& project, Caller& caller) {
  if (project.empty() || project == caller.project) {
    return absl::OkStatus();
  }
  if (project != kEveryProject && !isProjectName(project)) {
    return fieldError(kProjectMetadata, project,
                      "a lower-case letter, then at most 62 of a-z, 0-9, '-'; or '-' for all, in lists");
  }
  if (caller.role != v1::OPERATOR) {
    return absl::PermissionDeniedError(
        absl::StrCat(caller.name, " belongs to project ", caller.project, "; only operators act for other projects"));
  }
  caller.all_projects = project == kEveryProject;
  if (!caller.all_projects) {
    caller.project = project;
  }
  return absl::OkStatus();
}

/// Whether the call was rejected. NOT_FOUND counts, since that is the answer for objects of other projects.
bool isRefusal(const absl::Status& status) {
  return absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status) || absl::IsResourceExhausted(status) ||
         absl::IsNotFound(status);
}

void tell(AuditLog& log, v1::AuditEntry entry, const absl::Status& status) {
  entry.set_time(absl::FormatTime(kAuditTime, absl::Now(), absl::UTCTimeZone()));
  entry.set_answer(absl::StatusCodeToString(status.code()));
  entry.set_message(std::string(status.message()));
  if (status.ok()) {
    log.write(entry);
  } else {
    log.writeRefusal(entry);
  }
}

}  // namespace

absl::StatusOr<Caller> Gate::identify(const grpc::CallbackServerContext& context) const {
  // A token identifies the caller more precisely than the host's certificate.
  if (const auto secret = bearerOf(context)) {
    return tokens_.find(*secret);
  }
  if (auto caller = certified(context, policy_.from_gateway)) {
    return *std::move(caller);
  }
  if (policy_.anonymous_role == v1::ROLE_UNSPECIFIED) {
    return absl::UnauthenticatedError(
        "this service requires a credential: send a token (`tessera --token-file`, TESSERA_TOKEN) that "
        "`tessera admin token create` made, or a certificate");
  }
  Caller anonymous;
  anonymous.name = callerAddress(context, policy_.from_gateway);
  anonymous.role = policy_.anonymous_role;
  return anonymous;
}

class Gate::Place : public Ticket {
 public:
  Place(std::shared_ptr<Load> load, const Caller& caller, std::string who, int64_t held,
        std::shared_ptr<QuotaRefusals> refusals)
      : load_(std::move(load)),
        project_(caller.project),
        who_(std::move(who)),
        held_(held),
        refusals_(std::move(refusals)) {}
  ~Place() override {
    const std::lock_guard lock(load_->mutex);
    --load_->calls;
    load_->bytes -= held_;
    if (--load_->of_one[who_] == 0) {
      load_->of_one.erase(who_);
    }
  }

  void audit(AuditLog* log, v1::AuditEntry entry, bool only_refusals) {
    log_ = log;
    entry_ = std::move(entry);
    only_refusals_ = only_refusals;
  }
  bool audited() const override { return log_ != nullptr; }
  void concerns(const std::string& resource) override {
    if (!resource.empty()) {
      entry_.set_resource(resource);
    }
  }
  void answered(const absl::Status& status) override {
    refusals_->note(project_, status);
    if (log_ != nullptr && !(only_refusals_ && !isRefusal(status))) {
      tell(*log_, entry_, status);
    }
    log_ = nullptr;
  }

 private:
  const std::shared_ptr<Load> load_;  ///< places may outlive the gate while the server stops
  const std::string project_, who_;
  const int64_t held_;
  const std::shared_ptr<QuotaRefusals> refusals_;
  AuditLog* log_ = nullptr;
  v1::AuditEntry entry_;
  bool only_refusals_ = false;
};

absl::StatusOr<std::shared_ptr<Ticket>> Gate::take(const Caller& caller, Right right, const CallFacts& call) {
  if (!may(caller.role, right)) {
    return absl::PermissionDeniedError(absl::StrCat(
        caller.name, " is ", describe(caller.role), " here, who may not do this",
        right == Right::kAdminister ? "; on the server's machine, `tessera --operator-of DATA-FOLDER` is its operator"
                                    : ""));
  }
  if (caller.role != v1::WORKER && caller.role != v1::OPERATOR) {
    TESSERA_RETURN_IF_ERROR(quotas_.takeCall(caller.project));
  }
  const auto held = static_cast<int64_t>(call.bytes);
  const std::string who = absl::StrCat(v1::Role_Name(caller.role), " ", caller.project, " ", caller.name);
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
  return std::make_shared<Place>(load_, caller, who, held, quotas_.refusals());
}

absl::StatusOr<Gate::Admission> Gate::admit(const grpc::CallbackServerContext& context, Right right,
                                            const CallFacts& call) {
  const std::string from = policy_.from_gateway ? callerAddress(context, true) : context.peer();
  v1::AuditEntry entry;
  // Without an audit log a call need not wait for the text of its entry.
  const auto note = [&](const auto& fill) {
    if (audit_ != nullptr) {
      fill();
    }
  };
  note([&] {
    entry.set_method(call.method);
    if (call.request != nullptr) {
      entry.set_resource(resourceOf(*call.request));
    }
    entry.set_from(from);
  });
  const auto refuse = [&](const absl::Status& status) {
    if (audit_ != nullptr) {
      tell(*audit_, entry, status);
    }
    return status;
  };
  auto known = identify(context);
  if (!known.ok()) {
    note([&] {
      entry.set_who(callerAddress(context, policy_.from_gateway));
      entry.set_credential(bearerOf(context) ? "a token that is not good" : "none");
    });
    return refuse(known.status());
  }
  Caller caller = *std::move(known);
  caller.from = from;
  note([&] {
    entry.set_who(caller.name);
    entry.set_credential(caller.credential);
    entry.set_role(absl::AsciiStrToLower(v1::Role_Name(caller.role)));
    entry.set_project(caller.project);
  });
  if (const absl::Status status = speakFor(metadataOf(context, kProjectMetadata), caller); !status.ok()) {
    return refuse(status);
  }
  note([&] { entry.set_project(caller.all_projects ? kEveryProject : caller.project); });
  auto place = take(caller, right, call);
  if (!place.ok()) {
    quotas_.refusals()->note(caller.project, place.status());
    return refuse(place.status());
  }
  // Leases and heartbeats occur several times a second, and change nothing of interest to an auditor.
  const bool looks =
      right == Right::kRead || right == Right::kFetch || call.method == "LeaseTask" || call.method == "Heartbeat";
  static_cast<Place&>(**place).audit(audit_, std::move(entry), looks);
  return Admission{std::move(caller), *std::move(place)};
}

}  // namespace tessera::server
