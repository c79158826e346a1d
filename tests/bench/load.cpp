// tessera-load: many clients, many small compile requests, some of them equal.
//
//   tessera-load --server ADDR --clients 16 --target x86-64-v3 MODEL...
//
// Each client takes the next model from the list, compiles it and waits for the result. Clients share one connection,
// because gRPC shares equal channels within a process; separate processes would have one each. Prints one JSON object.

#include <atomic>
#include <chrono>
#include <iostream>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "clients/cli/latency.h"
#include "clients/cpp/compile.h"
#include "proto/support/cli11.h"

namespace {

using Clock = std::chrono::steady_clock;
using namespace tessera;

struct Outcome {
  std::vector<double> latency_ms;
  int succeeded = 0, failed = 0, cached = 0, joined = 0;
  std::set<std::string> artifacts;
  std::string first_error;
};

void runClient(const std::string& server, const std::string& target, const std::vector<std::string>& models,
               std::atomic<size_t>& next, std::mutex& mutex, Outcome& total) {
  client::Channel channel(server);
  for (size_t i = next++; i < models.size(); i = next++) {
    client::CompileRequest request;
    request.model_path = models[i];
    request.spec.set_name("load");
    request.spec.mutable_target()->set_name(target);
    const auto start = Clock::now();
    auto outcome = client::submitCompile(channel, request, {});
    absl::StatusOr<v1::Job> job;
    if (!outcome.ok()) {
      job = outcome.status();
    } else {
      job = outcome->job.end_time_us() != 0 ? outcome->job : client::awaitJob(channel, outcome->job.id(), {});
    }
    const std::chrono::duration<double, std::milli> took = Clock::now() - start;
    const std::lock_guard lock(mutex);
    total.latency_ms.push_back(took.count());
    if (job.ok() && job->state() == v1::Job::SUCCEEDED) {
      ++total.succeeded;
      total.cached += job->cached();
      total.joined += !job->joined_job_id().empty();
      total.artifacts.insert(job->compile_result().artifact_id());
    } else {
      ++total.failed;
      if (total.first_error.empty()) {
        total.first_error = job.ok() ? job->failure().message() : std::string(job.status().message());
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  // Like tesserad and its workers: Debian's Abseil checks the order of all locks for cycles at each lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app("Many clients, many small compile requests", "tessera-load");
  std::string server = "localhost:7400", target = "x86-64-v3";
  int clients = 16;
  std::vector<std::string> models;
  app.add_option("--server", server)->capture_default_str();
  app.add_option("--target", target)->capture_default_str();
  app.add_option("--clients", clients)->capture_default_str()->check(CLI::Range(1, 1000));
  app.add_option("MODEL", models, "one request for each, in this order")->required();
  CLI11_PARSE(app, argc, argv);

  std::atomic<size_t> next{0};
  std::mutex mutex;
  Outcome total;
  const auto start = Clock::now();
  std::vector<std::thread> threads;
  threads.reserve(clients);
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([&] { runClient(server, target, models, next, mutex, total); });
  }
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> took = Clock::now() - start;
  const client::Latency latency = client::summarize(total.latency_ms);
  std::cout << absl::StrFormat(
      R"({"requests":%d,"clients":%d,"succeeded":%d,"failed":%d,"cached":%d,"joined":%d,"artifacts":%d,)"
      R"("seconds":%.3f,"latency_ms":{"median":%.3f,"p90":%.3f,"max":%.3f}})",
      models.size(), clients, total.succeeded, total.failed, total.cached, total.joined, total.artifacts.size(),
      took.count(), latency.median, latency.p90, latency.max);
  std::cout << std::endl;
  if (total.failed > 0) std::cerr << "first failure: " << total.first_error << "\n";
  return total.failed == 0 ? 0 : 1;
}
