#include "server/server.h"

#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/support/log_format.h"
#include "proto/support/status_macros.h"
#include "proto/version/version.h"
#include "server/access/token_book.h"
#include "server/executor.h"
#include "server/gateway/gateway.h"
#include "server/grpc_endpoint.h"
#include "server/membership.h"
#include "server/metrics/metrics.h"
#include "server/metrics/monitoring.h"
#include "server/operator_catalog.h"
#include "server/retention/scrubber.h"
#include "server/workflows/workflows.h"

namespace tessera::server {
namespace {

constexpr auto kSweepInterval = std::chrono::milliseconds(200);
/// Interval between the starts of two passes over all blobs. A longer pass is followed by kScrubPause.
constexpr auto kScrubInterval = std::chrono::hours(24);
constexpr auto kScrubPause = std::chrono::minutes(1);
/// How often a server looks whether periodic work for all servers is its own and due.
constexpr auto kDutyLook = std::chrono::seconds(1);
/// Interval between comparisons of this machine's clock with the database's.
constexpr auto kOffsetInterval = std::chrono::minutes(1);

/// Logs a line for each job that ended, and counts observations.
class ObservationLog : public Observer {
 public:
  explicit ObservationLog(Metrics* metrics) : metrics_(metrics) {}

  void happened(const Observations& seen) override {
    for (const Observations::End& end : seen.ends) {
      const std::string state = labelOf(v1::Job::State_Name(end.state));
      const std::string reason =
          end.reason == v1::Failure::REASON_UNSPECIFIED ? "" : v1::Failure::Reason_Name(end.reason);
      const LogContext about({{"job", end.job_id},
                              {"request_id", end.request_id},
                              {"client", end.client},
                              {"kind", end.kind},
                              {"state", state},
                              {"reason", reason}});
      spdlog::info("{} job {} of {}: {}{}{} after {:.3f} s{}", end.kind, end.job_id, end.client, state,
                   reason.empty() ? "" : ", ", reason, end.took_s, end.cached ? ", from the cache" : "");
    }
    if (metrics_ != nullptr) {
      metrics_->happened(seen);
    }
  }

 private:
  Metrics* const metrics_;
};

Rules completed(Rules rules, const Quotas& quotas) {
  if (quotas.any()) {
    rules.quota_of = [&quotas](const std::string& project) { return quotas.of(project); };
  }
  if (rules.compiler_version.empty()) {
    rules.compiler_version = compilerVersion();
  }
  return rules;
}

/// This machine's time as the database's, so that all servers on it compare leases and deadlines by one clock.
SystemClock clockOf(const std::shared_ptr<std::atomic<int64_t>>& offset_us) {
  const auto micros = []<typename Source>(Source) {
    return std::chrono::duration_cast<std::chrono::microseconds>(Source::now().time_since_epoch()).count();
  };
  return {[micros, offset_us] { return micros(std::chrono::system_clock()) + *offset_us; },
          [micros] { return micros(std::chrono::steady_clock()); }};
}

storage::ServerIdentity identityOf(const ServerOptions& options) {
  storage::ServerIdentity self;
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  self.home = options.home;
  self.instance = RandomIds().next("process");
  self.server.set_id(options.name.empty() ? "main" : options.name);
  self.server.set_host(host.data());
  self.server.set_pid(getpid());
  self.server.set_release(releaseVersion());
  self.server.set_compiler_version(compilerVersion());
  *self.server.mutable_start_time() =
      google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(SystemClock().nowMicros());
  return self;
}

/// Periodic work that this server does if no other one does.
std::set<std::string> dutiesOf(const ServerOptions& options) {
  std::set<std::string> duties = {kSweeping};
  if (options.collect_every.count() > 0) {
    duties.insert(kRetention);
  }
  if (options.scrub_bytes_per_second > 0) {
    duties.insert(kScrubbing);
  }
  return duties;
}

std::shared_ptr<grpc::ServerCredentials> credentialsOf(const std::optional<Tls>& tls) {
  if (!tls) {
    return grpc::InsecureServerCredentials();
  }
  grpc::SslServerCredentialsOptions options(tls->client_authority.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                            : tls->need_certificate
                                                ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                                : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_key_cert_pairs.push_back({tls->private_key, tls->certificate});
  options.pem_root_certs = tls->client_authority;
  return grpc::SslServerCredentials(options);
}

class GrpcServer : public Server {
 public:
  GrpcServer(storage::Store& store, storage::BlobStore& blobs, const ServerOptions& options,
             std::unique_ptr<AuditLog> audit, int64_t clock_offset_us)
      : store_(store),
        options_(options),
        own_registry_(options.registry == nullptr ? storage::openLocalServerRegistry() : nullptr),
        registry_(options.registry == nullptr ? *own_registry_ : *options.registry),
        clock_offset_us_(std::make_shared<std::atomic<int64_t>>(clock_offset_us)),
        clock_(clockOf(clock_offset_us_)),
        quotas_(clock_, options.quotas_file),
        audit_(std::move(audit)),
        control_(options.control_threads),
        blob_io_(options.blob_threads),
        targets_(store),
        chronicle_(options.metrics),
        scheduler_(store, blobs, clock_, ids_, workflows_, completed(options.rules, quotas_)),
        tokens_(store, clock_, ids_, registry_.isShared()),
        operators_(registry_),
        collector_(store, blobs, clock_, [this] { return excludeOtherCollections(); }),
        membership_(registry_, identityOf(options_), dutiesOf(options_), callbacks()),
        backend_{clock_,
                 store,
                 blobs,
                 scheduler_,
                 targets_,
                 operators_,
                 tokens_,
                 quotas_,
                 audit_.get(),
                 collector_,
                 control_,
                 blob_io_,
                 options_.limits,
                 options_.policy,
                 options_.metrics,
                 *options_.signing_key,
                 registry_,
                 std::make_shared<ConcurrencyLimiter>(options_.max_connections, options_.max_connections_of_one)},
        clients_(backend_, GrpcEndpoint::For::kClients, options.gate),
        worker_endpoint_(backend_, GrpcEndpoint::For::kWorkersAndOperator, withoutAnonymous(options.gate)),
        browsers_(backend_, GrpcEndpoint::For::kClients, behindWeb(options.gate)) {
    scheduler_.setObserver(&chronicle_);
  }

  ~GrpcServer() override { stop(0); }

  absl::Status open() {
    TESSERA_RETURN_IF_ERROR(quotas_.refresh());
    TESSERA_RETURN_IF_ERROR(targets_.storeBuiltins());
    TESSERA_RETURN_IF_ERROR(tokens_.load());
    worker_token_ = tokens_.issueForThisProcess(kLocalWorkers, v1::WORKER);
    operator_token_ = tokens_.issueForThisProcess("this machine's operator", v1::OPERATOR);
    TESSERA_RETURN_IF_ERROR(membership_.join());
    TESSERA_RETURN_IF_ERROR(scheduler_.recover(localWorkerPrefix(options_.name), membership_.hasOthers()));
    TESSERA_RETURN_IF_ERROR(openEndpoint(clients_, {}, options_.listen, addresses_));
    std::vector<std::string> inside;
    TESSERA_RETURN_IF_ERROR(openEndpoint(worker_endpoint_, options_.private_listen, options_.worker_listen, inside));
    private_address_ = inside.front();
    worker_addresses_.assign(inside.begin() + 1, inside.end());
    TESSERA_RETURN_IF_ERROR(openWeb());
    TESSERA_RETURN_IF_ERROR(openMonitoring());
    membership_.setAddress(addressForOthers());
    sweeper_ = std::thread([this] { sweepUntilStopped(); });
    if (options_.collect_every.count() > 0) {
      housekeeper_ = std::thread([this] { collectUntilStopped(); });
    }
    if (options_.scrub_bytes_per_second > 0) {
      scrubber_ = std::thread([this] { scrubUntilStopped(); });
    }
    return absl::OkStatus();
  }

  const std::vector<std::string>& addresses() const override { return addresses_; }
  const std::vector<std::string>& workerAddresses() const override { return worker_addresses_; }
  const std::vector<std::string>& webAddresses() const override { return web_addresses_; }
  const std::vector<std::string>& metricsAddresses() const override { return metrics_addresses_; }
  const std::string& privateAddress() const override { return private_address_; }
  const std::string& workerToken() const override { return worker_token_; }
  const std::string& operatorToken() const override { return operator_token_; }
  Scheduler& scheduler() override { return scheduler_; }

  void drain() override {
    scheduler_.setDraining(true);
    if (monitoring_) {
      monitoring_->drain();
    }
    clients_.leave();
    worker_endpoint_.leave();
    membership_.drain();
  }

  absl::Status reopenAuditLog() override { return audit_ ? audit_->reopen() : absl::OkStatus(); }

  bool busy() override {
    bool any = false;
    const absl::Status status = store_.read([&](storage::Reader& reader) -> absl::Status {
      TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Task> tasks, reader.leasedTasks());
      const std::string local = localWorkerPrefix(options_.name);
      any = std::ranges::any_of(tasks, [&, others = membership_.hasOthers()](const v1::Task& task) {
        return !others || task.worker_id().starts_with(local);
      });
      return absl::OkStatus();
    });
    return status.ok() && any;
  }

  void stop(int grace_ms) override {
    collector_.stop();
    // Connections wait for answers of the services, so the gateway stops first.
    std::thread web_ends([this] {
      if (web_) {
        web_->stop();
      }
    });
    browsers_.stop(grace_ms);
    web_ends.join();
    clients_.stop(grace_ms);
    worker_endpoint_.stop(grace_ms);
    if (monitoring_) {
      monitoring_->stop();
    }
    // Posted work of the last calls still uses the scheduler.
    control_.stop();
    blob_io_.stop();
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread* thread : {&sweeper_, &housekeeper_, &scrubber_}) {
      if (thread->joinable()) {
        thread->join();
      }
    }
    membership_.leave();
  }

 private:
  static GatePolicy withoutAnonymous(GatePolicy policy) {
    policy.anonymous_role = v1::ROLE_UNSPECIFIED;
    return policy;
  }

  static GatePolicy behindWeb(GatePolicy policy) {
    policy.from_gateway = true;
    return policy;
  }

  absl::Status openWeb() {
    if (options_.web_listen.empty()) {
      return absl::OkStatus();
    }
    std::vector<GrpcEndpoint::Address> nowhere;  // reachable only within this process
    TESSERA_RETURN_IF_ERROR(browsers_.open(nowhere));
    gateway::WebOptions options;
    options.listen = options_.web_listen;
    options.hosts = options_.web_hosts;
    options.tls = options_.tls;
    TESSERA_ASSIGN_OR_RETURN(web_, gateway::Gateway::start(options, browsers_.channel()));
    web_addresses_ = web_->addresses();
    return absl::OkStatus();
  }

  absl::Status openMonitoring() {
    if (options_.metrics_listen.empty()) {
      return absl::OkStatus();
    }
    if (options_.metrics == nullptr) {
      return absl::InvalidArgumentError("metrics_listen without metrics");
    }
    MonitoringOptions options;
    options.listen = options_.metrics_listen;
    options.hosts = options_.web_hosts;
    options.tls = options_.tls;
    if (options_.metrics_need_token) {
      options.authorize = [this](const std::string& secret) -> absl::Status {
        TESSERA_ASSIGN_OR_RETURN(const Caller caller, tokens_.find(secret));
        return may(caller.role, Right::kRead)
                   ? absl::OkStatus()
                   : absl::PermissionDeniedError(absl::StrCat(caller.name, " may not look here"));
      };
    }
    TESSERA_ASSIGN_OR_RETURN(
        monitoring_, Monitoring::start(options, *options_.metrics, store_, backend_.blobs, quotas_, clock_, control_));
    metrics_addresses_ = monitoring_->addresses();
    return absl::OkStatus();
  }

  /// `plain`: a plain-text address of this machine, before the others; empty: none.
  absl::Status openEndpoint(GrpcEndpoint& endpoint, const std::string& plain, const std::vector<std::string>& listen,
                            std::vector<std::string>& opened) const {
    std::vector<GrpcEndpoint::Address> addresses;
    if (!plain.empty()) {
      addresses.push_back({plain, credentialsOf(std::nullopt)});
    }
    for (const std::string& address : listen) {
      // A Unix socket cannot be observed from other machines.
      addresses.push_back({address, credentialsOf(absl::StartsWith(address, "unix:") ? std::nullopt : options_.tls)});
    }
    TESSERA_RETURN_IF_ERROR(endpoint.open(addresses));
    for (const GrpcEndpoint::Address& address : addresses) {
      opened.push_back(address.listen);
    }
    return absl::OkStatus();
  }

  void sweepUntilStopped() {
    auto next_offset = std::chrono::steady_clock::now() + kOffsetInterval;
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kSweepInterval, [this] { return stopping_; })) {
      lock.unlock();
      if (const absl::Status status = quotas_.refresh(); !status.ok()) {
        spdlog::error("quotas stay as they were: {}", std::string(status.message()));
      }
      if (audit_) {
        audit_->flush();
      }
      if (membership_.holds(kSweeping)) {
        if (const absl::Status status = scheduler_.sweep(); !status.ok()) {
          spdlog::error("sweep: {}", std::string(status.message()));
        }
      } else if (membership_.isCurrent()) {
        scheduler_.skipSweep();
      }
      if (membership_.isCurrent() && std::chrono::steady_clock::now() >= next_offset) {
        next_offset = std::chrono::steady_clock::now() + kOffsetInterval;
        if (const auto offset_us = registry_.clockOffsetMicros(); offset_us.ok()) {
          *clock_offset_us_ = *offset_us;
        }
      }
      lock.lock();
    }
  }

  /// Waits; false: the server stops.
  bool wait(std::chrono::duration<double> time) {
    std::unique_lock lock(mutex_);
    return !changed_.wait_for(lock, time, [this] { return stopping_; });
  }

  /// Waits until this server has the duty, and `interval` has passed since `last_us` and since the last run of any
  /// server. False: the server stops.
  bool waitForDuty(const char* duty, std::chrono::microseconds interval, int64_t last_us) {
    const auto isDue = [&] {
      const int64_t done_us = std::max(last_us, membership_.doneMicros(duty).value_or(last_us));
      return membership_.holds(duty) && clock_.nowMicros() - done_us >= interval.count();
    };
    while (!isDue()) {
      if (!wait(kDutyLook)) {
        return false;
      }
    }
    return true;
  }

  /// Unfinished uploads to this server's own folder, which collections by other servers do not see.
  void removeStaleUploads() {
    if (const auto removed = backend_.blobs.removeStalePartials(); !removed.ok()) {
      spdlog::error("unfinished uploads: {}", std::string(removed.status().message()));
    }
  }

  void collectUntilStopped() {
    if (!membership_.isShared()) {
      while (wait(options_.collect_every)) {
        collect();
      }
      return;
    }
    const std::jthread uploads([this] {
      while (wait(options_.collect_every)) {
        removeStaleUploads();
      }
    });
    for (int64_t last_us = clock_.nowMicros(); waitForDuty(kRetention, options_.collect_every, last_us);
         last_us = clock_.nowMicros()) {
      if (collect()) {
        membership_.noteDone(kRetention);
      }
    }
  }

  /// Whether a collection was completed.
  bool collect() {
    const auto done = collector_.collect(options_.policy, /*dry_run=*/false);
    if (done.ok()) {
      spdlog::info(
          "collected {} jobs, {} artifacts, {} objects, {} records and {} blobs of {} bytes; kept {} of {} bytes",
          done->jobs(), done->artifacts(), done->objects(), done->records(), done->blobs(), done->blob_bytes(),
          done->kept_blobs(), done->kept_bytes());
    } else if (!absl::IsAborted(done.status()) && !absl::IsCancelled(done.status())) {
      spdlog::error("collection: {}", std::string(done.status().message()));
    }
    return done.ok();
  }

  void scrubUntilStopped() {
    Scrubber scrubber(store_, backend_.blobs, options_.scrub_bytes_per_second,
                      {.read =
                           [this](int64_t bytes) {
                             if (options_.metrics != nullptr) {
                               options_.metrics->scrubbed(bytes);
                             }
                           },
                       .damaged =
                           [this](const std::string& sha256, const std::string& why) {
                             const LogContext about({{"blob", sha256}});
                             spdlog::error("{}", why);
                             if (options_.metrics != nullptr) {
                               options_.metrics->foundDamaged();
                             }
                           }});
    std::chrono::steady_clock::time_point next;
    do {
      if (!waitForDuty(kScrubbing, membership_.isShared() ? kScrubInterval : std::chrono::hours(0), 0)) {
        return;
      }
      next = std::chrono::steady_clock::now() + kScrubInterval;
      const auto found = scrubber.pass([&](double seconds) {
        return wait(std::chrono::duration<double>(seconds)) && membership_.holds(kScrubbing);
      });
      if (found.ok()) {
        membership_.noteDone(kScrubbing);
        spdlog::info("scrubbed {} blobs of {} bytes: {} damaged", found->blobs, found->bytes, found->damaged);
        if (options_.metrics != nullptr) {
          options_.metrics->scrubPassEnded(clock_.nowMicros());
        }
      } else if (absl::IsCancelled(found.status())) {
        next = {};  // the server stops, or lost the duty and may get it again
      } else {
        spdlog::error("scrubbing blobs: {}", std::string(found.status().message()));
      }
    } while (wait(std::max(std::chrono::steady_clock::now() + kScrubPause, next) - std::chrono::steady_clock::now()));
  }

  absl::StatusOr<std::shared_ptr<void>> excludeOtherCollections() {
    TESSERA_ASSIGN_OR_RETURN(const bool taken, membership_.take(kCollection));
    if (!taken) {
      return absl::AbortedError("another server is collecting; try again when it has ended");
    }
    return std::shared_ptr<void>(nullptr, [this](void*) { membership_.end(kCollection); });
  }

  Membership::Callbacks callbacks() {
    return {.others_ended = [this] { scheduler_.notifier().publishAll(); },
            .tokens_changed =
                [this] {
                  if (const absl::Status status = tokens_.load(); !status.ok()) {
                    spdlog::error("access tokens: {}", std::string(status.message()));
                  }
                },
            .calls = [this] { return quotas_.callsTaken(); },
            .calls_elsewhere = [this](const auto& calls) { quotas_.countElsewhere(calls); }};
  }

  /// The first client address as other machines may reach it: "any address" is replaced by this machine's name.
  std::string addressForOthers() const {
    const std::string& address = addresses_.empty() ? private_address_ : addresses_.front();
    for (const std::string_view any : {"0.0.0.0:", "[::]:"}) {
      if (address.starts_with(any)) {
        std::array<char, 256> host{};
        gethostname(host.data(), host.size() - 1);
        return absl::StrCat(host.data(), ":", address.substr(any.size()));
      }
    }
    return address;
  }

  storage::Store& store_;
  const ServerOptions options_;
  const std::unique_ptr<storage::ServerRegistry> own_registry_;  ///< null: `registry_` is that of the options
  storage::ServerRegistry& registry_;
  const std::shared_ptr<std::atomic<int64_t>> clock_offset_us_;
  SystemClock clock_;
  RandomIds ids_;
  Quotas quotas_;
  const std::unique_ptr<AuditLog> audit_;
  Executor control_;
  Executor blob_io_;
  TargetCatalog targets_;
  ObservationLog chronicle_;
  const Workflows workflows_{};
  Scheduler scheduler_;
  TokenBook tokens_;
  OperatorCatalog operators_;
  Collector collector_;
  Membership membership_;
  const Backend backend_;
  GrpcEndpoint clients_;
  GrpcEndpoint worker_endpoint_;  ///< for workers, and the operator of this machine
  GrpcEndpoint browsers_;         ///< for callers of the web gateway
  std::unique_ptr<gateway::Gateway> web_;
  std::unique_ptr<Monitoring> monitoring_;
  std::vector<std::string> addresses_, worker_addresses_, web_addresses_, metrics_addresses_;
  std::string private_address_, worker_token_, operator_token_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread sweeper_;
  std::thread housekeeper_;
  std::thread scrubber_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::start(storage::Store& store, storage::BlobStore& blobs,
                                                      const ServerOptions& options) {
  std::unique_ptr<AuditLog> audit;
  if (!options.audit_file.empty()) {
    TESSERA_ASSIGN_OR_RETURN(audit, AuditLog::open(options.audit_file));
  }
  int64_t clock_offset_us = 0;
  if (options.registry != nullptr) {
    TESSERA_ASSIGN_OR_RETURN(clock_offset_us, options.registry->clockOffsetMicros());
  }
  ServerOptions completed = options;
  if (!completed.signing_key) {
    TESSERA_ASSIGN_OR_RETURN(completed.signing_key, SigningKey::ephemeral());
  }
  auto server = std::make_unique<GrpcServer>(store, blobs, completed, std::move(audit), clock_offset_us);
  TESSERA_RETURN_IF_ERROR(server->open());
  return server;
}

}  // namespace tessera::server
