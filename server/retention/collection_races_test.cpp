// Collections while two servers on one store add, move and drop references. Between any two snapshots and transactions
// of a collection, random calls of clients and workers happen, and time passes. Each case is one seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/messages/project.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "server/queue/digest_references.h"
#include "server/queue/jobs.h"
#include "server/queue/uses.h"
#include "server/retention/collector.h"
#include "server/testing/scheduler_bench.h"
#include "storage/cached_blob_store.h"
#include "storage/memory_store.h"
#include "storage/nested_transaction_scope.h"
#include "storage/objects/folder_object_store.h"
#include "storage/postgres_store.h"
#include "storage/testing/postgres_server.h"

namespace tessera::server {
namespace {

using storage::Kind;
using testing::IsEmpty;

constexpr int64_t kMinute = int64_t{60} * 1'000'000;
constexpr int64_t kHour = 60 * kMinute;

/// Passes all calls on, and calls `before` first, outside of transactions. Its argument says whether a transaction that
/// writes follows.
class Interrupted : public storage::Store {
 public:
  Interrupted(storage::Store& store, std::function<void(bool writes)> before)
      : store_(store), before_(std::move(before)) {}
  absl::Status transact(const std::function<absl::Status(storage::Transaction&)>& body) override {
    interrupt(true);
    return store_.transact(body);
  }
  absl::Status read(const std::function<absl::Status(storage::Reader&)>& body) override {
    interrupt(false);
    return store_.read(body);
  }
  std::shared_ptr<void> listen(std::function<void(const storage::Notice&)> listener) override {
    return store_.listen(std::move(listener));
  }

 private:
  void interrupt(bool writes) const {
    if (storage::NestedTransactionScope::of(store_) == nullptr) {
      before_(writes);
    }
  }
  storage::Store& store_;
  const std::function<void(bool)> before_;
};

/// Passes all calls on, and checks after each transaction the rule on which collections rely: whatever a row has begun
/// to refer to was touched.
class Watched : public storage::Store {
 public:
  Watched(storage::Store& store, Clock& clock) : store_(store), clock_(clock) {}
  absl::Status transact(const std::function<absl::Status(storage::Transaction&)>& body) override {
    const bool nested = storage::NestedTransactionScope::of(store_) != nullptr;
    return store_.transact([&](storage::Transaction& tx) -> absl::Status {
      TESSERA_RETURN_IF_ERROR(body(tx));
      if (!nested) {
        check(tx);
      }
      return absl::OkStatus();
    });
  }
  absl::Status read(const std::function<absl::Status(storage::Reader&)>& body) override { return store_.read(body); }
  std::shared_ptr<void> listen(std::function<void(const storage::Notice&)> listener) override {
    return store_.listen(std::move(listener));
  }

 private:
  using References = std::map<std::string, std::set<std::string>>;  // by kind and id of the row

  void check(storage::Reader& reader) {
    References now;
    for (const Kind kind : {Kind::kJob, Kind::kAction, Kind::kTask, Kind::kArtifact, Kind::kObject, Kind::kRecord}) {
      const absl::Status read = reader.forEach(kind, [&](const storage::Stored& stored) -> absl::Status {
        const std::string row = absl::StrCat(static_cast<int>(kind), " ", stored.id);
        const auto note = [&](const google::protobuf::Message& message) {
          forEachSha256(message, [&](const std::string& name) { now[row].insert(name); });
        };
        note(*stored.message);
        if (kind == Kind::kAction && static_cast<const v1::Action*>(stored.message)->has_search()) {
          TESSERA_ASSIGN_OR_RETURN(const auto log, reader.searchLog(stored.id));
          std::ranges::for_each(log, note);
        }
        if (kind == Kind::kJob && static_cast<const v1::Job*>(stored.message)->has_tune()) {
          TESSERA_ASSIGN_OR_RETURN(const auto versions, reader.versionsAfter(stored.id, 0, 1000));
          std::ranges::for_each(versions, note);
        }
        return absl::OkStatus();
      });
      EXPECT_TRUE(read.ok()) << read;
    }
    for (const auto& [row, names] : now) {
      for (const std::string& name : names) {
        if (before_[row].contains(name)) {
          continue;
        }
        // A blob that does not exist cannot be relied on.
        const absl::StatusOr<bool> exists = reader.hasBlob(name);
        const auto stale = reader.usedBefore(kDefaultProject, name, clock_.nowMicros() - 2 * kUseResolutionUs);
        EXPECT_TRUE(exists.ok() && stale.ok());
        if (exists.ok() && *exists && stale.ok()) {
          EXPECT_THAT(*stale, IsEmpty()) << "row " << row << " refers to " << name << ", which was not touched";
        }
      }
    }
    before_ = std::move(now);
  }

  storage::Store& store_;
  Clock& clock_;
  References before_;
};

/// The place of the bytes of blobs.
enum class Place { kRows, kFiles, kObjects };

/// Two servers on one store, and their clients and workers.
class Races {
 public:
  Races(unsigned seed, Place place)
      : random_(seed), store_(storage::makeMemoryStore()), watched_(*store_, clock_), place_(place) {
    storage::BlobStoreOptions options;
    options.rows = store_.get();
    options.most_row_bytes = place == Place::kRows ? 1 << 20 : 0;
    for (int i = 0; i < 2; ++i) {
      if (place != Place::kObjects && i > 0) {
        servers_.push_back(Server{servers_.front().blobs, nullptr});
      } else if (place != Place::kObjects) {
        servers_.push_back(
            Server{std::shared_ptr(storage::openBlobStore(folder_.path() + "/blobs", options).value()), nullptr});
      } else {
        std::filesystem::create_directories(folder_.path() + "/shared");
        storage::CachedBlobStoreOptions cached;
        cached.local = options;
        cached.now_us = [this] { return clock_.nowMicros(); };
        cached.claim_patience = std::chrono::milliseconds(0);
        auto objects = storage::openFolderObjects(folder_.path() + "/shared");
        servers_.push_back(
            Server{std::shared_ptr(storage::openCachedBlobStore(absl::StrCat(folder_.path(), "/cache", i),
                                                                *std::move(objects), cached)
                                       .value()),
                   nullptr});
      }
      Rules rules = SchedulerFixture::defaultRules();
      rules.lease_us = 1000 * kHour;
      servers_.back().scheduler =
          std::make_unique<Scheduler>(watched_, *servers_.back().blobs, clock_, ids_, workflows_, rules);
      registerWorker();
    }
  }

  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  /// A call of a client or a worker at one of the servers, or time that passes.
  void step() {
    Server& server = servers_[static_cast<size_t>(pick(2))];
    const int what = pick(100);
    if (what < 35) {
      create(server);
    } else if (what < 75) {
      work(server);
    } else if (what < 80) {
      registerWorker();  // returns the tasks of the former process
    } else if (what < 90) {
      clock_.advance(pick(8) * kMinute);
    } else {
      clock_.advance(pick(90) * kMinute);
    }
  }

  void collect() {
    Server& server = servers_[static_cast<size_t>(pick(2))];
    // Fewer rows are added than visited, so that the collection ends.
    Interrupted store(*store_, [this](bool writes) {
      const int steps = writes ? pick(4) : pick(8) / 7;
      for (int i = 0; i < steps; ++i) {
        step();
      }
    });
    v1::RetentionPolicy policy;
    for (const auto set : {&v1::RetentionPolicy::set_jobs_us, &v1::RetentionPolicy::set_events_us,
                           &v1::RetentionPolicy::set_artifacts_us, &v1::RetentionPolicy::set_objects_us,
                           &v1::RetentionPolicy::set_records_us, &v1::RetentionPolicy::set_blobs_us}) {
      (policy.*set)(kHour);
    }
    const auto collected = Collector(store, *server.blobs, clock_, {}, 1 + pick(3)).collect(policy, false);
    EXPECT_TRUE(collected.ok()) << collected.status();
    deleted += collected.ok() ? collected->blobs() : 0;
    const auto verified = Collector(*store_, *server.blobs, clock_).verify(true);
    ASSERT_TRUE(verified.ok()) << verified.status();
    EXPECT_THAT(verified->problems(), IsEmpty());
  }

  /// Works for a while; no job may have lost anything.
  void settle() {
    registerWorker();
    for (int i = 0; i < 300 && work(servers_.front()); ++i) {
    }
    int succeeded = 0;
    for (const std::string& id : jobs_) {
      v1::Job job;
      const absl::Status read = store_->read([&](storage::Reader& reader) -> absl::Status {
        TESSERA_ASSIGN_OR_RETURN(job, reader.getJob(id));
        return absl::OkStatus();
      });
      if (!absl::IsNotFound(read)) {  // collected
        EXPECT_NE(job.state(), v1::Job::FAILED) << read << job.DebugString();
        succeeded += job.state() == v1::Job::SUCCEEDED ? 1 : 0;
      }
    }
    EXPECT_GT(succeeded, 0);
  }

  int64_t deleted = 0;
  int refused = 0;  ///< jobs that named a deleted model

 private:
  struct Server {
    std::shared_ptr<storage::BlobStore> blobs;
    std::unique_ptr<Scheduler> scheduler;
  };

  void registerWorker() {
    v1::RegisterWorkerRequest request;
    request.set_worker_id("w");
    request.set_compiler_version("test-compiler");
    request.set_pid(++pid_);
    request.set_measuring_cores(1);
    request.mutable_host()->set_hostname("h");
    request.mutable_host()->set_cores(2);
    const auto registered = servers_.front().scheduler->registerWorker(request);
    EXPECT_TRUE(registered.ok()) << registered.status();
  }

  /// UNAVAILABLE while a collection removes an earlier object of the name.
  absl::StatusOr<v1::Digest> put(Server& server, const std::string& bytes) {
    TESSERA_ASSIGN_OR_RETURN(v1::Digest digest, server.blobs->put(bytes));
    TESSERA_RETURN_IF_ERROR(watched_.transact([&](storage::Transaction& tx) -> absl::Status {
      EXPECT_TRUE(server.blobs->contains(digest.sha256()));
      TESSERA_RETURN_IF_ERROR(tx.putBlob(digest, kDefaultProject, clock_.nowMicros()));
      return tx.touch(Kind::kBlob, digest.sha256(), clock_.nowMicros());
    }));
    // Ends the minute during which a server relies on an object without a row; here an hour takes less than a minute.
    EXPECT_TRUE(server.blobs->contains(digest.sha256()));
    return digest;
  }

  std::string get(Server& server, const v1::Digest& digest) {
    std::string bytes;
    const absl::Status read = server.blobs->get(digest.sha256(), 0, 0, [&](std::string_view chunk) {
      bytes += chunk;
      return absl::OkStatus();
    });
    EXPECT_TRUE(read.ok()) << read;
    return bytes;
  }

  /// Names a model that was uploaded long ago or never; uploads it if the server lacks it.
  void create(Server& server) {
    const int model = pick(5);
    const std::string bytes = absl::StrCat("model m", model, ": ", std::vector{"a b", "b c", "d", "a d e", "f"}[model]);
    v1::CreateJobRequest request;
    request.set_request_id(absl::StrCat("r", ++requests_));
    request.mutable_compile()->set_name(absl::StrCat("m", model));
    request.mutable_compile()->mutable_model()->set_sha256(sha256Hex(bytes));
    request.mutable_compile()->mutable_model()->set_size_bytes(static_cast<int64_t>(bytes.size()));
    if (place_ != Place::kObjects && pick(4) == 0) {  // objects of candidates are removed by another thread
      v1::TuneSpec tune;
      *tune.mutable_compile() = request.compile();
      tune.set_trials(2);
      *request.mutable_tune() = std::move(tune);
    }
    v1::Target target;
    target.set_name("test-target");
    auto job = server.scheduler->createJob(request, target);
    if (!job.ok()) {
      ++refused;
      const auto sent = put(server, bytes);
      if (absl::IsUnavailable(sent.status()) && place_ == Place::kObjects) {
        return;
      }
      ASSERT_TRUE(sent.ok()) << sent.status();
      job = server.scheduler->createJob(request, target);
    }
    ASSERT_TRUE(job.ok()) << job.status();
    jobs_.push_back(job->id());
    if (job->cached()) {
      EXPECT_EQ(get(server, job->compile_result().artifact()).substr(0, 8), "artifact");
    }
  }

  /// Leases and finishes a task; false if there is none.
  bool work(Server& server) {
    const auto lease = server.scheduler->leaseTask("w");
    EXPECT_TRUE(lease.ok()) << lease.status();
    if (!lease.ok() || lease->lease().task_id().empty()) {
      return false;
    }
    bool busy = false;
    const FakeWork worker([&](const v1::Digest& digest) { return get(server, digest); },
                          [&](const std::string& bytes) {
                            const auto digest = put(server, bytes);
                            busy = busy || absl::IsUnavailable(digest.status());
                            EXPECT_TRUE(digest.ok() || (busy && place_ == Place::kObjects)) << digest.status();
                            return digest.value_or(v1::Digest());
                          });
    v1::ReportTaskRequest report;
    report.set_worker_id("w");
    report.set_task_id(lease->lease().task_id());
    report.set_fencing_token(lease->lease().fencing_token());
    report.set_secret(lease->lease().secret());
    *report.mutable_result() = worker.run(lease->lease().task());
    if (busy) {
      registerWorker();  // the next process runs the task again
      return true;
    }
    const absl::Status reported = server.scheduler->reportTask(report);
    EXPECT_TRUE(reported.ok()) << reported;
    return true;
  }

  std::mt19937 random_;
  ScratchFolder folder_;
  FakeClock clock_;
  CountingIds ids_;
  const std::unique_ptr<storage::Store> store_;
  Watched watched_;
  const Place place_;
  const Workflows workflows_{};
  std::vector<Server> servers_;
  std::vector<std::string> jobs_;
  int requests_ = 0;
  int64_t pid_ = 0;
};

TEST(CollectionRaces, NothingThatIsNamedIsDeleted) {
  int64_t deleted = 0;
  int refused = 0;
  for (unsigned seed = 0; seed < 9 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Races races(seed, static_cast<Place>(seed % 3));
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 20; ++i) {
        races.step();
      }
      races.collect();
    }
    races.settle();
    deleted += races.deleted;
    refused += races.refused;
  }
  EXPECT_GT(deleted, 20) << "a collection that deletes nothing shows nothing";
  EXPECT_GT(refused, 20);
}

/// Time that only one thread sets, between the calls of the others.
class SharedClock : public Clock {
 public:
  int64_t nowMicros() override { return now_us_; }
  /// Waits for the calls in progress: no transaction may take hours.
  void advance(int64_t us) {
    const std::unique_lock lock(calls);
    now_us_ += us;
  }
  std::shared_mutex calls;  ///< shared by each call

 private:
  std::atomic<int64_t> now_us_ = int64_t{1'700'000'000'000'000};
};

/// One of the servers on a PostgreSQL database, with its connections and its cache.
class PostgresRacer {
 public:
  PostgresRacer(const std::string& uri, const std::string& folder, int number, SharedClock& clock)
      : number_(number), clock_(clock), store_(storage::openPostgresStore(uri).value()) {
    storage::CachedBlobStoreOptions options;
    options.local.rows = store_.get();
    options.local.most_row_bytes = 0;
    options.now_us = [&clock] { return clock.nowMicros(); };
    auto objects = storage::openFolderObjects(folder + "/shared");
    blobs_ = storage::openCachedBlobStore(absl::StrCat(folder, "/cache", number), *std::move(objects), options).value();
  }

  /// A job names a blob, which is sent first if the service lacks it; reads the blob; and ends.
  void call(int blob, int call) {
    const std::string bytes = absl::StrCat("blob ", blob, std::string(1000, '.'));
    v1::Digest digest;
    digest.set_sha256(sha256Hex(bytes));
    digest.set_size_bytes(static_cast<int64_t>(bytes.size()));
    v1::Job job;
    job.set_id(absl::StrCat("job-", number_, "-", call));
    job.set_state(v1::Job::QUEUED);
    *job.mutable_compile()->mutable_model() = digest;
    {
      const std::shared_lock lock(clock_.calls);
      const int64_t now_us = clock_.nowMicros();
      bool exists = false;
      const auto name = [&](storage::Transaction& tx) -> absl::Status {
        TESSERA_RETURN_IF_ERROR(touch(tx, Kind::kBlob, digest.sha256(), now_us));
        TESSERA_ASSIGN_OR_RETURN(exists, tx.hasBlob(digest.sha256()));
        return exists ? tx.insertJob(job, "hash", "") : absl::OkStatus();
      };
      ASSERT_TRUE(store_->transact(name).ok());
      if (!exists) {
        ++sent_;
        const absl::Status sent = blobs_->put(digest, bytes);
        ASSERT_TRUE(sent.ok()) << sent;
        const absl::Status named = store_->transact([&](storage::Transaction& tx) -> absl::Status {
          TESSERA_RETURN_IF_ERROR(tx.putBlob(digest, kDefaultProject, now_us));
          TESSERA_RETURN_IF_ERROR(tx.touch(Kind::kBlob, digest.sha256(), now_us));
          return tx.insertJob(job, "hash", "");
        });
        ASSERT_TRUE(named.ok()) << named;
      }
    }
    // The job lives: whatever a collection does now, its blob stays. The object is read, not the cached copy.
    const absl::Status whole = blobs_->verify(digest.sha256(), [](std::string_view) { return absl::OkStatus(); });
    EXPECT_TRUE(whole.ok()) << whole;
    EXPECT_TRUE(blobs_->contains(digest.sha256()));
    EXPECT_TRUE(store_->transact([&](storage::Transaction& tx) { return tx.erase(Kind::kJob, job.id()); }).ok());
  }

  absl::StatusOr<v1::CollectGarbageResponse> collect(const v1::RetentionPolicy& policy) {
    return Collector(*store_, *blobs_, clock_, {}, 2).collect(policy, false);
  }
  int sent() const { return sent_; }

 private:
  const int number_;
  SharedClock& clock_;
  std::unique_ptr<storage::Store> store_;
  std::unique_ptr<storage::BlobStore> blobs_;
  int sent_ = 0;
};

TEST(CollectionRacesOnPostgres, NothingThatIsNamedIsDeleted) {
  const auto& server = storage::PostgresServer::shared();
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string uri = (*server)->createDatabase().value();
  const ScratchFolder folder;
  std::filesystem::create_directory(folder.path() + "/shared");
  SharedClock clock;
  std::vector<std::unique_ptr<PostgresRacer>> servers;
  for (int i = 0; i < 3; ++i) {
    servers.push_back(std::make_unique<PostgresRacer>(uri, folder.path(), i, clock));
  }
  std::atomic<bool> over = false;
  std::vector<std::thread> clients;
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back([&, i] {
      std::mt19937 random(static_cast<unsigned>(i));
      for (int call = 0; !over; ++call) {
        servers[static_cast<size_t>(i)]->call(static_cast<int>(random() % 6), call);
      }
    });
  }
  v1::RetentionPolicy policy;
  policy.set_blobs_us(kHour);
  int64_t deleted = 0;
  for (int round = 0; round < 12 && !testing::Test::HasFailure(); ++round) {
    clock.advance(2 * kHour);
    const auto collected = servers[2]->collect(policy);
    EXPECT_TRUE(collected.ok()) << collected.status();
    deleted += collected.ok() ? collected->blobs() : 0;
  }
  over = true;
  for (std::thread& client : clients) {
    client.join();
  }
  EXPECT_GT(deleted, 10);
  EXPECT_GT(servers[0]->sent() + servers[1]->sent(), 10);
}

}  // namespace
}  // namespace tessera::server
