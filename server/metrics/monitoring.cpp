#include "server/metrics/monitoring.h"

#include <prometheus/text_serializer.h>

#include <atomic>
#include <future>
#include <mutex>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "server/gateway/answers.h"
#include "server/gateway/connection.h"
#include "server/gateway/listener.h"
#include "server/metrics/store_facts.h"

namespace tessera::server {
namespace {

using std::chrono::milliseconds;

/// Timeout of a check: a hanging disk must not make the health check hang.
constexpr milliseconds kTimeout{2000};
constexpr char kText[] = "text/plain; charset=utf-8";
constexpr char kExposition[] = "text/plain; version=0.0.4; charset=utf-8";

/// A check that may hang. It runs on the executor, one at a time; concurrent callers share its result.
template <typename T>
class Look {
 public:
  Look(Executor& executor, std::function<T()> look) : executor_(executor), look_(std::move(look)) {}

  /// nullopt if it has not ended in time.
  std::optional<T> take() {
    std::shared_future<T> result;
    {
      const std::lock_guard lock(mutex_);
      if (!last_.valid() || last_.wait_for(milliseconds(0)) == std::future_status::ready) {
        const auto promise = std::make_shared<std::promise<T>>();
        last_ = promise->get_future().share();
        executor_.post([promise, look = look_] { promise->set_value(look()); });
      }
      result = last_;
    }
    if (result.wait_for(kTimeout) != std::future_status::ready) {
      return std::nullopt;
    }
    try {
      return result.get();
    } catch (const std::future_error&) {
      return std::nullopt;  // the service is stopping
    }
  }

 private:
  Executor& executor_;
  const std::function<T()> look_;
  std::mutex mutex_;
  std::shared_future<T> last_;
};

class HttpMonitoring : public Monitoring, private gateway::HttpService {
 public:
  HttpMonitoring(const MonitoringOptions& options, const Metrics& metrics, storage::Store& store,
                 storage::BlobStore& blobs, const Quotas& quotas, Clock& clock, Executor& executor)
      : options_(options),
        names_(gateway::hostNames(options.hosts)),
        metrics_(metrics),
        facts_(std::make_shared<StoreFacts>(store, blobs, quotas, clock)),
        scrape_(executor, [facts = facts_] { return facts->collect(); }),
        // Changes nothing, but has to be answered by the writer's thread.
        store_(executor, [&store] { return store.transact([](storage::Transaction&) { return absl::OkStatus(); }); }),
        blobs_(executor, [&blobs] { return blobs.checkWritable(); }) {
    limits_.max_connections = 32;
    limits_.max_connections_of_one = 16;
  }
  ~HttpMonitoring() override { stop(); }

  absl::Status open() {
    std::shared_ptr<SSL_CTX> tls;
    if (options_.tls) {
      TESSERA_ASSIGN_OR_RETURN(tls, gateway::tlsContext(*options_.tls));
    }
    for (std::string address : options_.listen) {
      listeners_.push_back(gateway::makeListener(*this, tls, limits_));
      TESSERA_RETURN_IF_ERROR(listeners_.back()->open(address, "--metrics-listen"));
      addresses_.push_back(address);
    }
    return absl::OkStatus();
  }

  const std::vector<std::string>& addresses() const override { return addresses_; }
  void drain() override { draining_ = true; }
  void stop() override {
    for (const auto& listener : listeners_) {
      listener->end();
    }
  }

 private:
  bool refuse(const httplib::Request& request, httplib::Response& response) const override {
    absl::Status status = gateway::checkCrossSite(request, names_);
    if (status.ok() && request.method != "GET" && request.method != "HEAD") {
      status = absl::UnimplementedError("nothing can be done here; GET /metrics, /healthz or /readyz");
    }
    if (status.ok()) {
      return false;
    }
    gateway::setError(response, status);
    return true;
  }

  void answer(const httplib::Request& request, const gateway::WebCaller& caller, httplib::Response& response) override {
    response.set_header("Cache-Control", "no-store");
    if (request.path == "/metrics") {
      const absl::Status allowed = authorize(caller);
      return allowed.ok() ? response.set_content(exposition(), kExposition) : gateway::setError(response, allowed);
    }
    if (request.path == "/healthz") {
      return response.set_content("ok\n", kText);
    }
    if (request.path == "/readyz") {
      return readiness(response);
    }
    gateway::setError(response, absl::NotFoundError("there is nothing here; /metrics, /healthz and /readyz are"));
  }

  absl::Status authorize(const gateway::WebCaller& caller) const {
    constexpr char kBearer[] = "bearer ";
    if (!options_.authorize) {
      return absl::OkStatus();
    }
    if (!absl::StartsWithIgnoreCase(caller.authorization, kBearer)) {
      return absl::UnauthenticatedError(
          "send a token (Authorization: Bearer ...); `tessera admin token create --role reader` makes one");
    }
    return options_.authorize(caller.authorization.substr(sizeof(kBearer) - 1));
  }

  std::string exposition() {
    std::vector<prometheus::MetricFamily> families = metrics_.collect();
    const auto known = scrape_.take();
    prometheus::MetricFamily up;
    up.name = "tessera_store_up";
    up.help = "Whether the store told at this scrape what it knows: queue, leases, workers and blobs are below if so.";
    up.type = prometheus::MetricType::Gauge;
    up.metric.emplace_back().gauge.value = known && known->ok() ? 1 : 0;
    families.push_back(std::move(up));
    const auto append = [&families](const std::vector<prometheus::MetricFamily>& more) {
      families.insert(families.end(), more.begin(), more.end());
    };
    if (known && known->ok()) {
      append(**known);
    }
    append(processFacts());
    return prometheus::TextSerializer().Serialize(families);
  }

  void readiness(httplib::Response& response) {
    bool ready = !draining_;
    std::string text;
    const auto tell = [&](const char* what, Look<absl::Status>& look) {
      const std::optional<absl::Status> status = look.take();
      ready = ready && status && status->ok();
      absl::StrAppend(&text, what, ": ",
                      !status        ? absl::string_view("no answer within 2 s")
                      : status->ok() ? absl::string_view("ok")
                                     : status->message(),
                      "\n");
    };
    tell("store", store_);
    tell("blobs", blobs_);
    absl::StrAppend(&text, "draining: ", draining_ ? "yes" : "no", "\n");
    response.status = ready ? 200 : 503;
    response.set_content(text, kText);
  }

  const MonitoringOptions options_;
  const gateway::HostNames names_;
  const Metrics& metrics_;
  const std::shared_ptr<StoreFacts> facts_;
  Look<absl::StatusOr<std::vector<prometheus::MetricFamily>>> scrape_;
  Look<absl::Status> store_, blobs_;
  gateway::WebLimits limits_;
  std::atomic<bool> draining_ = false;
  std::vector<std::unique_ptr<gateway::Listener>> listeners_;
  std::vector<std::string> addresses_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Monitoring>> Monitoring::start(const MonitoringOptions& options, const Metrics& metrics,
                                                              storage::Store& store, storage::BlobStore& blobs,
                                                              const Quotas& quotas, Clock& clock, Executor& executor) {
  auto monitoring = std::make_unique<HttpMonitoring>(options, metrics, store, blobs, quotas, clock, executor);
  TESSERA_RETURN_IF_ERROR(monitoring->open());
  return monitoring;
}

}  // namespace tessera::server
