#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "server/queue/observations.h"

namespace tessera::server {

/// "build" of BUILD: how values of enums are called in labels.
std::string labelOf(const std::string& enum_name);

/// What this process counted since it began, by Prometheus' conventions. Told where things happen, in memory alone;
/// what the store knows is asked of it at each scrape (store_facts.h). Thread-safe.
class Metrics : public Observer {
 public:
  Metrics();

  void happened(const Observations& seen) override;
  void committed(std::chrono::nanoseconds took, size_t transactions);

  /// Of the slow reading of blobs that nobody asks for (retention/scrubber.h).
  void scrubbed(int64_t bytes) { scrubbed_bytes_.Increment(static_cast<double>(bytes)); }
  void foundDamaged() { damaged_blobs_.Increment(); }
  void scrubPassEnded(int64_t now_us) { scrub_pass_end_.Set(static_cast<double>(now_us) / 1e6); }

  /// Of a method's calls: one lookup when the first one comes.
  struct Calls {
    prometheus::Histogram& seconds;
    std::string method;
  };
  Calls& callsOf(const std::string& method);
  void callBegan() { in_progress_.Increment(); }
  /// `code`: of gRPC's status.
  void callEnded(Calls& calls, int code, double seconds);

  std::vector<prometheus::MetricFamily> collect() const { return registry_.Collect(); }

 private:
  template <typename Metric>
  using Family = prometheus::Family<Metric>;

  prometheus::Registry registry_;
  Family<prometheus::Counter>& attempts_;
  Family<prometheus::Histogram>& attempt_seconds_;
  Family<prometheus::Histogram>& wait_seconds_;
  Family<prometheus::Histogram>& phase_seconds_;
  Family<prometheus::Counter>& jobs_;
  Family<prometheus::Histogram>& job_seconds_;
  Family<prometheus::Counter>& lookups_;
  prometheus::Histogram& commit_seconds_;
  prometheus::Counter& transactions_;
  Family<prometheus::Counter>& calls_;
  Family<prometheus::Histogram>& call_seconds_;
  prometheus::Gauge& in_progress_;
  prometheus::Counter& scrubbed_bytes_;
  prometheus::Counter& damaged_blobs_;
  prometheus::Gauge& scrub_pass_end_;
  std::mutex mutex_;
  std::map<std::string, Calls> by_method_;
};

}  // namespace tessera::server
