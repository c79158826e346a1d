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

/// Label of an enum value: "build" for BUILD.
std::string labelOf(const std::string& enum_name);

/// Counters of this process since its start, by Prometheus' conventions, in memory only. Figures of the store are read
/// at each scrape (store_facts.h). Thread-safe.
class Metrics : public Observer {
 public:
  Metrics();

  void happened(const Observations& seen) override;
  void committed(std::chrono::nanoseconds took, size_t transactions);

  /// Bytes read by the scrubber (retention/scrubber.h).
  void scrubbed(int64_t bytes) { scrubbed_bytes_.Increment(static_cast<double>(bytes)); }
  void foundDamaged() { damaged_blobs_.Increment(); }
  void scrubPassEnded(int64_t now_us) { scrub_pass_end_.Set(static_cast<double>(now_us) / 1e6); }

  /// Counters of one method, looked up once at its first call.
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
