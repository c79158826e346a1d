#include "server/metrics/store_facts.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>

#include "proto/messages/project.h"
#include "proto/support/status_macros.h"
#include "server/metrics/metrics.h"
#include "server/queue/queue_transaction.h"
#include "server/queue/wanted_workers.h"
#include "server/queue/workers.h"
#include "storage/objects/object_store.h"

namespace tessera::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr int64_t kTotalsLifetime = 60'000'000;  // us

MetricFamily gauge(const char* name, const char* help) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = MetricType::Gauge;
  return family;
}

void add(MetricFamily& family, double value, std::vector<ClientMetric::Label> labels = {}) {
  ClientMetric metric;
  metric.label = std::move(labels);
  (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
}

MetricFamily single(const char* name, const char* help, double value, MetricType type = MetricType::Gauge) {
  MetricFamily family = gauge(name, help);
  family.type = type;
  add(family, value);
  return family;
}

/// All kinds, including those with 0 tasks, so that no series is absent.
void addByKind(MetricFamily& family, const std::map<int, double>& values) {
  for (int kind = v1::TaskKind_MIN + 1; kind <= v1::TaskKind_MAX; ++kind) {
    const auto value = values.find(kind);
    add(family, value == values.end() ? 0 : value->second,
        {{"kind", labelOf(v1::TaskKind_Name(static_cast<v1::TaskKind>(kind)))}});
  }
}

absl::Status addQueue(storage::Reader& reader, int64_t now_us, std::vector<MetricFamily>& families) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<storage::QueueDepth> depths, reader.queueDepths());
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Task> leased, reader.leasedTasks());
  std::map<int, double> ready, age, leases;
  for (const storage::QueueDepth& depth : depths) {
    ready[depth.kind] = static_cast<double>(depth.ready);
    age[depth.kind] = std::max(0.0, seconds(now_us - depth.oldest_ready_us));
  }
  for (const v1::Task& task : leased) {
    leases[task.spec().kind()] += 1;
  }
  addByKind(families.emplace_back(gauge("tessera_queue_tasks", "Tasks waiting for a worker, by kind.")), ready);
  addByKind(families.emplace_back(
                gauge("tessera_queue_oldest_task_age_seconds", "Waiting time of the oldest ready task, by kind.")),
            age);
  addByKind(families.emplace_back(gauge("tessera_leases", "Current leases, by kind of task.")), leases);
  return absl::OkStatus();
}

absl::Status addWorkers(storage::Reader& reader, std::vector<MetricFamily>& families) {
  std::map<int, double> states;
  double slots = 0;
  TESSERA_RETURN_IF_ERROR(forWorkers(reader, [&](const v1::Worker& worker) {
    states[worker.state()] += 1;
    slots += worker.state() == v1::Worker::LOST ? 0 : worker.slots();
    return true;
  }));
  MetricFamily& family = families.emplace_back(gauge("tessera_workers", "Registered workers, by state."));
  for (int state = v1::Worker::State_MIN + 1; state <= v1::Worker::State_MAX; ++state) {
    if (v1::Worker::State_IsValid(state)) {
      add(family, states[state], {{"state", labelOf(v1::Worker::State_Name(static_cast<v1::Worker::State>(state)))}});
    }
  }
  families.push_back(single("tessera_worker_slots", "Concurrent tasks that all live workers accept.", slots));
  return absl::OkStatus();
}

/// Clients name projects and targets, so only a limited number of them have their own samples; the rest is summed under
/// a name that neither can have.
constexpr size_t kShown = 50;
constexpr char kOthers[] = "(others)";

/// Workers that the live tasks need. The largest targets have their own samples, the rest is summed by kind; a kind
/// without tasks has a sample of 0, so that no series is absent.
absl::Status addWantedWorkers(storage::Reader& reader, std::vector<MetricFamily>& families) {
  TESSERA_ASSIGN_OR_RETURN(std::vector<WantedWorkers> wanted, wantedWorkers(reader));
  std::sort(wanted.begin(), wanted.end(), [](const WantedWorkers& a, const WantedWorkers& b) {
    return std::tuple(-a.workers(), a.kind, a.target) < std::tuple(-b.workers(), b.kind, b.target);
  });
  std::map<std::pair<int, std::string>, double> samples;
  for (int kind = v1::TaskKind_MIN + 1; kind <= v1::TaskKind_MAX; ++kind) {
    samples[{kind, ""}] = 0;
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    samples[{wanted[i].kind, i < kShown ? wanted[i].target : kOthers}] += wanted[i].workers();
  }
  MetricFamily& family = families.emplace_back(
      gauge("tessera_workers_wanted",
            "Workers that would run all waiting and running tasks at once, by kind of task and target; in fractions of "
            "a worker, so that a sum over kinds and targets rounds once."));
  for (const auto& [key, value] : samples) {
    add(family, value,
        {{"kind", labelOf(v1::TaskKind_Name(static_cast<v1::TaskKind>(key.first)))}, {"target", key.second}});
  }
  return absl::OkStatus();
}

/// The limited quotas of the projects in `shown` and of the projects in the operator's file.
MetricFamily limitsOf(const std::vector<storage::Usage>& shown, const Quotas& quotas) {
  MetricFamily limits = gauge("tessera_project_quota", "Quotas of projects, by quota.");
  std::map<std::string, v1::Quota> of = quotas.named();
  for (const storage::Usage& usage : shown) {
    of.emplace(usage.project, quotas.of(usage.project));
  }
  for (const auto& [project, quota] : of) {
    for (const auto& [name, limit] : {std::pair("queued_jobs", static_cast<double>(quota.queued_jobs())),
                                      std::pair("running_jobs", static_cast<double>(quota.running_jobs())),
                                      std::pair("stored_bytes", static_cast<double>(quota.stored_bytes())),
                                      std::pair("calls_per_second", quota.calls_per_second())}) {
      if (limit != 0 && isProjectName(project)) {
        add(limits, limit, {{"project", project}, {"quota", name}});
      }
    }
  }
  return limits;
}

/// Rejections by quota of each project, whatever it uses; 0 for quotas that are shown and were never exceeded.
MetricFamily refusalsOf(const MetricFamily& limits, const Quotas& quotas) {
  MetricFamily family = gauge("tessera_project_refusals_total", "Calls that quotas rejected, by project and quota.");
  family.type = MetricType::Counter;
  QuotaRefusals::Counts counts = quotas.refusals()->counts();
  for (const ClientMetric& limit : limits.metric) {
    const std::string& project = limit.label[0].value;
    // Rejections of a project without a name are counted among the others'.
    if (counts.all_named || counts.projects.contains(project)) {
      counts.named.try_emplace({project, limit.label[1].value});
    }
  }
  for (const auto& [key, count] : counts.named) {
    add(family, static_cast<double>(count), {{"project", key.first}, {"quota", key.second}});
  }
  for (const auto& [quota, count] : counts.others) {
    add(family, static_cast<double>(count), {{"project", kOthers}, {"quota", quota}});
  }
  return family;
}

/// Usage of each project; the largest ones by name.
absl::Status addProjects(storage::Reader& reader, const Quotas& quotas, std::vector<MetricFamily>& families) {
  TESSERA_ASSIGN_OR_RETURN(std::vector<storage::Usage> usages, reader.usages());
  std::sort(usages.begin(), usages.end(), [](const storage::Usage& a, const storage::Usage& b) {
    const auto weight = [](const storage::Usage& usage) {
      return std::tuple(-(usage.queued_jobs + usage.running_jobs), -usage.blob_bytes, usage.project);
    };
    return weight(a) < weight(b);
  });
  if (usages.size() > kShown + 1) {
    storage::Usage others;
    others.project = kOthers;
    for (size_t i = kShown; i < usages.size(); ++i) {
      others.queued_jobs += usages[i].queued_jobs;
      others.running_jobs += usages[i].running_jobs;
      others.blob_bytes += usages[i].blob_bytes;
    }
    usages.resize(kShown);
    usages.push_back(others);
  }
  MetricFamily jobs = gauge("tessera_project_jobs", "Queued and running jobs, by project.");
  MetricFamily bytes = gauge("tessera_project_blob_bytes", "Bytes of the blobs that a project holds.");
  for (const storage::Usage& usage : usages) {
    add(jobs, static_cast<double>(usage.queued_jobs), {{"project", usage.project}, {"state", "queued"}});
    add(jobs, static_cast<double>(usage.running_jobs), {{"project", usage.project}, {"state", "running"}});
    add(bytes, static_cast<double>(usage.blob_bytes), {{"project", usage.project}});
  }
  families.push_back(std::move(jobs));
  families.push_back(std::move(bytes));
  MetricFamily limits = limitsOf(usages, quotas);
  MetricFamily refusals = refusalsOf(limits, quotas);
  families.push_back(std::move(limits));
  families.push_back(std::move(refusals));
  return absl::OkStatus();
}

/// Start time of this process since boot, in clock ticks: field 22 of /proc/self/stat, counted after the name in
/// parentheses.
double startTicks() {
  std::ifstream in("/proc/self/stat");
  std::string line;
  std::getline(in, line);
  std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 2)));
  std::string field;
  for (int i = 3; i <= 22; ++i) {
    fields >> field;
  }
  return field.empty() ? 0 : std::strtod(field.c_str(), nullptr);
}

double bootTime() {
  std::ifstream in("/proc/stat");
  for (std::string name; in >> name;) {
    if (double value = 0; name == "btime" && in >> value) {
      return value;
    }
    in.ignore(1 << 20, '\n');
  }
  return 0;
}

double residentBytes() {
  std::ifstream in("/proc/self/statm");
  double size = 0, resident = 0;
  in >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

/// Requests to the object store and use of the local copies.
void addObjectStore(const storage::BlobStore::RemoteStats& remote, std::vector<MetricFamily>& families) {
  const storage::ObjectRequests& sent = *remote.requests;
  MetricFamily requests = gauge("tessera_object_store_requests_total", "Requests to the object store, by method.");
  requests.type = MetricType::Counter;
  add(requests, static_cast<double>(sent.gets), {{"method", "get"}});
  add(requests, static_cast<double>(sent.puts), {{"method", "put"}});
  add(requests, static_cast<double>(sent.heads), {{"method", "head"}});
  add(requests, static_cast<double>(sent.lists), {{"method", "list"}});
  add(requests, static_cast<double>(sent.deletes), {{"method", "delete"}});
  families.push_back(std::move(requests));
  MetricFamily bytes = gauge("tessera_object_store_bytes_total", "Bytes of objects, by direction.");
  bytes.type = MetricType::Counter;
  add(bytes, static_cast<double>(sent.bytes_sent), {{"direction", "sent"}});
  add(bytes, static_cast<double>(sent.bytes_received), {{"direction", "received"}});
  families.push_back(std::move(bytes));
  families.push_back(single("tessera_object_store_retries_total", "Requests that repeated a failed one.",
                            static_cast<double>(sent.retries), MetricType::Counter));
  families.push_back(single("tessera_object_store_failures_total", "Calls that failed although they were repeated.",
                            static_cast<double>(sent.failures), MetricType::Counter));
  families.push_back(single("tessera_blob_cache_hits_total", "Reads of blobs from a local copy.",
                            static_cast<double>(remote.cache_hits), MetricType::Counter));
  families.push_back(single("tessera_blob_cache_misses_total", "Reads of blobs that needed the object store.",
                            static_cast<double>(remote.cache_misses), MetricType::Counter));
  families.push_back(single("tessera_blob_cache_evictions_total", "Local copies deleted to make room.",
                            static_cast<double>(remote.cache_evictions), MetricType::Counter));
  families.push_back(
      single("tessera_blob_cache_bytes", "Bytes of the local copies.", static_cast<double>(remote.cache_bytes)));
}

}  // namespace

absl::StatusOr<std::vector<MetricFamily>> StoreFacts::collect() {
  std::vector<MetricFamily> families;
  const int64_t now_us = clock_.nowMicros();
  const std::lock_guard lock(mutex_);
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_RETURN_IF_ERROR(addQueue(reader, now_us, families));
    TESSERA_RETURN_IF_ERROR(addWorkers(reader, families));
    TESSERA_RETURN_IF_ERROR(addWantedWorkers(reader, families));
    TESSERA_RETURN_IF_ERROR(addProjects(reader, quotas_, families));
    if (now_us >= totals_until_us_) {
      TESSERA_ASSIGN_OR_RETURN(totals_, reader.blobTotals());
      totals_until_us_ = now_us + kTotalsLifetime;
    }
    return absl::OkStatus();
  }));
  families.push_back(
      single("tessera_blobs", "Stored blobs, as of at most a minute ago.", static_cast<double>(totals_.blobs)));
  families.push_back(single("tessera_blob_bytes", "Bytes of all stored blobs.", static_cast<double>(totals_.bytes)));
  if (const auto remote = blobs_.remoteStats()) {
    addObjectStore(*remote, families);
  }
  TESSERA_ASSIGN_OR_RETURN(const int64_t free, blobs_.freeBytes());
  families.push_back(
      single("tessera_disk_free_bytes", "Free bytes of the disk with the blobs.", static_cast<double>(free)));
  return families;
}

std::vector<MetricFamily> processFacts() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto time = [](const timeval& value) {
    return static_cast<double>(value.tv_sec) + static_cast<double>(value.tv_usec) / 1e6;
  };
  std::error_code error;
  double open = 0;
  for (std::filesystem::directory_iterator file("/proc/self/fd", error), end; !error && file != end;
       file.increment(error)) {
    ++open;
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  return {single("process_cpu_seconds_total", "Processor time of this process.",
                 time(usage.ru_utime) + time(usage.ru_stime), MetricType::Counter),
          single("process_resident_memory_bytes", "Resident memory of this process.", residentBytes()),
          single("process_open_fds", "Open files of this process.", open),
          single("process_max_fds", "And how many it may have.", static_cast<double>(files.rlim_cur)),
          single("process_start_time_seconds", "When it started, since the Unix epoch.",
                 bootTime() + startTicks() / static_cast<double>(sysconf(_SC_CLK_TCK)))};
}

}  // namespace tessera::server
