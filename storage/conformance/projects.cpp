// Isolation of projects: names, lists, references to blobs, usage.
#include <gmock/gmock.h>

#include "proto/messages/project.h"
#include "storage/conformance/samples.h"
#include "storage/stored_key.h"

namespace tessera::storage {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

const std::string kA = "alpha", kB = "beta";

template <typename T>
std::vector<std::string> idsOf(const absl::StatusOr<Page<T>>& page) {
  std::vector<std::string> ids;
  EXPECT_TRUE(page.ok()) << page.status();
  if (!page.ok()) return ids;
  for (const T& item : page->items) ids.push_back(item.id());
  return ids;
}

v1::Digest digestNamed(char letter, int64_t size) {
  v1::Digest digest;
  digest.set_sha256(std::string(64, letter));
  digest.set_size_bytes(size);
  return digest;
}

TEST_P(StoreConformance, IdsAndNamesAreAProjectsOwn) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    for (const std::string& project : {kA, kB}) {
      v1::Job job = sampleJob("job of " + project, project == kA ? 1 : 2);
      job.set_request_id("nightly");
      job.set_project(project);
      EXPECT_TRUE(t.insertJob(job, "hash of " + project, "").ok());
      v1::Artifact artifact = sampleArtifact("equal bytes", "key of " + project, 5);
      artifact.set_project(project);
      artifact.set_job_id(job.id());
      EXPECT_TRUE(t.putArtifact(artifact).ok());
      v1::Target target;
      target.set_name("edge");
      target.set_summary("of " + project);
      EXPECT_TRUE(t.putTarget(project, target).ok());
    }
    v1::Target common;
    common.set_name("lake");
    EXPECT_TRUE(t.putTarget("", common).ok());
    v1::Job again = sampleJob("job of alpha again");
    again.set_request_id("nightly");
    again.set_project(kA);
    EXPECT_TRUE(absl::IsAlreadyExists(t.insertJob(again, "h", "")));
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_EQ(r.getJobByRequestId(kA, "nightly")->id(), "job of alpha");
    EXPECT_EQ(r.getJobByRequestId(kB, "nightly")->id(), "job of beta");
    EXPECT_TRUE(absl::IsNotFound(r.getJobByRequestId(kDefaultProject, "nightly").status()));
    EXPECT_EQ(r.getArtifact(kA, "equal bytes")->job_id(), "job of alpha");
    EXPECT_EQ(r.getArtifact(kB, "equal bytes")->job_id(), "job of beta");
    EXPECT_TRUE(absl::IsNotFound(r.getArtifact(kDefaultProject, "equal bytes").status()));
    EXPECT_EQ(r.artifactByKey("key of beta")->project(), kB);
    EXPECT_EQ(r.getTarget(kA, "edge")->summary(), "of alpha");
    EXPECT_TRUE(absl::IsNotFound(r.getTarget(kDefaultProject, "edge").status()));
    EXPECT_TRUE(absl::IsNotFound(r.getTarget("", "edge").status()));
    EXPECT_TRUE(r.getTarget("", "lake").ok());
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->transact([&](Transaction& t) { return t.erase(Kind::kArtifact, storedKey(kA, "equal bytes")); }));
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_TRUE(absl::IsNotFound(r.getArtifact(kA, "equal bytes").status()));
    EXPECT_TRUE(absl::IsNotFound(r.artifactByKey("key of alpha").status()));
    EXPECT_TRUE(r.getArtifact(kB, "equal bytes").ok());
    EXPECT_TRUE(r.artifactByKey("key of beta").ok());
    return absl::OkStatus();
  }));
}

TEST_P(StoreConformance, ListsAreOfOneProjectOrOfAll) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    for (const std::string& project : {kA, kB}) {
      for (int i = 0; i < 3; ++i) {
        const std::string id = absl::StrCat(project, i);
        v1::Job job = sampleJob(id, i);
        job.set_project(project);
        EXPECT_TRUE(t.insertJob(job, "h", "").ok());
        v1::Artifact artifact = sampleArtifact(absl::StrCat("artifact ", i), "", 7);  // equal ids at equal times
        artifact.set_project(project);
        EXPECT_TRUE(t.putArtifact(artifact).ok());
        v1::TuningRecord record = sampleRecord(id, 1 + i, i);
        record.set_workload_hash("w");
        record.set_project(project);
        EXPECT_TRUE(t.putRecord(record).ok());
        v1::Target target;
        target.set_name(absl::StrCat("chip", i));
        EXPECT_TRUE(t.putTarget(project, target).ok());
      }
    }
    v1::Target common;
    common.set_name("chip1x");
    EXPECT_TRUE(t.putTarget("", common).ok());
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->read([&](Reader& r) {
    ListQuery own;
    own.project = kB;
    EXPECT_THAT(idsOf(r.listJobs(own)), ElementsAre("beta2", "beta1", "beta0"));
    EXPECT_THAT(idsOf(r.listRecords(own)), ElementsAre("beta0", "beta1", "beta2"));
    own.filter = "id = alpha1 OR id != alpha1";  // restricted to the project, whatever the filter says
    EXPECT_THAT(idsOf(r.listJobs(own)), ElementsAre("beta2", "beta1", "beta0"));
    own.filter = "project = alpha";
    EXPECT_THAT(idsOf(r.listJobs(own)), IsEmpty());
    ListQuery all;
    all.filter = "project = alpha";
    EXPECT_THAT(idsOf(r.listJobs(all)), ElementsAre("alpha2", "alpha1", "alpha0"));
    all.filter = "";
    EXPECT_EQ(r.listJobs(all)->items.size(), 6u);

    // Equal ids and times with small pages: no item is omitted or repeated.
    std::vector<std::pair<std::string, std::string>> seen;
    ListQuery pages;
    pages.page_size = 1;
    do {
      const absl::StatusOr<Page<v1::Artifact>> page = r.listArtifacts(pages);
      EXPECT_TRUE(page.ok()) << page.status();
      for (const v1::Artifact& artifact : page->items) seen.emplace_back(artifact.id(), artifact.project());
      pages.page_token = page->next_page_token;
    } while (!pages.page_token.empty() && seen.size() < 9);
    EXPECT_THAT(seen, ElementsAre(Pair("artifact 2", kB), Pair("artifact 2", kA), Pair("artifact 1", kB),
                                  Pair("artifact 1", kA), Pair("artifact 0", kB), Pair("artifact 0", kA)));
    ListQuery artifact;
    artifact.project = kA;
    artifact.filter = "id = \"artifact 1\"";
    EXPECT_THAT(idsOf(r.listArtifacts(artifact)), ElementsAre("artifact 1"));

    for (const char* order : {"", "name desc", "project, name", "summary"}) {
      std::vector<std::string> names;
      ListQuery targets;
      targets.project = kA;
      targets.page_size = 2;
      targets.order_by = order;
      do {
        const absl::StatusOr<Page<StoredTarget>> page = r.listTargets(targets);
        EXPECT_TRUE(page.ok()) << page.status();
        for (const StoredTarget& stored : page->items) names.push_back(stored.project + ":" + stored.target.name());
        targets.page_token = page->next_page_token;
      } while (!targets.page_token.empty());
      EXPECT_THAT(names, UnorderedElementsAre("alpha:chip0", "alpha:chip1", ":chip1x", "alpha:chip2")) << order;
    }
    ListQuery targets;
    EXPECT_EQ(r.listTargets(targets)->items.size(), 7u);

    // A page token of one project's list is invalid for another's.
    ListQuery first;
    first.project = kA;
    first.page_size = 1;
    first.page_token = r.listJobs(first)->next_page_token;
    first.project = kB;
    EXPECT_TRUE(absl::IsInvalidArgument(r.listJobs(first).status()));
    return absl::OkStatus();
  }));
}

TEST_P(StoreConformance, EachProjectLearnsFromItsOwnRecords) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    for (const auto& [id, project, ms] : {std::tuple("a1", kA, 3.0), {"a2", kA, 2.0}, {"b1", kB, 1.0}}) {
      v1::TuningRecord record = sampleRecord(id, ms);
      record.set_workload_hash("w");
      record.set_target_name("zen4");
      record.set_project(project);
      EXPECT_TRUE(t.putRecord(record).ok());
    }
    return absl::OkStatus();
  }));
  const auto fastest = [&](const BestQuery& query) {
    std::vector<std::string> ids;
    const auto page = readOne(*store_, [&](Reader& r) { return r.bestRecords(query); });
    EXPECT_TRUE(page.ok()) << page.status();
    for (const BestGroup& group : page->items) {
      for (const v1::TuningRecord& record : group.records) ids.push_back(group.project + ":" + record.id());
    }
    return ids;
  };
  EXPECT_THAT(fastest({.project = kA, .top = 5}), ElementsAre("alpha:a2", "alpha:a1"));
  EXPECT_THAT(fastest({.project = kB, .workloads = {"w"}, .top = 5}), ElementsAre("beta:b1"));
  EXPECT_THAT(fastest({.project = "gamma", .workloads = {"w"}}), IsEmpty());
  EXPECT_THAT(fastest({}), ElementsAre("alpha:a2", "beta:b1")) << "of each";
  const auto counted = [&](const std::string& project) {
    return readOne(*store_, [&](Reader& r) { return r.recordStatistics(project, "", "", 9); })->at(0).records;
  };
  EXPECT_EQ(counted(kA), 2);
  EXPECT_EQ(counted(""), 3);

  // A record that only another project has is imported.
  v1::TuningRecord same = *readOne(*store_, [&](Reader& r) { return r.getRecord("b1"); });
  for (const bool news : {true, false}) {
    ASSERT_OK(store_->transact([&](Transaction& t) {
      same.set_project(kA);
      EXPECT_EQ(*t.mergeRecord(same), news);
      same.set_project(kB);
      EXPECT_FALSE(*t.mergeRecord(same));
      return absl::OkStatus();
    }));
  }
  EXPECT_EQ(counted(kA), 3);
  EXPECT_EQ(counted(kB), 1);
}

TEST_P(StoreConformance, NearestActionsAreTheProjectsOwn) {
  std::vector<v1::KeyComponent> components(1);
  components[0].set_name("model");
  components[0].set_hash("m");
  ASSERT_OK(store_->transact([&](Transaction& t) {
    for (int i = 0; i < 100; ++i) {  // more than the number of candidates per component
      v1::Action action = sampleAction(absl::StrCat("of beta ", i), "", 10 + i);
      action.set_project(kB);
      *action.add_components() = components[0];
      EXPECT_TRUE(t.putAction(action).ok());
    }
    v1::Action own = sampleAction("of alpha", "", 1);
    own.set_project(kA);
    *own.add_components() = components[0];
    return t.putAction(own);
  }));
  const auto nearest = readOne(*store_, [&](Reader& r) { return r.nearestActions(kA, components, 5); });
  ASSERT_OK(nearest.status());
  ASSERT_EQ(nearest->size(), 1u);
  EXPECT_EQ(nearest->front().id(), "of alpha");
}

TEST_P(StoreConformance, BlobsAreReadByWhoHoldsThem) {
  const v1::Digest blob = digestNamed('a', 10), other = digestNamed('b', 5);
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putBlob(blob, "", 1).ok());
    EXPECT_FALSE(*t.mayReadBlob("", blob.sha256()));
    EXPECT_TRUE(t.putBlob(blob, kA, 7).ok());
    EXPECT_TRUE(t.putBlob(blob, kA, 3).ok()) << "again, and its use does not fall";
    return t.putBlob(other, kA, 1);
  }));
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_TRUE(*r.hasBlob(blob.sha256()));
    EXPECT_TRUE(*r.mayReadBlob(kA, blob.sha256()));
    EXPECT_FALSE(*r.mayReadBlob(kB, blob.sha256()));
    EXPECT_EQ(*r.lastUse(Kind::kBlobReference, blobReferenceKey(kA, blob.sha256())), 7);
    EXPECT_TRUE(absl::IsNotFound(r.lastUse(Kind::kBlobReference, blobReferenceKey(kB, blob.sha256())).status()));
    EXPECT_THAT(*r.usedBefore(kA, blob.sha256(), 8), ElementsAre(Kind::kBlob, Kind::kBlobReference));
    EXPECT_THAT(*r.usedBefore(kA, blob.sha256(), 7), ElementsAre(Kind::kBlob)) << "held since";
    EXPECT_THAT(*r.usedBefore(kB, blob.sha256(), 8), ElementsAre(Kind::kBlob)) << "held by another";
    EXPECT_THAT(*r.usedBefore(kA, std::string(64, 'c'), 8), IsEmpty());
    EXPECT_EQ(r.usageOf(kA)->blob_bytes, 15) << "counted once";
    EXPECT_EQ(r.usageOf(kA)->blobs, 2);
    EXPECT_EQ(r.usageOf(kB)->blobs, 0);
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putBlob(blob, kB, 4).ok());
    EXPECT_TRUE(t.touch(Kind::kBlobReference, blobReferenceKey(kB, blob.sha256()), 9).ok());
    return t.erase(Kind::kBlobReference, blobReferenceKey(kA, blob.sha256()));
  }));
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_FALSE(*r.mayReadBlob(kA, blob.sha256()));
    EXPECT_TRUE(*r.mayReadBlob(kB, blob.sha256())) << "one's reference is not another's";
    EXPECT_EQ(*r.lastUse(Kind::kBlobReference, blobReferenceKey(kB, blob.sha256())), 9);
    EXPECT_EQ(r.usageOf(kA)->blob_bytes, 5);
    std::vector<std::string> holds;
    EXPECT_TRUE(r.forEach(Kind::kBlobReference, [&](const Stored& stored) {
                   EXPECT_EQ(static_cast<const v1::Digest*>(stored.message)->size_bytes(),
                             stored.id == blobReferenceKey(kA, other.sha256()) ? 5 : 10);
                   holds.push_back(stored.id);
                   return absl::OkStatus();
                 }).ok());
    EXPECT_THAT(holds, UnorderedElementsAre(blobReferenceKey(kA, other.sha256()), blobReferenceKey(kB, blob.sha256())));
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->transact([&](Transaction& t) { return t.erase(Kind::kBlob, blob.sha256()); }));
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_FALSE(*r.mayReadBlob(kB, blob.sha256())) << "it goes with the blob";
    EXPECT_EQ(r.usageOf(kB)->blob_bytes, 0);
    return absl::OkStatus();
  }));
}

TEST_P(StoreConformance, LivingJobsAreCounted) {
  const auto counts = [&](const std::string& project) {
    const Usage usage = *readOne(*store_, [&](Reader& r) { return r.usageOf(project); });
    return std::pair(usage.queued_jobs, usage.running_jobs);
  };
  const auto become = [&](v1::Job::State state) {
    ASSERT_OK(store_->transact([&](Transaction& t) {
      v1::Job job = *t.getJob("j1");
      job.set_state(state);
      return t.updateJob(job);
    }));
  };
  ASSERT_OK(store_->transact([&](Transaction& t) {
    for (const char* id : {"j1", "j2", "j3"}) {
      v1::Job job = sampleJob(id);
      job.set_project(kA);
      if (id == std::string("j3")) job.set_state(v1::Job::SUCCEEDED);
      EXPECT_TRUE(t.insertJob(job, "h", "").ok());
    }
    return absl::OkStatus();
  }));
  EXPECT_THAT(counts(kA), Pair(2, 0));
  EXPECT_THAT(counts(kB), Pair(0, 0));
  become(v1::Job::RUNNING);
  EXPECT_THAT(counts(kA), Pair(1, 1));
  become(v1::Job::RUNNING);
  EXPECT_THAT(counts(kA), Pair(1, 1));
  EXPECT_FALSE(store_
                   ->transact([&](Transaction& t) {
                     v1::Job job = *t.getJob("j2");
                     job.set_state(v1::Job::RUNNING);
                     EXPECT_TRUE(t.updateJob(job).ok());
                     return absl::AbortedError("not so");
                   })
                   .ok());
  EXPECT_THAT(counts(kA), Pair(1, 1)) << "what is rolled back does not count";
  become(v1::Job::FAILED);
  EXPECT_THAT(counts(kA), Pair(1, 0));
  ASSERT_OK(store_->transact([](Transaction& t) {
    EXPECT_TRUE(t.erase(Kind::kJob, "j3").ok());
    return t.erase(Kind::kJob, "j2");
  }));
  EXPECT_THAT(counts(kA), Pair(0, 0));
}

}  // namespace
}  // namespace tessera::storage
