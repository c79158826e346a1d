// tesserad: the service. See server/README.md.
#include <signal.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "proto/cli11.h"
#include "proto/log_format.h"
#include "proto/read_file.h"
#include "proto/server_exit.h"
#include "proto/version/version.h"
#include "proto/worker_exit.h"
#include "server/access/exposure.h"
#include "server/gateway/connection.h"
#include "server/metrics/metrics.h"
#include "server/server.h"
#include "server/status_macros.h"
#include "server/supervisor/supervisor.h"
#include "storage/backup.h"
#include "storage/sqlite_store.h"

namespace {

using namespace tessera;
using namespace tessera::server;
namespace fs = std::filesystem;

constexpr auto kPoll = std::chrono::milliseconds(20);
/// How often this process looks whether it still has the workers it needs.
constexpr auto kSupervision = std::chrono::milliseconds(200);
/// Between "nothing runs any more" and the end of open calls: a waiting client gets its last answer.
constexpr int kCallGraceMs = 300;

struct Flags {
  std::string data_dir = "tessera-data";
  std::vector<std::string> listen = {"127.0.0.1:7400"};
  std::vector<std::string> worker_listen;
  std::vector<std::string> web_listen, web_hosts, metrics_listen;
  std::string tls_certificate, tls_key, tls_client_authority;
  bool need_certificate = false;
  bool need_credential = false;
  bool insecure = false;
  std::string backup_to, restore_from;
  bool json = false;
  double keep_jobs_h = 90 * 24, keep_events_h = 30 * 24, keep_artifacts_h = 180 * 24, keep_objects_h = 180 * 24;
  double keep_records_h = 0, keep_blobs_h = 24, collect_every_h = 0;
  uint64_t keep_artifact_bytes = 0, keep_object_bytes = 0;
  int max_calls = GatePolicy().max_calls;
  int max_calls_of_one = GatePolicy().max_calls_of_one;
  uint64_t max_held_bytes = static_cast<uint64_t>(GatePolicy().max_held_bytes);
  int workers = 1;
  std::string server_name;
  std::string worker_binary;
  std::vector<std::string> worker_arguments;
  std::string sandbox_user;
  std::vector<std::string> require_sandbox;
  std::string share_cache = "no";
  std::string log_level = "info";
  std::string log_format = "text";
  std::string log_file;
  std::string quotas_file, audit_file;
  double lease_s = 10;
  double heartbeat_s = 0.5;
  double run_timeout_s = 600;
  double queue_timeout_s = 24 * 3600;
  double total_timeout_s = 48 * 3600;
  double no_worker_s = 600;
  double drain_timeout_s = 30;
  uint64_t max_model_bytes = uint64_t{2} << 30;
  uint64_t max_blob_bytes = uint64_t{64} << 30;
  uint64_t task_memory_bytes = 0;
  uint64_t blob_quota_bytes = 0;
  uint64_t disk_reserve_bytes = 0;
  uint64_t scrub_rate_bytes = 4 << 20;
  int max_connections = 4096, max_connections_of_one = 1024;
};

CLI::Validator serverName() {
  return {[](const std::string& name) -> std::string {
            const bool good = !name.empty() && name.size() <= 32 && absl::ascii_isalpha(name.front()) &&
                              std::all_of(name.begin(), name.end(), absl::ascii_isalnum);
            return good ? "" : "accepted: up to 32 letters and digits, beginning with a letter; found " + name;
          },
          "NAME"};
}

void addFlags(CLI::App& app, Flags& flags) {
  app.set_version_flag("--version", absl::StrCat("tesserad ", releaseVersion(), " (compiler ", compilerVersion(),
                                                 ", LLVM ", llvmVersion(), ")"));
  app.add_option("--data-dir", flags.data_dir, "Database and blobs; made when absent")->capture_default_str();
  app.add_option("--listen", flags.listen, "host:port (port 0: any free one) or unix:/path; may be repeated")
      ->capture_default_str();
  app.add_option("--worker-listen", flags.worker_listen,
                 "The same, where workers of other machines come in, each with a token; may be repeated");
  app.add_option("--web-listen", flags.web_listen,
                 "host:port of the web page and the API as JSON, e.g. 127.0.0.1:7480; may be repeated; default: none");
  app.add_option("--web-host", flags.web_hosts,
                 "A name that browsers know this machine by, beside its own; may be repeated");
  app.add_option("--metrics-listen", flags.metrics_listen,
                 "host:port of /metrics (Prometheus), /healthz and /readyz, e.g. 127.0.0.1:7490; may be repeated; "
                 "default: none");
  app.add_option("--tls-cert", flags.tls_certificate, "Talk TLS: this server's certificates (PEM)")
      ->check(CLI::ExistingFile);
  app.add_option("--tls-key", flags.tls_key, "Their private key (PEM)")->check(CLI::ExistingFile);
  app.add_option("--tls-client-ca", flags.tls_client_authority,
                 "Who calls may show a certificate of this authority (PEM) instead of a token")
      ->check(CLI::ExistingFile);
  app.add_flag("--require-certificates", flags.need_certificate, "Turn away who shows none, whatever token they have");
  app.add_flag("--require-tokens", flags.need_credential,
               "Let nobody in without a token or certificate; so it is anyway where --listen is more than loopback");
  app.add_flag("--insecure-let-anyone-in", flags.insecure,
               "Serve others than this machine in plain text, and let in whoever calls");
  app.add_option("--max-calls", flags.max_calls, "Calls in progress at a time, of all callers")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--max-calls-of-one", flags.max_calls_of_one, "The same, of one token or, without, one machine")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--max-connections", flags.max_connections,
                 "Connections open at a time, but for those to Unix sockets")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--max-connections-of-one", flags.max_connections_of_one, "The same, of one machine")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--scrub-rate", flags.scrub_rate_bytes,
                 "Read every blob once a day, so many bytes a second, and set damaged ones aside; 0: never")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--max-held-bytes", flags.max_held_bytes, "What requests may hold while they wait, all together")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--quotas", flags.quotas_file,
                 "What projects may use: a text proto of tessera.v1.Quotas, read again when it changes")
      ->check(CLI::ExistingFile);
  app.add_option("--audit-log", flags.audit_file,
                 "Write who changed what, and who was refused, to this file as JSON lines; SIGHUP opens it anew");
  app.add_option("--workers", flags.workers, "Local workers to run; 0 for none")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--server-name", flags.server_name,
                 "Part of its local workers' names: local-NAME-0, local-NAME-1, ...; default: local-0, local-1, ...")
      ->check(serverName());
  auto* backup = app.add_option("--backup-to", flags.backup_to,
                                "Copy the data folder there, a service may be working on it, and end");
  app.add_option("--restore-from", flags.restore_from, "Make the data folder of a backup, and end")->excludes(backup);
  app.add_flag("--json", flags.json, "With these two: say what was copied as JSON");
  app.add_option("--worker-binary", flags.worker_binary, "Default: tessera-worker beside this program");
  app.add_option("--sandbox-user", flags.sandbox_user,
                 "User that the local workers' tasks run as, which should have nothing else; takes root");
  app.add_option("--require-sandbox", flags.require_sandbox,
                 "Take no worker, local or not, without these measures (files, namespaces, user, ...), or full: all of "
                 "them")
      ->delimiter(',');
  app.add_option("--share-cache", flags.share_cache,
                 "reproduced: projects share built objects that two workers have made alike, byte for byte; no: each "
                 "project has its own cache alone")
      ->check(CLI::IsMember({"no", "reproduced"}))
      ->capture_default_str();
  app.add_option("--worker-arg", flags.worker_arguments, "Given to each local worker; may be repeated");
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warn, error")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_option("--log-format", flags.log_format, "text, or json: an object a line, with the ids of jobs and requests")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_option("--log-file", flags.log_file, "Log to this file too, in 5 parts of 20 MB");
  app.add_option("--lease", flags.lease_s, "Seconds without a heartbeat after which a task is given to another worker")
      ->check(CLI::Range(1.0, 3600.0))
      ->capture_default_str();
  app.add_option("--heartbeat", flags.heartbeat_s, "Seconds between heartbeats; a cancelled task ends that soon")
      ->check(CLI::Range(0.05, 60.0))
      ->capture_default_str();
  app.add_option("--run-timeout", flags.run_timeout_s, "Seconds one task may run, where the request names none")
      ->check(CLI::Range(1.0, 604800.0))
      ->capture_default_str();
  app.add_option("--queue-timeout", flags.queue_timeout_s,
                 "Seconds a job may wait to start, where the request names none")
      ->check(CLI::Range(1.0, 604800.0))
      ->capture_default_str();
  app.add_option("--total-timeout", flags.total_timeout_s,
                 "Seconds a job may take in all, where the request names none")
      ->check(CLI::Range(1.0, 604800.0))
      ->capture_default_str();
  app.add_option("--no-worker-timeout", flags.no_worker_s, "Seconds after which a task fails that no live worker takes")
      ->check(CLI::Range(1.0, 604800.0))
      ->capture_default_str();
  app.add_option("--drain-timeout", flags.drain_timeout_s, "After SIGTERM, seconds for running tasks to finish")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--max-model-bytes", flags.max_model_bytes, "Largest model file, e.g. 512MiB")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--max-blob-bytes", flags.max_blob_bytes, "Largest blob, e.g. 16GiB")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--blob-quota", flags.blob_quota_bytes,
                 "All blobs together, e.g. 100GiB; uploads past it are refused; 0: any")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--disk-reserve", flags.disk_reserve_bytes,
                 "Kept free of blobs on the disk, so that the database can be written, e.g. 1GiB; 0: nothing")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  const auto keep = [&app](const char* name, double& hours, const char* what) {
    app.add_option(name, hours, what)->check(CLI::Range(0.0, 1e6))->capture_default_str();
  };
  keep("--keep-jobs", flags.keep_jobs_h, "Hours that jobs are kept after their end; 0, here and below: for ever");
  keep("--keep-events", flags.keep_events_h, "Hours that their events are kept");
  keep("--keep-artifacts", flags.keep_artifacts_h, "Hours that artifacts are kept after their last use");
  keep("--keep-objects", flags.keep_objects_h, "Hours that built objects are kept after their last use");
  keep("--keep-records", flags.keep_records_h,
       "Hours that tuning records are kept; the four fastest of each workload and chip stay");
  keep("--keep-blobs", flags.keep_blobs_h, "Hours that blobs are kept that nothing names (at least one)");
  keep("--collect-every", flags.collect_every_h, "Hours between collections; 0: only by `tessera admin gc`");
  app.add_option("--keep-artifact-bytes", flags.keep_artifact_bytes,
                 "All artifacts together; those used longest ago go first; 0: any")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--keep-object-bytes", flags.keep_object_bytes, "The same of built objects")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--task-memory", flags.task_memory_bytes, "Address space of one task, e.g. 16GiB; 0: the worker's")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
}

absl::Status setUpLog(const Flags& flags) {
  std::vector<spdlog::sink_ptr> sinks = {std::make_shared<spdlog::sinks::stderr_color_sink_mt>()};
  if (!flags.log_file.empty()) {
    try {
      sinks.push_back(std::make_shared<spdlog::sinks::rotating_file_sink_mt>(flags.log_file, 20 << 20, 5));
    } catch (const spdlog::spdlog_ex& error) {
      return absl::InvalidArgumentError(absl::StrCat("--log-file: ", error.what()));
    }
  }
  auto log = std::make_shared<spdlog::logger>("tesserad", sinks.begin(), sinks.end());
  log->set_level(spdlog::level::from_str(flags.log_level));
  log->set_formatter(flags.log_format == "json" ? jsonLogFormat("tesserad") : logFormat(true));
  log->flush_on(spdlog::level::warn);
  spdlog::set_default_logger(log);
  spdlog::flush_every(std::chrono::seconds(1));
  return absl::OkStatus();
}

absl::StatusOr<std::string> contentOf(const std::string& path) {
  TESSERA_ASSIGN(std::string content, readFile(path));
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
  TESSERA_ASSIGN(tls.certificate, contentOf(flags.tls_certificate));
  TESSERA_ASSIGN(tls.private_key, contentOf(flags.tls_key));
  if (asks) {
    TESSERA_ASSIGN(tls.client_authority, contentOf(flags.tls_client_authority));
  }
  tls.need_certificate = flags.need_certificate;
  TESSERA_TRY(gateway::tlsContext(tls).status());  // gRPC would listen with any file, and nobody get in
  return tls;
}

/// In the data folder, whose owner alone may come in; a socket's path has a bound, and then any free port will do: a
/// token is asked for here or there.
std::string privateAddress(const fs::path& data) {
  constexpr size_t kMaxSocketPath = 107;
  const std::string path = fs::absolute(data / "private.sock").string();
  return path.size() > kMaxSocketPath ? "127.0.0.1:0" : absl::StrCat("unix:", path);
}

/// A connection takes two of the files that a process may have open; what is left over is the service's own.
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

absl::StatusOr<ServerOptions> serverOptions(const Flags& flags) {
  ServerOptions options;
  options.listen = flags.listen;
  options.name = flags.server_name;
  options.worker_listen = flags.worker_listen;
  options.web_listen = flags.web_listen;
  options.web_hosts = flags.web_hosts;
  options.private_listen = privateAddress(flags.data_dir);
  TESSERA_ASSIGN(options.tls, tlsOf(flags));
  options.metrics_listen = flags.metrics_listen;
  const Exposure exposure{flags.listen,         flags.worker_listen,     flags.web_listen,
                          flags.metrics_listen, options.tls.has_value(), flags.insecure};
  TESSERA_TRY(checkExposure(exposure));
  options.metrics_need_token = flags.need_credential || !showsMetricsToAll(exposure);
  options.gate.strangers = letsStrangersIn(exposure) && !flags.need_credential ? v1::CLIENT : v1::ROLE_UNSPECIFIED;
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

std::string workerBinary(const Flags& flags) {
  return !flags.worker_binary.empty() ? flags.worker_binary
                                      : (fs::read_symlink("/proc/self/exe").parent_path() / "tessera-worker").string();
}

/// Said at the start. Later it may be missing for a moment, while a release is installed.
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

/// Where this process can be reached from this machine: "any address" is not one to connect to.
std::string reachable(const std::string& address) {
  for (const char* any : {"0.0.0.0:", "[::]:"}) {
    if (absl::StartsWith(address, any)) {
      return absl::StrCat("127.0.0.1:", address.substr(std::string(any).size()));
    }
  }
  return address;
}

/// Written whole and then renamed: whoever waits for the file never reads half a line.
absl::Status announce(const fs::path& file, const std::string& address) {
  const fs::path fresh = file.string() + ".new";
  std::ofstream(fresh) << address << "\n";
  std::error_code error;
  fs::rename(fresh, file, error);
  return error ? absl::ErrnoToStatus(error.value(), absl::StrCat("cannot write ", file.string())) : absl::OkStatus();
}

/// Waits up to `timeout` for a signal to stop; whether one came. Where there is an audit log, SIGHUP is of that.
bool stopAsked(Server& server, const Flags& flags, const sigset_t& signals, std::chrono::milliseconds timeout) {
  timespec wait{timeout.count() / 1000, (timeout.count() % 1000) * 1'000'000};
  const int signal = sigtimedwait(&signals, nullptr, &wait);
  const bool rotated = signal == SIGHUP && !flags.audit_file.empty();
  if (rotated) {
    if (const absl::Status status = server.reopenAuditLog(); !status.ok()) {
      spdlog::error(std::string(status.message()));
    }
  }
  return signal > 0 && !rotated;
}

/// After the first signal: no more leases; running tasks may finish. A second signal or the timeout ends it.
void drain(Server& server, Supervisor& supervisor, const Flags& flags, const sigset_t& signals) {
  spdlog::info("draining: running tasks have {} s to finish; signal again to stop at once", flags.drain_timeout_s);
  server.drain();
  supervisor.drain();
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::duration<double>(flags.drain_timeout_s);
  while (server.busy() || supervisor.running()) {
    if (std::chrono::steady_clock::now() >= give_up || stopAsked(server, flags, signals, kPoll)) {
      spdlog::warn("stopping with tasks still running; they start again with the next server");
      return;
    }
  }
}

/// `exit_code`: what main answers where this fails.
absl::Status serve(const Flags& flags, const sigset_t& signals, int& exit_code) {
  TESSERA_ASSIGN(ServerOptions options, serverOptions(flags));
  TESSERA_TRY(checkWorkerBinary(flags));
  const fs::path data(flags.data_dir);
  std::error_code error;
  fs::create_directories(data, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("--data-dir: cannot make ", flags.data_dir));
  }
  fs::permissions(data, fs::perms::owner_all, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("--data-dir: cannot keep others out of ", flags.data_dir));
  }
  TESSERA_ASSIGN(options.signing_key, SigningKey::open((data / "signing.key").string()));
  Metrics metrics;
  storage::SqliteStoreOptions store_options;
  // Workers that hear nothing for a lease give up: waiting for another program's lock must not cost them theirs.
  store_options.busy =
      std::min(store_options.busy, std::chrono::milliseconds(static_cast<int64_t>(flags.lease_s * 1000 / 4)));
  if (!flags.metrics_listen.empty()) {
    options.metrics = &metrics;
    store_options.on_commit = [&metrics](std::chrono::nanoseconds took, size_t transactions) {
      metrics.committed(took, transactions);
    };
  }
  TESSERA_ASSIGN(auto store, storage::openSqliteStore((data / "tessera.db").string(), store_options));
  storage::BlobStoreOptions blob_options;
  blob_options.max_total_bytes = static_cast<int64_t>(flags.blob_quota_bytes);
  blob_options.reserve_bytes = static_cast<int64_t>(flags.disk_reserve_bytes);
  blob_options.rows = store.get();
  TESSERA_ASSIGN(auto blobs, storage::openBlobStore((data / "blobs").string(), blob_options));
  const fs::path address_file = data / "tesserad.addr";
  fs::remove(address_file, error);
  fs::remove(data / "web.addr", error);
  fs::remove(data / "metrics.addr", error);

  TESSERA_ASSIGN(const auto server, Server::start(*store, *blobs, options));
  for (const std::string& address : server->addresses()) {
    spdlog::info("listening on {} ({}, {})", address, options.tls ? "TLS" : "plain text",
                 options.gate.strangers == v1::ROLE_UNSPECIFIED ? "who calls shows a credential"
                                                                : "anyone is let in as a client");
  }
  for (const std::string& address : server->workerAddresses()) {
    spdlog::info("listening on {} for workers", address);
  }
  for (const std::string& address : server->webAddresses()) {
    spdlog::info("web page on {}://{}/", options.tls ? "https" : "http", address);
  }
  for (const std::string& address : server->metricsAddresses()) {
    spdlog::info("metrics on {}://{}/metrics", options.tls ? "https" : "http", address);
  }
  const std::string address = reachable(server->addresses().front());
  Supervisor supervisor(supervisorOptions(flags, *server), [&](const std::string& worker_id) {
    if (const absl::Status status = server->scheduler().workerGone(worker_id); !status.ok()) {
      spdlog::error("worker {}: {}", worker_id, std::string(status.message()));
    }
  });
  // What the operator on this machine needs (`tessera --operator-of`): whoever may read this folder is one.
  TESSERA_TRY(announce(data / "operator.token", server->operatorToken()));
  TESSERA_TRY(announce(data / "operator.addr", server->privateAddress()));
  if (!server->webAddresses().empty()) {
    TESSERA_TRY(announce(data / "web.addr", reachable(server->webAddresses().front())));
  }
  if (!server->metricsAddresses().empty()) {
    TESSERA_TRY(announce(data / "metrics.addr", reachable(server->metricsAddresses().front())));
  }
  // A program that comes with this one (`tessera --local`) sees here whether it is of the same build.
  TESSERA_TRY(announce(data / "tesserad.build", absl::StrCat(compilerVersion(), "\n", getpid())));
  TESSERA_TRY(announce(address_file, address));
  std::printf("tesserad ready on %s\n", address.c_str());
  std::fflush(stdout);

  // A local worker that can never start would leave its jobs waiting for ever: better to end, and to go on from what is
  // kept when somebody (or a service manager) starts this again with what it needs.
  absl::Status outcome;
  while (outcome.ok() && !stopAsked(*server, flags, signals, kSupervision)) {
    if (const Supervisor::FinalEnd end = supervisor.gaveUp(); !end.text.empty()) {
      if (end.exit_code == worker::kWorkerVersionMismatch) {
        exit_code = kServerOtherBuild;
      }
      outcome = absl::FailedPreconditionError(absl::StrCat(
          end.text, ", which starting it again cannot mend (its own message is above); check --worker-arg and that ",
          "tesserad, tessera-worker and tessera-task are of one release, then start tesserad again: no job is lost"));
      spdlog::error(std::string(outcome.message()));
    }
  }
  drain(*server, supervisor, flags, signals);
  fs::remove(address_file, error);
  supervisor.kill();
  server->stop(kCallGraceMs);
  spdlog::info("stopped");
  return outcome;
}

absl::Status copyData(const Flags& flags) {
  TESSERA_ASSIGN(const storage::BackupFacts facts, flags.backup_to.empty()
                                                       ? storage::restore(flags.restore_from, flags.data_dir)
                                                       : storage::backUp(flags.data_dir, flags.backup_to));
  std::printf(flags.json ? "{\"blobs\":%lld,\"bytes\":%lld}\n" : "copied %lld blobs, %lld bytes, and the database\n",
              static_cast<long long>(facts.blobs), static_cast<long long>(facts.bytes));
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  // Before the first thread, so that only sigtimedwait sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  umask(0077);  // models and artifacts are their owners'
  // Debian's Abseil looks for cycles in the order of all locks, gRPC's among them: each lock pays for it, and one cycle
  // that might deadlock ends the process. Upstream's release builds do neither.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);

  Flags flags;
  CLI::App app("The Tessera service: takes jobs, keeps what they made, gives work to workers.", "tesserad");
  addFlags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& parse_error) {
    return app.exit(parse_error) == 0 ? 0 : kServerUsage;
  }
  absl::Status status = setUpLog(flags);
  int exit_code = kServerFailed;
  if (status.ok()) {
    const bool copies = !flags.backup_to.empty() || !flags.restore_from.empty();
    status = copies ? copyData(flags) : serve(flags, signals, exit_code);
  }
  if (!status.ok()) {
    std::fprintf(stderr, "tesserad: %s\n", std::string(status.message()).c_str());
  }
  spdlog::shutdown();
  return status.ok() ? 0 : exit_code;
}
