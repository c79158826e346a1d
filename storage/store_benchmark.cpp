// Measures group commit: durable transactions per second from one client and from sixteen.
//   ninja -C build/release store_benchmark && build/release/bin/store_benchmark [FOLDER]
// FOLDER selects the disk to measure; the default is the temporary folder.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "storage/sqlite_store.h"

namespace {

using namespace tessera;
using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 5;
constexpr std::chrono::milliseconds kSpan(500);

/// Transactions per second of `clients` threads, each of which puts one task at a time.
double rateOf(storage::Store& store, int clients) {
  std::vector<int64_t> counts(clients);
  std::vector<std::thread> threads;
  const auto start = Clock::now();
  for (int client = 0; client < clients; ++client) {
    threads.emplace_back([&, client] {
      v1::Task task;
      task.set_state(v1::Task::READY);
      while (Clock::now() - start < kSpan) {
        task.set_id(absl::StrCat(clients, ".", client, ".", counts[client]));
        absl::Status status = store.transact([&](storage::Transaction& t) { return t.putTask(task); });
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

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder =
      std::filesystem::path(argc > 1 ? argv[1] : std::filesystem::temp_directory_path().c_str()) / "store_benchmark";
  std::filesystem::create_directories(folder);
  double median[2] = {};
  {
    auto store = storage::openSqliteStore((folder / "benchmark.db").string());
    if (!store.ok()) {
      std::cerr << store.status() << "\n";
      return 1;
    }
    const int clients[2] = {1, 16};
    for (int side = 0; side < 2; ++side) {
      std::vector<double> rates;
      for (int repeat = 0; repeat < kRepeats; ++repeat) rates.push_back(rateOf(**store, clients[side]));
      std::sort(rates.begin(), rates.end());
      median[side] = rates[kRepeats / 2];
      std::cout << absl::StrFormat("%2d clients: %8.0f durable transactions/s (%.0f to %.0f in %d runs)\n",
                                   clients[side], median[side], rates.front(), rates.back(), kRepeats);
    }
  }
  std::filesystem::remove_all(folder);
  std::cout << absl::StrFormat("ratio: %.1f\n", median[1] / median[0]);
  return 0;
}
