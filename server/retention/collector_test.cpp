#include "server/retention/collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <set>

#include "proto/messages/project.h"
#include "proto/support/status_macros.h"
#include "server/testing/scheduler_bench.h"
#include "storage/cached_blob_store.h"
#include "storage/nested_transaction_scope.h"
#include "storage/objects/folder_object_store.h"
#include "storage/stored_key.h"

namespace tessera::server {
namespace {

using storage::Kind;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kHour = int64_t{3600} * 1'000'000;
constexpr int64_t kDay = 24 * kHour;

v1::RetentionPolicy keeping(int64_t us) {
  v1::RetentionPolicy policy;
  policy.set_jobs_us(us);
  policy.set_events_us(us);
  policy.set_artifacts_us(us);
  policy.set_objects_us(us);
  policy.set_records_us(us);
  policy.set_blobs_us(us);
  return policy;
}

class Collection : public testing::Test {
 protected:
  Collection() : collector_(*bench_.store, *bench_.blobs, bench_.clock) { bench_.registerWorker("w"); }

  v1::CollectGarbageResponse collect(const v1::RetentionPolicy& policy, bool dry_run = false) {
    auto response = collector_.collect(policy, dry_run);
    EXPECT_TRUE(response.ok()) << response.status();
    const auto verified = collector_.verify(true);
    EXPECT_TRUE(verified.ok()) << verified.status();
    if (verified.ok()) EXPECT_THAT(verified->problems(), IsEmpty());
    return response.ok() ? *response : v1::CollectGarbageResponse();
  }
  int count(Kind kind) {
    int count = 0;
    const absl::Status status = bench_.store->read([&](storage::Reader& reader) {
      return reader.forEach(kind, [&](const storage::Stored&) { return ++count, absl::OkStatus(); });
    });
    EXPECT_TRUE(status.ok()) << status;
    return count;
  }
  int files() {
    int files = 0;
    EXPECT_TRUE(
        bench_.blobs->forEach([&](const std::string&, int64_t, int64_t) { return ++files, absl::OkStatus(); }).ok());
    return files;
  }
  v1::Job compiled(const std::string& request, const std::string& name, const std::string& units) {
    const v1::Job job = *bench_.create(bench_.request(request, name, units));
    bench_.runAll("w");
    EXPECT_EQ(bench_.job(job.id()).state(), v1::Job::SUCCEEDED);
    return bench_.job(job.id());
  }

  SchedulerFixture bench_;
  Collector collector_;
};

TEST_F(Collection, TakesNothingThatIsYoungOrForEver) {
  compiled("r1", "net", "a b");
  const int blobs = count(Kind::kBlob);
  bench_.clock.advance(kDay);
  EXPECT_EQ(collect(v1::RetentionPolicy()).jobs(), 0) << "no policy";
  EXPECT_EQ(collect(keeping(2 * kDay)).jobs(), 0);
  EXPECT_EQ(count(Kind::kBlob), blobs);
  EXPECT_EQ(count(Kind::kJob), 1);
}

TEST_F(Collection, TakesEverythingThatIsOver) {
  compiled("r1", "net", "a b");
  bench_.clock.advance(2 * kDay);
  const auto dry = collect(keeping(kDay), true);
  EXPECT_EQ(dry.jobs(), 1);
  EXPECT_EQ(count(Kind::kJob), 1) << "only said";
  const auto done = collect(keeping(kDay));
  EXPECT_EQ(done.jobs(), 1);
  EXPECT_EQ(done.artifacts(), 1);
  EXPECT_EQ(done.objects(), 2);
  EXPECT_GT(done.blobs(), 5);
  for (const Kind kind : {Kind::kJob, Kind::kAction, Kind::kTask, Kind::kArtifact, Kind::kObject, Kind::kBlob}) {
    EXPECT_EQ(count(kind), 0) << static_cast<int>(kind);
  }
  EXPECT_EQ(files(), 0);
  compiled("r2", "net", "a b");  // everything of it can be built again
}

TEST_F(Collection, KeepsWhatALivingJobNeeds) {
  const v1::Job old = compiled("r1", "net", "a b");
  bench_.clock.advance(kDay + kHour);
  const v1::Job waiting = *bench_.create(bench_.request("r2", "other", "a b c"));
  const v1::Lease plan = bench_.lease("w");
  ASSERT_TRUE(bench_.finish("w", plan).ok());  // a and b exist already, c must be built
  bench_.clock.advance(20 * kHour);            // the job waits for a worker
  const auto done = collect(keeping(kDay));
  EXPECT_EQ(done.jobs(), 1);
  EXPECT_EQ(bench_.runAll("w"), 2) << "c and the assembly; no object has gone";
  EXPECT_EQ(bench_.job(waiting.id()).state(), v1::Job::SUCCEEDED) << bench_.job(waiting.id()).failure().DebugString();
}

TEST_F(Collection, WhatIsAskedForAgainStays) {
  const v1::Job first = compiled("r1", "net", "a");
  for (int day = 0; day < 4; ++day) {
    bench_.clock.advance(20 * kHour);
    EXPECT_TRUE(bench_.create(bench_.request("again" + std::to_string(day), "net", "a"))->cached()) << day;
    collect(keeping(kDay));
  }
  EXPECT_EQ(bench_.get(first.compile_result().artifact()).substr(0, 8), "artifact");
  EXPECT_EQ(count(Kind::kArtifact), 1);
}

TEST_F(Collection, PinsKeepAJobAndAnArtifactWithAllTheyName) {
  const v1::Job job = compiled("r1", "net", "a");
  const v1::Job other = compiled("r2", "other", "b");
  ASSERT_TRUE(bench_.store
                  ->transact([&](storage::Transaction& tx) {
                    EXPECT_TRUE(tx.setPin(Kind::kJob, job.id(), true).ok());
                    return tx.setPin(Kind::kArtifact, other.compile_result().artifact_id(), true);
                  })
                  .ok());
  bench_.clock.advance(10 * kDay);
  collect(keeping(kDay));
  EXPECT_EQ(bench_.job(job.id()).id(), job.id());
  EXPECT_TRUE(bench_.blobs->contains(job.compile().model().sha256()));
  EXPECT_EQ(count(Kind::kArtifact), 2) << "the job's too";
  EXPECT_TRUE(bench_.blobs->contains(other.compile_result().artifact().sha256()));
  EXPECT_FALSE(bench_.blobs->contains(other.compile().model().sha256()));
}

TEST_F(Collection, BytesAreKeptToABoundByLastUse) {
  const v1::Job first = compiled("r1", "one", "a");
  bench_.clock.advance(kDay);
  const v1::Job second = compiled("r2", "two", "b");
  bench_.clock.advance(kDay);
  v1::RetentionPolicy policy;
  policy.set_blobs_us(kHour);
  policy.set_jobs_us(kHour);
  policy.set_artifact_bytes(second.compile_result().artifact().size_bytes());
  EXPECT_EQ(collect(policy).artifacts(), 1);
  EXPECT_FALSE(bench_.blobs->contains(first.compile_result().artifact().sha256()));
  EXPECT_TRUE(bench_.blobs->contains(second.compile_result().artifact().sha256()));
}

/// A store that runs a function between the choice of candidates and each deletion.
class Interrupted : public storage::Store {
 public:
  Interrupted(storage::Store& store, std::function<void()> meanwhile)
      : store_(store), meanwhile_(std::move(meanwhile)) {}
  absl::Status transact(const std::function<absl::Status(storage::Transaction&)>& body) override {
    std::exchange(meanwhile_, [] {})();
    return store_.transact(body);
  }
  absl::Status read(const std::function<absl::Status(storage::Reader&)>& body) override { return store_.read(body); }
  std::shared_ptr<void> listen(std::function<void(const storage::Notice&)> listener) override {
    return store_.listen(std::move(listener));
  }

 private:
  storage::Store& store_;
  std::function<void()> meanwhile_;
};

TEST_F(Collection, WhatIsClaimedAfterTheChoiceStays) {
  const v1::Job first = compiled("r1", "net", "a b");
  const v1::Digest unnamed = bench_.put("model late: a");
  bench_.clock.advance(10 * kDay);
  v1::Job cached, late;
  Interrupted store(*bench_.store, [&] {
    cached = *bench_.create(bench_.request("r2", "net", "a b"));
    v1::CreateJobRequest request = bench_.request("r3", "net", "a b");
    *request.mutable_compile()->mutable_model() = unnamed;
    late = *bench_.create(request);
    ASSERT_TRUE(bench_.finish("w", bench_.lease("w")).ok()) << "its plan finds the object of a";
  });
  const auto done = Collector(store, *bench_.blobs, bench_.clock).collect(keeping(kDay), false);
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_TRUE(cached.cached());
  EXPECT_EQ(bench_.get(cached.compile_result().artifact()).substr(0, 8), "artifact");
  EXPECT_EQ(bench_.runAll("w"), 1) << "the assembly, of the object that was there";
  EXPECT_EQ(bench_.job(late.id()).state(), v1::Job::SUCCEEDED) << bench_.job(late.id()).failure().DebugString();
  const auto verified = collector_.verify(true);
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_THAT(verified->problems(), IsEmpty());
}

/// Objects in a folder, which must not be accessed while a transaction or a snapshot is open.
class RemoteObjects : public storage::ObjectStore {
 public:
  RemoteObjects(std::unique_ptr<storage::ObjectStore> inner, const storage::Store& store)
      : inner_(std::move(inner)), store_(store) {}
  absl::Status put(const std::string& name, const storage::File& file, const v1::Digest& digest) override {
    check();
    return inner_->put(name, file, digest);
  }
  absl::Status get(const std::string& name, int64_t offset, int64_t limit,
                   const std::function<absl::Status(std::string_view chunk)>& sink) override {
    check();
    return inner_->get(name, offset, limit, sink);
  }
  absl::Status remove(const std::string& name) override {
    check();
    if (broken) {
      return absl::UnavailableError("the network is gone");
    }
    return inner_->remove(name);
  }
  absl::Status list(const std::string& prefix, const std::string& after,
                    const std::function<bool(const storage::ObjectInfo& object)>& visit) override {
    check();
    return inner_->list(prefix, after, visit);
  }
  absl::StatusOr<int> removeIncomplete(int64_t age_s) override { return inner_->removeIncomplete(age_s); }
  absl::Status checkWritable() override { return inner_->checkWritable(); }
  std::string placeOf(const std::string& name) const override { return inner_->placeOf(name); }
  const storage::ObjectRequests& requests() const override { return inner_->requests(); }

  bool broken = false;

 private:
  void check() const {
    EXPECT_EQ(storage::NestedTransactionScope::of(store_), nullptr) << "a transaction waits for the network";
  }
  const std::unique_ptr<storage::ObjectStore> inner_;
  const storage::Store& store_;
};

TEST_F(Collection, NoTransactionWaitsForAnObjectStore) {
  const std::string shared = bench_.folder.path() + "/shared";
  std::filesystem::create_directory(shared);
  auto folder = storage::openFolderObjects(shared);
  ASSERT_TRUE(folder.ok()) << folder.status();
  auto objects = std::make_unique<RemoteObjects>(*std::move(folder), *bench_.store);
  RemoteObjects& remote = *objects;
  storage::CachedBlobStoreOptions options;
  options.local.rows = bench_.store.get();
  const auto blobs = storage::openCachedBlobStore(bench_.folder.path() + "/cache", std::move(objects), options);
  ASSERT_TRUE(blobs.ok()) << blobs.status();
  const auto digest = (*blobs)->put(std::string(100'000, 'x'));
  ASSERT_TRUE(digest.ok()) << digest.status();
  // The row as if the blob had never been used.
  const auto row = [&](storage::Transaction& tx) -> absl::Status {
    TESSERA_RETURN_IF_ERROR(tx.erase(Kind::kBlob, digest->sha256()));
    return tx.putBlob(*digest, "");
  };
  ASSERT_TRUE(bench_.store->transact(row).ok());
  bench_.clock.advance(10 * kDay);
  Collector collector(*bench_.store, **blobs, bench_.clock);
  const std::string object = remote.placeOf("blobs/" + digest->sha256());
  remote.broken = true;
  EXPECT_FALSE(collector.collect(keeping(kDay), false).ok());
  EXPECT_TRUE(std::filesystem::exists(object));
  EXPECT_EQ(count(Kind::kBlob), 1) << "the row stays with the object";
  remote.broken = false;
  bench_.clock.advance(10 * kDay);
  const auto collected = collector.collect(keeping(kDay), false);
  ASSERT_TRUE(collected.ok()) << collected.status();
  EXPECT_EQ(collected->blobs(), 1);
  EXPECT_FALSE(std::filesystem::exists(object));
  EXPECT_EQ(count(Kind::kBlob), 0);
}

TEST_F(Collection, BytesThatNoRowSpeaksOfGoWhenTheyAreOld) {
  const auto orphan = bench_.blobs->put("nobody speaks of this " + std::string(100'000, '.'));
  ASSERT_TRUE(orphan.ok());
  const std::string small = "nor of this";
  const auto row = bench_.blobs->put(small);
  ASSERT_TRUE(row.ok());
  EXPECT_EQ(collect(keeping(kHour)).blobs(), 0) << "its upload may be about to end";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(bench_.folder.path() + "/blobs")) {
    if (entry.is_regular_file()) {
      std::filesystem::last_write_time(entry, std::filesystem::file_time_type::clock::now() - std::chrono::hours(30));
    }
  }
  EXPECT_EQ(collect(keeping(kHour)).blobs(), 1);
  EXPECT_FALSE(bench_.blobs->contains(orphan->sha256()));
  EXPECT_TRUE(bench_.blobs->contains(row->sha256()));
  ASSERT_TRUE(bench_.store
                  ->transact([&](storage::Transaction& tx) -> absl::Status {
                    TESSERA_RETURN_IF_ERROR(tx.eraseBlobBytes(row->sha256()));
                    return tx.putBlobBytes(row->sha256(), small, time(nullptr) - 30 * 3600);
                  })
                  .ok());
  EXPECT_EQ(collect(keeping(kHour)).blobs(), 1);
  EXPECT_FALSE(bench_.blobs->contains(row->sha256()));
}

TEST_F(Collection, WhatWasMeasuredOfChoicesStaysAlsoWhereItWasSlower) {
  ASSERT_TRUE(bench_.store
                  ->transact([&](storage::Transaction& tx) -> absl::Status {
                    v1::TuningRecord record;
                    record.set_target_name("chip");
                    record.set_workload_hash("question");
                    record.set_create_time_us(bench_.clock.nowMicros());
                    for (int i = 0; i < 12; ++i) {
                      record.set_id(std::to_string(i));
                      record.set_mode(i == 11 ? "choice" : "search");
                      record.set_median_ms(1 + i);
                      TESSERA_RETURN_IF_ERROR(tx.putRecord(record));
                    }
                    return absl::OkStatus();
                  })
                  .ok());
  bench_.clock.advance(2 * kDay);
  (void)collect(keeping(kDay));
  EXPECT_TRUE(bench_.store->read([&](storage::Reader& reader) { return reader.getRecord("11").status(); }).ok())
      << "the newest answer";
}

TEST_F(Collection, TheFastestRecordsOfEachGroupStay) {
  ASSERT_TRUE(bench_.store
                  ->transact([&](storage::Transaction& tx) -> absl::Status {
                    v1::TuningRecord record;
                    record.set_target_name("chip");
                    record.set_create_time_us(bench_.clock.nowMicros());
                    for (int i = 0; i < 12; ++i) {
                      record.set_id(std::to_string(i));
                      record.set_workload_hash(i < 10 ? "often" : "seldom");
                      record.set_median_ms(20 - i);
                      record.set_outcome(i == 9 ? v1::TuningRecord::WRONG_RESULT : v1::TuningRecord::PASSED);
                      TESSERA_RETURN_IF_ERROR(tx.putRecord(record));
                    }
                    return absl::OkStatus();
                  })
                  .ok());
  bench_.clock.advance(2 * kDay);
  EXPECT_EQ(collect(keeping(kDay), true).records(), 6) << "of the first workload all but four";
  EXPECT_EQ(collect(keeping(kDay)).records(), 6);
  std::set<std::string> kept;
  ASSERT_TRUE(bench_.store
                  ->read([&](storage::Reader& reader) {
                    return reader.forEach(Kind::kRecord, [&](const storage::Stored& stored) {
                      kept.insert(stored.id);
                      return absl::OkStatus();
                    });
                  })
                  .ok());
  EXPECT_EQ(kept, (std::set<std::string>{"5", "6", "7", "8", "10", "11"}));
}

TEST_F(Collection, AJobsVersionsAndASearchsKnownTreesKeepTheirBlobsForTheirProject) {
  v1::CreateJobRequest request;
  request.set_request_id("t");
  *request.mutable_tune()->mutable_compile() = bench_.request("c", "net", "a").compile();
  v1::Target target;
  target.set_name("test-target");
  const v1::Digest& model = request.tune().compile().model();
  ASSERT_TRUE(bench_.store->transact([&](storage::Transaction& tx) { return tx.putBlob(model, "vision"); }).ok());
  const auto job = bench_.scheduler().createJob(request, target, "vision");
  ASSERT_TRUE(job.ok()) << job.status();
  std::string search;  // the search waits to be started
  while (search.empty()) {
    ASSERT_TRUE(bench_.finish("w", bench_.lease("w")).ok());
    ASSERT_TRUE(bench_.store
                    ->read([&](storage::Reader& reader) {
                      return reader.forEach(Kind::kAction, [&](const storage::Stored& stored) {
                        if (static_cast<const v1::Action*>(stored.message)->has_search()) search = stored.id;
                        return absl::OkStatus();
                      });
                    })
                    .ok());
  }
  const v1::Digest known = bench_.put("what is known"), version = bench_.put("an artifact"), idle = bench_.put("idle");
  ASSERT_TRUE(bench_.store
                  ->transact([&](storage::Transaction& tx) -> absl::Status {
                    for (const v1::Digest& digest : {known, version, idle})
                      TESSERA_RETURN_IF_ERROR(tx.putBlob(digest, "vision"));
                    v1::SearchEntry entry;
                    *entry.mutable_known() = known;
                    TESSERA_RETURN_IF_ERROR(tx.appendToSearch(search, entry));
                    v1::ArtifactVersion row;
                    row.set_job_id(job->id());
                    row.set_number(9);
                    row.set_artifact_id(version.sha256());
                    *row.mutable_artifact() = version;
                    return tx.putVersion(row);
                  })
                  .ok());
  bench_.clock.advance(2 * kDay);
  v1::RetentionPolicy policy;
  policy.set_blobs_us(kDay);
  collect(policy);
  const auto held = [&](const std::string& project, const v1::Digest& digest) {
    bool held = false;
    EXPECT_TRUE(bench_.store
                    ->read([&](storage::Reader& reader) -> absl::Status {
                      TESSERA_ASSIGN_OR_RETURN(held, reader.mayReadBlob(project, digest.sha256()));
                      return absl::OkStatus();
                    })
                    .ok());
    return held && bench_.blobs->contains(digest.sha256());
  };
  EXPECT_TRUE(held("vision", known));
  EXPECT_TRUE(held("vision", version));
  EXPECT_FALSE(held("vision", idle));
  EXPECT_FALSE(held(kDefaultProject, version)) << "which does not need it";
}

TEST_F(Collection, DeletesAtTheOperatorsWord) {
  const v1::Job job = *bench_.create(bench_.request("r1", "net", "a"));
  v1::DeleteRequest request;
  request.set_job_id(job.id());
  EXPECT_TRUE(absl::IsFailedPrecondition(collector_.erase(request, kDefaultProject))) << "it lives";
  bench_.runAll("w");
  const std::string artifact = bench_.job(job.id()).compile_result().artifact_id();
  const auto pin = [&](Kind kind, const std::string& key, bool pinned) {
    EXPECT_TRUE(bench_.store->transact([&](storage::Transaction& tx) { return tx.setPin(kind, key, pinned); }).ok());
  };
  const auto refused = [&] { return std::string(collector_.erase(request, kDefaultProject).message()); };
  pin(Kind::kJob, job.id(), true);
  EXPECT_THAT(refused(), HasSubstr("`tessera admin unpin --job " + job.id()));
  pin(Kind::kJob, job.id(), false);
  EXPECT_TRUE(collector_.erase(request, kDefaultProject).ok());
  EXPECT_TRUE(absl::IsNotFound(collector_.erase(request, kDefaultProject)));
  request.set_artifact_id(artifact);
  pin(Kind::kArtifact, storage::storedKey(kDefaultProject, artifact), true);
  EXPECT_THAT(refused(), HasSubstr("`tessera admin unpin --artifact " + artifact));
  pin(Kind::kArtifact, storage::storedKey(kDefaultProject, artifact), false);
  EXPECT_TRUE(collector_.erase(request, kDefaultProject).ok());
  EXPECT_TRUE(absl::IsNotFound(collector_.erase(request, kDefaultProject)));
  request.set_worker_id("w");
  EXPECT_TRUE(absl::IsFailedPrecondition(collector_.erase(request, kDefaultProject))) << "it is there";
  EXPECT_TRUE(absl::IsInvalidArgument(collector_.erase(v1::DeleteRequest(), kDefaultProject)));
}

TEST_F(Collection, VerificationNamesWhatIsMissingAndDamaged) {
  const v1::Job job = compiled("r1", "net", "a");
  const std::string artifact = job.compile_result().artifact_id();
  ASSERT_TRUE(bench_.blobs->remove(artifact).ok());
  const auto found = collector_.verify(false);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->problems(), Contains(HasSubstr(artifact)));
}

}  // namespace
}  // namespace tessera::server
