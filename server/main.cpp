// tesserad: the service. See server/README.md.
#include <malloc.h>
#include <signal.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "proto/support/cli11.h"
#include "proto/support/log_format.h"
#include "proto/support/parent_exit.h"
#include "proto/support/private_folder.h"
#include "proto/support/read_file.h"
#include "proto/support/server_exit.h"
#include "proto/support/status_macros.h"
#include "proto/support/worker_exit.h"
#include "proto/version/version.h"
#include "server/metrics/metrics.h"
#include "server/program/migrate_data.h"
#include "server/program/options.h"
#include "server/server.h"
#include "storage/backup.h"
#include "storage/blobs_place.h"
#include "storage/cached_blob_store.h"
#include "storage/file_lock.h"
#include "storage/open_objects.h"
#include "storage/postgres_store.h"
#include "storage/server_registry.h"
#include "storage/sqlite_store.h"
#include "storage/transfer.h"

namespace {

using namespace tessera;
using namespace tessera::server;
namespace fs = std::filesystem;

constexpr auto kPoll = std::chrono::milliseconds(20);
/// Interval of checks that the required workers are running.
constexpr auto kSupervision = std::chrono::milliseconds(200);
/// Larger allocations get pages of their own; chunks of blobs, of 1 MiB, do not.
constexpr int kOwnPagesBytes = 2 << 20;
/// Free memory that may stay at the end of a thread's arena.
constexpr int kIdleBytes = 2 * kOwnPagesBytes;
/// Time between the end of the last task and the end of open calls, so that waiting clients get their answers.
constexpr int kCallGraceMs = 300;
/// File of a data folder whose jobs and records are in a database of --store.
constexpr const char* kStoreMark = "tessera.store";

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

/// An address at which this machine reaches the process; "any address" cannot be connected to.
std::string reachable(const std::string& address) {
  for (const char* any : {"0.0.0.0:", "[::]:"}) {
    if (absl::StartsWith(address, any)) {
      return absl::StrCat("127.0.0.1:", address.substr(std::string(any).size()));
    }
  }
  return address;
}

/// Writes a temporary file and renames it, so that no reader sees a partial line.
absl::Status announce(const fs::path& file, const std::string& address) {
  const fs::path fresh = file.string() + ".new";
  std::ofstream(fresh) << address << "\n";
  std::error_code error;
  fs::rename(fresh, file, error);
  return error ? absl::ErrnoToStatus(error.value(), absl::StrCat("cannot write ", file.string())) : absl::OkStatus();
}

/// Waits up to `timeout` for a signal to stop; returns whether one came. With an audit log, SIGHUP reopens it.
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

/// Drains after the first signal: no more leases, and running tasks may finish. A second signal or the timeout ends it.
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

/// Opens the store that --store names, or the data folder's own. `lock` excludes a second process from the data folder,
/// unless the store does.
absl::StatusOr<std::unique_ptr<storage::Store>> openStore(const Flags& flags, const fs::path& data, Metrics& metrics,
                                                          std::unique_ptr<storage::FileLock>& lock) {
  std::function<void(std::chrono::nanoseconds, size_t)> on_commit;
  if (!flags.metrics_listen.empty()) {
    on_commit = [&metrics](std::chrono::nanoseconds took, size_t transactions) {
      metrics.committed(took, transactions);
    };
  }
  if (!flags.store.empty()) {
    TESSERA_ASSIGN_OR_RETURN(lock, storage::FileLock::take((data / "tessera.db.lock").string()));
    // The rows say which blobs exist, so a collection would delete the files of another store's blobs.
    if (fs::exists(data / "tessera.db")) {
      return absl::FailedPreconditionError(
          absl::StrCat(flags.data_dir, " belongs to the database tessera.db in it; give --store another --data-dir"));
    }
    TESSERA_ASSIGN_OR_RETURN(auto store, storage::openPostgresStore(flags.store, {.on_commit = on_commit}));
    TESSERA_RETURN_IF_ERROR(announce(data / kStoreMark, "postgresql"));
    return store;
  }
  if (fs::exists(data / kStoreMark)) {
    return absl::FailedPreconditionError(absl::StrCat(
        flags.data_dir, " belongs to a PostgreSQL database; name it with --store, or give another --data-dir"));
  }
  storage::SqliteStoreOptions options;
  options.on_commit = on_commit;
  // A worker gives up after a lease without an answer, so waiting for another program's lock must be shorter.
  options.busy = std::min(options.busy, std::chrono::milliseconds(static_cast<int64_t>(flags.lease_s * 1000 / 4)));
  return storage::openSqliteStore((data / "tessera.db").string(), options);
}

/// The blobs, in the data folder or in an object store. FAILED_PRECONDITION if the data folder only caches the blobs of
/// an object store that the flags do not name.
absl::StatusOr<std::unique_ptr<storage::BlobStore>> openBlobs(const Flags& flags,
                                                              const storage::BlobStoreOptions& options) {
  const std::string folder = (fs::path(flags.data_dir) / "blobs").string();
  TESSERA_ASSIGN_OR_RETURN(const std::string place, storage::readBlobsPlace(folder, storage::systemFiles()));
  if (!flags.blobs.empty()) {
    std::error_code error;
    if (fs::equivalent(flags.blobs, folder, error)) {
      return absl::InvalidArgumentError("--blobs: this is the folder of the local copies; name another folder");
    }
    // An unmounted file system would look like one that lost all its objects.
    TESSERA_ASSIGN_OR_RETURN(auto objects, storage::openObjects(flags.blobs, !place.empty()));
    spdlog::info("blobs are in {}", objects->placeOf(""));
    return storage::openCachedBlobStore(folder, std::move(objects),
                                        {options, static_cast<int64_t>(flags.blob_cache_bytes), flags.bind_blobs});
  }
  if (!place.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the blobs of this data folder are in ", place, "; start with --blobs and that place"));
  }
  return storage::openBlobStore(folder, options);
}

/// This machine and the data folder, which one process at a time uses.
std::string homeOf(const fs::path& data) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return absl::StrCat(host.data(), ":", fs::absolute(data).string());
}

/// The server's name among those on its database: a random one, which the data folder keeps.
absl::StatusOr<std::string> serverNameOf(const fs::path& data) {
  const fs::path file = data / "server.name";
  if (auto name = readFile(file.string()); name.ok() && !name->empty()) {
    return std::string(absl::StripAsciiWhitespace(*name));
  }
  std::string name = absl::StrCat("s", absl::BytesToHexString(RandomIds().secret()).substr(0, 8));
  TESSERA_RETURN_IF_ERROR(announce(file, name));
  return name;
}

/// The key that signs artifacts. Servers that share a database use one key, which the database holds; the first of them
/// brings that of its data folder.
absl::StatusOr<SigningKey> signingKey(const fs::path& data, storage::ServerRegistry& registry) {
  constexpr const char* kName = "signing_key";
  const std::string file = (data / "signing.key").string();
  if (!registry.isShared()) {
    return SigningKey::open(file);
  }
  if (const auto shared = registry.value(kName); !absl::IsNotFound(shared.status())) {
    TESSERA_RETURN_IF_ERROR(shared.status());
    return SigningKey::parse(*shared);
  }
  TESSERA_ASSIGN_OR_RETURN(const SigningKey own, fs::exists(file) ? SigningKey::open(file) : SigningKey::ephemeral());
  TESSERA_ASSIGN_OR_RETURN(const std::string pem, own.pem());
  TESSERA_ASSIGN_OR_RETURN(const std::string shared, registry.valueOrInsert(kName, pem));
  return SigningKey::parse(shared);
}

absl::StatusOr<std::unique_ptr<storage::ServerRegistry>> openRegistry(const Flags& flags) {
  if (flags.store.empty()) {
    return storage::openLocalServerRegistry();
  }
  return storage::openPostgresServerRegistry(flags.store);
}

/// `exit_code`: of main, if this fails.
absl::Status serve(Flags flags, const sigset_t& signals, int& exit_code) {
  exit_code = kServerUsage;
  TESSERA_ASSIGN_OR_RETURN(ServerOptions options, serverOptions(flags));
  TESSERA_RETURN_IF_ERROR(checkWorkerBinary(flags));
  exit_code = kServerFailed;
  const fs::path data(flags.data_dir);
  if (absl::Status own = createDataFolder(flags.data_dir); !own.ok()) {
    return absl::Status(own.code(), absl::StrCat("--data-dir: ", own.message()));
  }
  Metrics metrics;
  if (!flags.metrics_listen.empty()) {
    options.metrics = &metrics;
  }
  std::unique_ptr<storage::FileLock> lock;
  auto opened = openStore(flags, data, metrics, lock);
  if (!opened.ok() && storage::isForeignOrDamaged(opened.status())) {
    exit_code = kServerOtherData;
  }
  TESSERA_ASSIGN_OR_RETURN(const auto store, std::move(opened));
  TESSERA_RETURN_IF_ERROR(storage::checkTransferred(*store));
  // After the store, whose lock excludes a second process: otherwise two could each write their own key.
  TESSERA_ASSIGN_OR_RETURN(const auto registry, openRegistry(flags));
  TESSERA_ASSIGN_OR_RETURN(options.signing_key, signingKey(data, *registry));
  if (registry->isShared() && flags.server_name.empty()) {
    TESSERA_ASSIGN_OR_RETURN(flags.server_name, serverNameOf(data));
  }
  options.name = flags.server_name;
  options.registry = registry.get();
  options.home = homeOf(data);
  storage::BlobStoreOptions blob_options;
  blob_options.max_total_bytes = static_cast<int64_t>(flags.blob_quota_bytes);
  blob_options.reserve_bytes = static_cast<int64_t>(flags.disk_reserve_bytes);
  blob_options.rows = store.get();
  TESSERA_ASSIGN_OR_RETURN(const auto blobs, openBlobs(flags, blob_options));
  const fs::path address_file = data / "tesserad.addr";
  std::error_code error;
  fs::remove(address_file, error);
  fs::remove(data / "web.addr", error);
  fs::remove(data / "metrics.addr", error);

  TESSERA_ASSIGN_OR_RETURN(const auto server, Server::start(*store, *blobs, options));
  for (const std::string& address : server->addresses()) {
    spdlog::info("listening on {} ({}, {})", address, options.tls ? "TLS" : "plain text",
                 options.gate.anonymous_role == v1::ROLE_UNSPECIFIED ? "callers need a credential"
                                                                     : "anonymous callers are clients");
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
  // For `tessera --operator-of` on this machine: whoever can read this folder is an operator.
  TESSERA_RETURN_IF_ERROR(announce(data / "operator.token", server->operatorToken()));
  TESSERA_RETURN_IF_ERROR(announce(data / "operator.addr", server->privateAddress()));
  if (!server->webAddresses().empty()) {
    TESSERA_RETURN_IF_ERROR(announce(data / "web.addr", reachable(server->webAddresses().front())));
  }
  if (!server->metricsAddresses().empty()) {
    TESSERA_RETURN_IF_ERROR(announce(data / "metrics.addr", reachable(server->metricsAddresses().front())));
  }
  // Read by a program that starts this one (`tessera --local`), to check that both are of the same build.
  TESSERA_RETURN_IF_ERROR(
      announce(data / "tesserad.build",
               absl::StrCat(compilerVersion(), "\n", getpid(), "\n", flags.die_with_parent ? kExitsWithParent : "")));
  TESSERA_RETURN_IF_ERROR(announce(address_file, address));
  std::printf("tesserad ready on %s\n", address.c_str());
  std::fflush(stdout);

  // A local worker that can never start would leave its jobs waiting forever. End instead: after a restart with what
  // the worker needs, the stored jobs continue.
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
  if (!flags.store.empty()) {
    return absl::InvalidArgumentError(
        "--backup-to and --restore-from copy a data folder with its own database; copy the database of --store with "
        "pg_dump, then the folder blobs/");
  }
  TESSERA_ASSIGN_OR_RETURN(const storage::BackupStats facts, flags.backup_to.empty()
                                                                 ? storage::restore(flags.restore_from, flags.data_dir)
                                                                 : storage::backUp(flags.data_dir, flags.backup_to));
  std::printf(flags.json ? "{\"blobs\":%lld,\"bytes\":%lld}\n" : "copied %lld blobs, %lld bytes, and the database\n",
              static_cast<long long>(facts.blobs), static_cast<long long>(facts.bytes));
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  // Block signals before the first thread starts, so that only sigtimedwait receives them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  umask(0077);  // models and artifacts are private to their owner
  // Debian's Abseil checks the order of all locks, including gRPC's, for cycles, which costs time at each lock and ends
  // the process at the first possible deadlock. Upstream's release builds do not.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);

  // glibc sets both thresholds itself once a large block is freed. Until then each thread returns memory to the kernel
  // and requests it again.
  mallopt(M_MMAP_THRESHOLD, kOwnPagesBytes);
  mallopt(M_TRIM_THRESHOLD, kIdleBytes);

  Flags flags;
  CLI::App app("The Tessera service: takes jobs, keeps what they made, gives work to workers.", "tesserad");
  addFlags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& parse_error) {
    return app.exit(parse_error) == 0 ? 0 : kServerUsage;
  }
  if (flags.die_with_parent && !tessera::signalOnParentExit(SIGTERM)) {
    return 0;
  }
  absl::Status status = setUpLog(flags);
  int exit_code = kServerFailed;
  if (status.ok()) {
    const bool moves = !flags.migrate_from.empty();
    const bool copies = !flags.backup_to.empty() || !flags.restore_from.empty();
    status = moves ? migrateData(flags) : copies ? copyData(flags) : serve(flags, signals, exit_code);
  }
  if (!status.ok()) {
    std::fprintf(stderr, "tesserad: %s\n", std::string(status.message()).c_str());
  }
  spdlog::shutdown();
  return status.ok() ? 0 : exit_code;
}
