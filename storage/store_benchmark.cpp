// Measures group commit: durable transactions per second from one client and from sixteen; and the queue: jobs that are
// inserted with their action, task and first event, and leases of such tasks, per second from sixteen clients.
//   ninja -C build/release store_benchmark && build/release/bin/store_benchmark [FOLDER | postgresql://...]
// FOLDER selects the disk to measure; the default is the temporary folder. A PostgreSQL database must be a new one.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/support/status_macros.h"
#include "storage/postgres_store.h"
#include "storage/sqlite_store.h"

namespace {

using namespace tessera;
using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 5;
constexpr std::chrono::milliseconds kSpan(500);

/// Transactions per second of `clients` threads. Each thread runs one transaction at a time, with the body
/// `body(transaction, number)`.
template <typename Body>
double rateOf(storage::Store& store, int clients, const Body& body) {
  std::vector<int64_t> counts(clients);
  std::vector<std::thread> threads;
  const auto start = Clock::now();
  for (int client = 0; client < clients; ++client) {
    threads.emplace_back([&, client] {
      while (Clock::now() - start < kSpan) {
        absl::Status status =
            store.transact([&](storage::Transaction& t) { return body(t, absl::StrCat(client, ".", counts[client])); });
        if (!status.ok()) std::cerr << status << "\n";
        if (status.ok()) ++counts[client];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int64_t total = 0;
  for (int64_t count : counts) total += count;
  return static_cast<double>(total) / std::chrono::duration<double>(Clock::now() - start).count();
}

v1::Task taskNamed(const std::string& id) {
  v1::Task task;
  task.set_id(id);
  task.set_state(v1::Task::READY);
  task.mutable_spec()->set_kind(v1::PLAN);
  return task;
}

absl::Status insertJob(storage::Transaction& t, const std::string& id) {
  v1::Action action;
  action.set_id(id);
  action.set_key(id);
  action.set_state(v1::Job::QUEUED);
  TESSERA_RETURN_IF_ERROR(t.putAction(action));
  TESSERA_RETURN_IF_ERROR(t.putTask(taskNamed(id)));
  TESSERA_RETURN_IF_ERROR(t.linkTask(id, id));
  v1::Job job;
  job.set_id(id);
  job.set_state(v1::Job::QUEUED);
  TESSERA_RETURN_IF_ERROR(t.insertJob(job, "", id));
  v1::JobEvent event;
  event.set_job_id(id);
  return t.appendEvent(event).status();
}

absl::Status lease(storage::Transaction& t) {
  TESSERA_ASSIGN_OR_RETURN(v1::Task task, t.claimReadyTask({}));
  task.set_state(v1::Task::LEASED);
  task.set_fencing_token(task.fencing_token() + 1);
  return t.putTask(task);
}

/// Prints the median of several runs, and returns it.
template <typename Body>
double report(storage::Store& store, const char* what, int clients, const Body& body) {
  std::vector<double> rates;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    rates.push_back(rateOf(store, clients, [&](storage::Transaction& t, const std::string& number) {
      return body(t, absl::StrCat(what, ".", clients, ".", repeat, ".", number));
    }));
  }
  std::sort(rates.begin(), rates.end());
  std::cout << absl::StrFormat("%2d clients: %8.0f %s/s (%.0f to %.0f in %d runs)\n", clients, rates[kRepeats / 2],
                               what, rates.front(), rates.back(), kRepeats)
            << std::flush;
  return rates[kRepeats / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::string where = argc > 1 ? argv[1] : std::filesystem::temp_directory_path().string();
  const bool postgres = storage::isPostgresUri(where);
  const std::filesystem::path folder = std::filesystem::path(postgres ? "" : where) / "store_benchmark";
  if (!postgres) std::filesystem::create_directories(folder);
  {
    auto store =
        postgres ? storage::openPostgresStore(where) : storage::openSqliteStore((folder / "benchmark.db").string());
    if (!store.ok()) {
      std::cerr << store.status() << "\n";
      return 1;
    }
    const auto put = [](storage::Transaction& t, const std::string& id) { return t.putTask(taskNamed(id)); };
    const double one = report(**store, "durable transactions", 1, put);
    const double many = report(**store, "durable transactions", 16, put);
    std::cout << absl::StrFormat("ratio: %.1f\n", many / one);
    report(**store, "jobs inserted", 16, insertJob);
    report(**store, "leases", 16, [](storage::Transaction& t, const std::string&) { return lease(t); });
  }
  if (!postgres) std::filesystem::remove_all(folder);
  return 0;
}
