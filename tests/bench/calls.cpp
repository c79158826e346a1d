// tessera-calls: clients that query one job in a loop.
//
//   tessera-calls --server ADDR --clients 8 --seconds 2 JOB
//
// Each client has its own connection and authenticates like the command line client (TESSERA_TOKEN, TESSERA_TLS_*).
// Timing begins when all clients are connected. Prints one JSON object.

#include <chrono>
#include <iostream>
#include <latch>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "clients/cli/latency.h"
#include "clients/cpp/channel.h"
#include "proto/support/cli11.h"

using Clock = std::chrono::steady_clock;
using namespace tessera;

int main(int argc, char** argv) {
  CLI::App app("Clients that ask for one job again and again", "tessera-calls");
  std::string server = "localhost:7400", job;
  int clients = 8;
  double seconds = 2;
  app.add_option("--server", server)->capture_default_str();
  app.add_option("--clients", clients)->capture_default_str()->check(CLI::Range(1, 1000));
  app.add_option("--seconds", seconds)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("JOB", job)->required();
  CLI11_PARSE(app, argc, argv);

  std::latch connected(clients);
  std::mutex mutex;
  std::vector<double> latency_ms;
  absl::Status failed;
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([&] {
      v1::GetJobRequest request;
      request.set_id(job);
      std::vector<double> own;
      auto channel = client::Channel::open(server, withEnvironment({}));
      absl::Status status = channel.status();
      const auto ask = [&] {
        return (*channel)->call((*channel)->jobs(), &v1::JobService::Stub::GetJob, request, {.attempts = 1}).status();
      };
      if (status.ok()) status = ask();
      connected.arrive_and_wait();
      const auto end = Clock::now() + std::chrono::duration<double>(seconds);
      for (auto start = Clock::now(); status.ok() && start < end;) {
        status = ask();
        const auto now = Clock::now();
        own.push_back(std::chrono::duration<double, std::milli>(now - start).count());
        start = now;
      }
      const std::lock_guard lock(mutex);
      latency_ms.insert(latency_ms.end(), own.begin(), own.end());
      if (!status.ok()) failed = status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (!failed.ok() || latency_ms.empty()) {
    std::cerr << "tessera-calls: " << failed.ToString() << "\n";
    return 1;
  }
  const auto calls = static_cast<double>(latency_ms.size());
  const client::Latency latency = client::summarize(std::move(latency_ms));
  std::cout << absl::StrFormat(R"({"calls_per_s":%.1f,"median_ms":%.4f,"p99_ms":%.4f})", calls / seconds,
                               latency.median, latency.p99)
            << std::endl;
  return 0;
}
