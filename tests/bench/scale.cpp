// A service under load: queued jobs, workers, waiting calls, bytes. tests/bench/scale drives it.
//
//   tessera-scale queue --server ADDR --workers-at ADDR --token-file FILE [--jobs N] [--clients N] [--workers N]
//   tessera-scale wait --server ADDR --job ID [--calls N]      (until its input ends)
//   tessera-scale blobs [--gigabytes N] FOLDER
//
// Simulated workers take a task and report that its model is invalid: leases, reports and job ends without a compiler.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "clients/cpp/channel.h"
#include "clients/cpp/transfer.h"
#include "proto/channel/identity.h"
#include "proto/support/sha256.h"
#include "proto/version/version.h"
#include "server/retention/collector.h"
#include "server/retention/scrubber.h"
#include "storage/sqlite_store.h"

namespace {

using namespace tessera;  // NOLINT: a program of one file
using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}
void check(const absl::Status& status) {
  if (!status.ok()) fail(status.ToString());
}

/// When calls ended, and how long each took.
class Calls {
 public:
  void add(Clock::time_point began) {
    const double took = secondsSince(began);
    const std::lock_guard lock(mutex_);
    took_ms_.push_back(took * 1e3);
    ended_s_.push_back(secondsSince(start_));
  }
  /// Rates of each tenth of the calls, to show slow phases.
  void print(const char* what) {
    std::sort(ended_s_.begin(), ended_s_.end());
    std::sort(took_ms_.begin(), took_ms_.end());
    const size_t count = ended_s_.size();
    if (count < 10) fail("too few calls");
    std::printf("%s: %zu in %.1f s, %.0f a second; median %.2f ms, p99 %.2f ms, longest %.1f ms; by tenths", what,
                count, ended_s_.back(), static_cast<double>(count) / ended_s_.back(), took_ms_[count / 2],
                took_ms_[count * 99 / 100], took_ms_.back());
    for (size_t tenth = 0; tenth < 10; ++tenth) {
      const size_t from = count * tenth / 10, to = count * (tenth + 1) / 10 - 1;
      std::printf(" %.0f", static_cast<double>(to - from) / std::max(1e-9, ended_s_[to] - ended_s_[from]));
    }
    std::printf("\n");
    std::fflush(stdout);
  }

 private:
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::vector<double> took_ms_, ended_s_;
};

void inThreads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

struct Flags {
  std::string server, workers_at, token_file, job, folder;
  int jobs = 100'000, clients = 32, workers = 1'000, calls = 1'000, gigabytes = 100;
};

void createJobs(const Flags& flags, const v1::Digest& model) {
  Calls calls;
  std::atomic<int> next = 0;
  inThreads(flags.clients, [&](int) {
    client::Channel channel(flags.server);
    for (int i = next++; i < flags.jobs; i = next++) {
      v1::CreateJobRequest request;
      request.set_request_id("scale-" + std::to_string(i));
      *request.mutable_compile()->mutable_model() = model;
      request.mutable_compile()->mutable_target()->set_name("x86-64-v3");
      v1::DimensionBinding* binding = request.mutable_compile()->add_dimensions();  // each job has different work
      binding->set_name("N");
      binding->set_size(i + 1);
      const auto began = Clock::now();
      check(channel.call(channel.jobs(), &v1::JobService::Stub::CreateJob, request).status());
      calls.add(began);
    }
  });
  calls.print("jobs accepted");
}

void work(const Flags& flags) {
  constexpr int kThreads = 32;
  Identity identity;
  identity.token_file = flags.token_file;
  std::atomic<int> left = flags.jobs;
  std::vector<std::unique_ptr<v1::WorkerService::Stub>> stubs;
  for (int i = 0; i < kThreads; ++i) {
    auto channel = openChannel(flags.workers_at, identity, grpc::ChannelArguments());
    if (!channel.ok()) fail(channel.status().ToString());
    stubs.push_back(v1::WorkerService::NewStub(*channel));
  }
  const auto own = [&](int thread, const std::function<void(v1::WorkerService::Stub&, const std::string&)>& body) {
    for (int worker = thread; worker < flags.workers; worker += kThreads) {
      body(*stubs[static_cast<size_t>(thread)], "simulated-" + std::to_string(worker));
    }
  };
  const auto sound = [](const grpc::Status& status) {
    if (!status.ok()) fail(status.error_message());
  };
  Calls registered, leased, reported;
  inThreads(kThreads, [&](int thread) {
    own(thread, [&](v1::WorkerService::Stub& stub, const std::string& id) {
      v1::RegisterWorkerRequest request;
      request.set_worker_id(id);
      request.set_compiler_version(compilerVersion());
      request.set_pid(1);
      grpc::ClientContext context;
      v1::RegisterWorkerResponse response;
      const auto began = Clock::now();
      sound(stub.RegisterWorker(&context, request, &response));
      registered.add(began);
    });
  });
  registered.print("workers registered");
  inThreads(kThreads, [&](int thread) {
    while (left > 0) {
      own(thread, [&](v1::WorkerService::Stub& stub, const std::string& id) {
        v1::LeaseTaskRequest question;
        question.set_worker_id(id);
        v1::LeaseTaskResponse answer;
        {
          grpc::ClientContext context;
          const auto began = Clock::now();
          sound(stub.LeaseTask(&context, question, &answer));
          if (!answer.has_lease()) return;
          leased.add(began);
        }
        v1::ReportTaskRequest report;
        report.set_worker_id(id);
        report.set_task_id(answer.lease().task_id());
        report.set_fencing_token(answer.lease().fencing_token());
        report.set_secret(answer.lease().secret());
        report.mutable_result()->mutable_failure()->set_reason(v1::Failure::INVALID_MODEL);
        report.mutable_result()->mutable_failure()->set_message("simulated");
        grpc::ClientContext context;
        v1::ReportTaskResponse filed;
        const auto began = Clock::now();
        sound(stub.ReportTask(&context, report, &filed));
        reported.add(began);
        --left;
      });
    }
  });
  leased.print("tasks leased");
  reported.print("tasks reported");
}

void queue(const Flags& flags) {
  client::Channel channel(flags.server);
  const std::string model = "a model that nobody compiles";
  v1::Digest digest;
  digest.set_sha256(sha256Hex(model));
  digest.set_size_bytes(static_cast<int64_t>(model.size()));
  check(client::uploadBytes(channel, model, digest));
  createJobs(flags, digest);
  std::printf("queued\n");  // tests/bench/scale reads the server's memory now
  std::fflush(stdout);
  work(flags);
}

void wait(const Flags& flags) {
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  for (int i = 0; i < flags.calls; ++i) contexts.push_back(std::make_unique<grpc::ClientContext>());
  std::atomic<int> heard = 0;
  // One connection for ten calls: that many clients would not share one.
  std::vector<std::unique_ptr<client::Channel>> channels;
  for (int i = 0; i < flags.calls; i += 10) channels.push_back(std::make_unique<client::Channel>(flags.server));
  std::thread watching([&] {
    inThreads(flags.calls, [&](int i) {
      v1::WatchJobRequest request;
      request.set_id(flags.job);
      auto reader =
          channels[static_cast<size_t>(i / 10)]->jobs().WatchJob(contexts[static_cast<size_t>(i)].get(), request);
      v1::WatchJobResponse response;
      for (bool first = true; reader->Read(&response); first = false) heard += first;
      (void)reader->Finish();
    });
  });
  while (heard < flags.calls) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::printf("waiting\n");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  for (const auto& context : contexts) context->TryCancel();
  watching.join();
}

/// A sparse file of zeros with a distinct length (1 GiB plus some pages), named by its digest.
v1::Digest makeSparse(const std::filesystem::path& blobs, int number) {
  const int64_t size = (int64_t{1} << 30) + int64_t{4096} * number;
  static const std::string zeros(1 << 20, '\0');
  Sha256 hash;
  for (int i = 0; i < 1024; ++i) hash.update(zeros);
  for (int i = 0; i < number; ++i) hash.update(std::string_view(zeros).substr(0, 4096));
  v1::Digest digest;
  digest.set_sha256(hash.finish());
  digest.set_size_bytes(size);
  const auto folder = blobs / digest.sha256().substr(0, 2) / digest.sha256().substr(2, 2);
  std::filesystem::create_directories(folder);
  const int file = open((folder / digest.sha256()).c_str(), O_CREAT | O_WRONLY | O_EXCL, 0400);
  if (file < 0 || ftruncate(file, size) != 0 || close(file) != 0) fail("cannot make " + folder.string());
  return digest;
}

void blobs(const Flags& flags) {
  const std::filesystem::path folder(flags.folder);
  std::filesystem::create_directories(folder);
  auto store = storage::openSqliteStore((folder / "tessera.db").string());
  check(store.status());
  auto start = Clock::now();
  std::vector<v1::Digest> made;
  for (int i = 0; i < flags.gigabytes; ++i) made.push_back(makeSparse(folder / "blobs", i));
  check((*store)->transact([&](storage::Transaction& tx) {
    absl::Status status;
    for (const v1::Digest& digest : made) {
      if (status.ok()) status = tx.putBlob(digest, "default", 1);
    }
    return status;
  }));
  std::printf("made %d sparse blobs of 1 GiB in %.2f s\n", flags.gigabytes, secondsSince(start));
  start = Clock::now();
  storage::BlobStoreOptions options;
  options.rows = store->get();
  options.max_total_bytes = int64_t{1} << 50;  // with a quota, opening the store reads each blob's size
  auto opened = storage::openBlobStore((folder / "blobs").string(), options);
  check(opened.status());
  int64_t count = 0, bytes = 0;
  check((*opened)->forEach([&](const std::string&, int64_t size, int64_t) {
    ++count;
    bytes += size;
    return absl::OkStatus();
  }));
  std::printf("opened and listed %lld blobs, %lld bytes in %.3f s\n", static_cast<long long>(count),
              static_cast<long long>(bytes), secondsSince(start));
  start = Clock::now();
  server::Scrubber scrubber(**store, **opened, int64_t{1} << 50, {});
  const auto scrubbed = scrubber.pass([](double) { return true; });
  check(scrubbed.status());
  std::printf("scrubbed %lld blobs, %lld damaged, in %.1f s\n", static_cast<long long>(scrubbed->blobs),
              static_cast<long long>(scrubbed->damaged), secondsSince(start));
  start = Clock::now();
  server::SystemClock clock;
  v1::RetentionPolicy policy;
  policy.set_blobs_us(int64_t{3600} * 1'000'000);
  const auto collected = server::Collector(**store, **opened, clock).collect(policy, false);
  check(collected.status());
  std::printf("collected %lld blobs in %.2f s\n", static_cast<long long>(collected->blobs()), secondsSince(start));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Loads a service with many jobs, workers, calls and bytes", "tessera-scale");
  app.require_subcommand(1);
  Flags flags;
  auto* queue_command = app.add_subcommand("queue", "Queues jobs, and drains them with simulated workers");
  queue_command->add_option("--server", flags.server)->required();
  queue_command->add_option("--workers-at", flags.workers_at)->required();
  queue_command->add_option("--token-file", flags.token_file)->required();
  queue_command->add_option("--jobs", flags.jobs)->capture_default_str();
  queue_command->add_option("--clients", flags.clients)->capture_default_str();
  queue_command->add_option("--workers", flags.workers)->capture_default_str();
  auto* wait_command = app.add_subcommand("wait", "Watches a job many times until its input ends");
  wait_command->add_option("--server", flags.server)->required();
  wait_command->add_option("--job", flags.job)->required();
  wait_command->add_option("--calls", flags.calls)->capture_default_str();
  auto* blobs_command = app.add_subcommand("blobs", "Lists, scrubs and collects sparse blobs");
  blobs_command->add_option("--gigabytes", flags.gigabytes)->capture_default_str();
  blobs_command->add_option("FOLDER", flags.folder)->required();
  CLI11_PARSE(app, argc, argv);
  if (*queue_command) queue(flags);
  if (*wait_command) wait(flags);
  if (*blobs_command) blobs(flags);
  return 0;
}
