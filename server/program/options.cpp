#include "server/program/options.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <filesystem>
#include <optional>

#include "absl/strings/str_cat.h"
#include "proto/support/read_file.h"
#include "proto/support/status_macros.h"
#include "proto/support/worker_exit.h"
#include "server/access/exposure.h"
#include "server/gateway/connection.h"
#include "storage/open_objects.h"

namespace tessera::server {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::string> contentOf(const std::string& path) {
  TESSERA_ASSIGN_OR_RETURN(std::string content, readFile(path));
  return content.empty() ? absl::StatusOr<std::string>(absl::InvalidArgumentError(absl::StrCat(path, " is empty")))
                         : content;
}

absl::StatusOr<std::optional<Tls>> tlsOf(const Flags& flags) {
  if (flags.tls_certificate.empty() != flags.tls_key.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key belong together");
  }
  const bool asks = !flags.tls_client_authority.empty();
  if (flags.tls_certificate.empty() ? asks || flags.need_certificate : flags.need_certificate && !asks) {
    return absl::InvalidArgumentError(
        "--require-certificates needs --tls-client-ca, and that --tls-cert and --tls-key");
  }
  if (flags.tls_certificate.empty()) {
    return std::nullopt;
  }
  Tls tls;
  TESSERA_ASSIGN_OR_RETURN(tls.certificate, contentOf(flags.tls_certificate));
  TESSERA_ASSIGN_OR_RETURN(tls.private_key, contentOf(flags.tls_key));
  if (asks) {
    TESSERA_ASSIGN_OR_RETURN(tls.client_authority, contentOf(flags.tls_client_authority));
  }
  tls.need_certificate = flags.need_certificate;
  TESSERA_RETURN_IF_ERROR(gateway::tlsContext(tls).status());  // gRPC would accept any file and fail at each handshake
  return tls;
}

/// The socket is in the data folder, which only its owner can enter. If its path exceeds the limit of Unix sockets, any
/// free port is used; both require a token.
std::string privateAddress(const fs::path& data) {
  constexpr size_t kMaxSocketPath = 107;
  const std::string path = fs::absolute(data / "private.sock").string();
  return path.size() > kMaxSocketPath ? "127.0.0.1:0" : absl::StrCat("unix:", path);
}

/// A connection uses two of the process's file descriptors; this many are reserved for the service itself.
void makeRoomForConnections(ServerOptions& options) {
  constexpr rlim_t kOwnFiles = 512;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
    return;
  }
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const auto room = static_cast<int>(
      files.rlim_max > kOwnFiles ? std::min<rlim_t>((files.rlim_max - kOwnFiles) / 2, INT_MAX) : rlim_t{16});
  if (room < options.max_connections) {
    spdlog::warn("--max-connections {}: this process may have {} open files, so it takes {}", options.max_connections,
                 files.rlim_max, room);
    options.max_connections = room;
  }
}

std::string workerBinary(const Flags& flags) {
  return !flags.worker_binary.empty() ? flags.worker_binary
                                      : (fs::read_symlink("/proc/self/exe").parent_path() / "tessera-worker").string();
}

}  // namespace

absl::StatusOr<ServerOptions> serverOptions(const Flags& flags) {
  ServerOptions options;
  options.listen = flags.listen;
  options.name = flags.server_name;
  options.worker_listen = flags.worker_listen;
  options.web_listen = flags.web_listen;
  options.web_hosts = flags.web_hosts;
  options.private_listen = privateAddress(flags.data_dir);
  TESSERA_ASSIGN_OR_RETURN(options.tls, tlsOf(flags));
  if (!flags.blobs.empty()) {
    if (const absl::Status place = storage::checkObjectsPlace(flags.blobs); !place.ok()) {
      return absl::Status(place.code(), absl::StrCat("--blobs: ", place.message()));
    }
  } else if (!flags.store.empty()) {
    // Another server on this database would find no file of this server's blobs, and mark them as lost.
    return absl::InvalidArgumentError(
        "--store: say with --blobs where the blobs are, in a folder that servers share or in s3://BUCKET");
  }
  options.metrics_listen = flags.metrics_listen;
  const Exposure exposure{flags.listen,         flags.worker_listen,     flags.web_listen,
                          flags.metrics_listen, options.tls.has_value(), flags.insecure};
  TESSERA_RETURN_IF_ERROR(checkExposure(exposure));
  options.metrics_need_token = flags.need_credential || !showsMetricsToAll(exposure);
  options.gate.anonymous_role = allowsAnonymous(exposure) && !flags.need_credential ? v1::CLIENT : v1::ROLE_UNSPECIFIED;
  options.gate.max_calls = flags.max_calls;
  options.gate.max_calls_of_one = flags.max_calls_of_one;
  options.gate.max_held_bytes = static_cast<int64_t>(flags.max_held_bytes);
  options.max_connections = flags.max_connections;
  options.max_connections_of_one = flags.max_connections_of_one;
  makeRoomForConnections(options);
  options.scrub_bytes_per_second = static_cast<int64_t>(flags.scrub_rate_bytes);
  options.quotas_file = flags.quotas_file;
  options.audit_file = flags.audit_file;
  const auto hours = [](double hours) { return static_cast<int64_t>(hours * 3600e6); };
  options.policy.set_jobs_us(hours(flags.keep_jobs_h));
  options.policy.set_events_us(hours(flags.keep_events_h));
  options.policy.set_artifacts_us(hours(flags.keep_artifacts_h));
  options.policy.set_objects_us(hours(flags.keep_objects_h));
  options.policy.set_records_us(hours(flags.keep_records_h));
  options.policy.set_blobs_us(hours(flags.keep_blobs_h));
  options.policy.set_artifact_bytes(static_cast<int64_t>(flags.keep_artifact_bytes));
  options.policy.set_object_bytes(static_cast<int64_t>(flags.keep_object_bytes));
  options.collect_every = std::chrono::seconds(static_cast<int64_t>(flags.collect_every_h * 3600));
  options.limits.max_model_bytes = static_cast<int64_t>(flags.max_model_bytes);
  options.limits.max_blob_bytes = static_cast<int64_t>(flags.max_blob_bytes);
  options.rules.lease_us = static_cast<int64_t>(flags.lease_s * 1e6);
  options.rules.heartbeat_us = static_cast<int64_t>(flags.heartbeat_s * 1e6);
  options.rules.run_timeout_us = static_cast<int64_t>(flags.run_timeout_s * 1e6);
  options.rules.queue_timeout_us = static_cast<int64_t>(flags.queue_timeout_s * 1e6);
  options.rules.total_timeout_us = static_cast<int64_t>(flags.total_timeout_s * 1e6);
  options.rules.no_worker_us = static_cast<int64_t>(flags.no_worker_s * 1e6);
  options.rules.share_reproduced = flags.share_cache == "reproduced";
  options.rules.required_sandbox = flags.require_sandbox;
  options.rules.task_memory_bytes = static_cast<int64_t>(flags.task_memory_bytes);
  return options;
}

absl::Status checkWorkerBinary(const Flags& flags) {
  const std::string binary = workerBinary(flags);
  std::error_code error;
  if (flags.workers == 0 || (fs::is_regular_file(binary, error) && access(binary.c_str(), X_OK) == 0)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--worker-binary: ", binary,
                                                 " is no program that can be started; name tessera-worker, or give ",
                                                 "--workers 0 for a service whose workers all run elsewhere"));
}

SupervisorOptions supervisorOptions(const Flags& flags, const Server& server) {
  SupervisorOptions options;
  options.credential = server.workerToken();
  options.workers = flags.workers;
  options.id_prefix = localWorkerPrefix(flags.server_name);
  options.binary = workerBinary(flags);
  options.arguments = {"--server",
                       server.privateAddress(),
                       "--log-level",
                       flags.log_level,
                       "--log-format",
                       flags.log_format,
                       "--die-with-parent",
                       "--blobs",
                       fs::absolute(fs::path(flags.data_dir) / "blobs").string(),
                       "--sharing",
                       std::to_string(std::max(1, flags.workers))};
  if (!flags.sandbox_user.empty()) {
    options.arguments.insert(options.arguments.end(), {"--sandbox-user", flags.sandbox_user});
  }
  for (const std::string& measure : flags.require_sandbox) {
    options.arguments.insert(options.arguments.end(), {"--require-sandbox", measure});
  }
  options.arguments.insert(options.arguments.end(), flags.worker_arguments.begin(), flags.worker_arguments.end());
  options.final_codes = {worker::kWorkerUsage, worker::kWorkerVersionMismatch};
  options.scratch_folder = (fs::path(flags.data_dir) / "workers").string();
  return options;
}

}  // namespace tessera::server
