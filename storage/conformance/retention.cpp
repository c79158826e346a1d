// Deletion takes along exactly what belonged to the item alone; last uses only increase; pinned items stay.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "storage/conformance/samples.h"
#include "storage/snapshots.h"

namespace tessera::storage {
namespace {

using testing::UnorderedElementsAre;

std::vector<std::string> idsOf(Reader& reader, Kind kind) {
  std::vector<std::string> ids;
  const absl::Status status = reader.forEach(kind, [&](const Stored& stored) {
    EXPECT_NE(stored.message, nullptr);
    ids.push_back(stored.id);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return ids;
}

TEST_P(StoreConformance, AJobTakesAlongWhatWasItsAlone) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    for (const char* action : {"own", "shared"}) EXPECT_TRUE(t.putAction(sampleAction(action, action)).ok());
    EXPECT_TRUE(t.insertJob(sampleJob("j1"), "h", "own").ok());
    EXPECT_TRUE(t.insertJob(sampleJob("j2"), "h", "shared").ok());
    EXPECT_TRUE(t.insertJob(sampleJob("j3"), "h", "shared").ok());
    for (const char* task : {"t1", "t2"}) EXPECT_TRUE(t.putTask(sampleTask(task, v1::BUILD)).ok());
    EXPECT_TRUE(t.linkTask("own", "t1").ok());
    EXPECT_TRUE(t.linkTask("own", "t2").ok());
    EXPECT_TRUE(t.linkTask("shared", "t2").ok());
    v1::JobEvent event;
    for (const char* job : {"j1", "j1", "j2"}) {
      event.set_job_id(job);
      EXPECT_TRUE(t.appendEvent(event).ok());
    }
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_EQ(*t.eventCount("j1"), 2);
    EXPECT_TRUE(t.erase(Kind::kJob, "j1").ok());
    EXPECT_TRUE(t.erase(Kind::kJob, "j2").ok());
    EXPECT_TRUE(t.erase(Kind::kJob, "no such job").ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(t.erase(Kind::kTask, "t2"))) << "it goes with its job";
    EXPECT_TRUE(absl::IsFailedPrecondition(t.erase(Kind::kAction, "shared"))) << "so does the action of one";
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_THAT(idsOf(r, Kind::kJob), UnorderedElementsAre("j3"));
    EXPECT_THAT(idsOf(r, Kind::kAction), UnorderedElementsAre("shared"));
    EXPECT_THAT(idsOf(r, Kind::kTask), UnorderedElementsAre("t2"));
    EXPECT_EQ(*r.eventCount("j1"), 0);
    EXPECT_TRUE(absl::IsNotFound(r.getJobByRequestId(kDefaultProject, "request-j1").status()));
    EXPECT_TRUE(r.liveActionsByKey("own")->empty());
    EXPECT_EQ(r.liveActionsByKey("shared")->size(), 1u);
    EXPECT_EQ(*r.queueLength(), 1);
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->transact([&](Transaction& t) { return t.insertJob(sampleJob("j1"), "h", "shared"); }));
}

TEST_P(StoreConformance, LogsAndVersionsAreInOrderAndGoWithTheirOwners) {
  v1::SearchEntry entry;
  v1::ArtifactRollout series;
  v1::ArtifactVersion version;
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(absl::IsFailedPrecondition(t.appendToSearch("search", entry))) << "there is no such action";
    EXPECT_TRUE(absl::IsFailedPrecondition(t.putRollout(series)));
    for (const char* id : {"search", "other", "own"}) EXPECT_TRUE(t.putAction(sampleAction(id, id)).ok());
    EXPECT_TRUE(t.insertJob(sampleJob("j1"), "h", "own").ok());
    for (uint64_t trees : {7, 8, 9}) {
      entry.mutable_batch()->set_trees(trees);
      EXPECT_TRUE(t.appendToSearch("search", entry).ok());
    }
    EXPECT_TRUE(t.appendToSearch("other", entry).ok());
    series.set_job_id("j1");
    series.set_versions(3);
    EXPECT_TRUE(t.putRollout(series).ok());
    version.set_job_id("j1");
    for (int number : {1, 2, 3}) {
      version.set_number(number);
      version.set_artifact_id("artifact " + std::to_string(number));
      EXPECT_TRUE(t.putVersion(version).ok());
    }
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->read([&](Reader& r) {
    auto log = r.searchLog("search");
    EXPECT_EQ(log->size(), 3u);
    for (size_t i = 0; i < log->size(); ++i) EXPECT_EQ((*log)[i].batch().trees(), 7 + i);
    EXPECT_EQ(r.getRollout("j1")->versions(), 3);
    EXPECT_TRUE(absl::IsNotFound(r.getRollout("j2").status()));
    auto versions = r.versionsAfter("j1", 1, 1);
    EXPECT_EQ(versions->size(), 1u);
    EXPECT_EQ((*versions)[0].artifact_id(), "artifact 2");
    EXPECT_EQ(r.versionsAfter("j1", 0, 10)->size(), 3u);
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.erase(Kind::kAction, "search").ok());
    EXPECT_TRUE(t.erase(Kind::kJob, "j1").ok());
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_TRUE(r.searchLog("search")->empty());
    EXPECT_EQ(r.searchLog("other")->size(), 1u);
    EXPECT_TRUE(absl::IsNotFound(r.getRollout("j1").status()));
    EXPECT_TRUE(r.versionsAfter("j1", 0, 10)->empty());
    return absl::OkStatus();
  }));
}

TEST_P(StoreConformance, WhatIsErasedIsGoneAndCanComeAgain) {
  const std::string sha256(64, 'a');
  v1::Digest digest;
  digest.set_sha256(sha256);
  digest.set_size_bytes(7);
  v1::Artifact artifact;
  artifact.set_id("a1");
  artifact.set_action_key("k1");
  v1::TuningRecord record;
  record.set_id("r1");
  v1::Target target;
  target.set_name("chip");
  v1::Worker worker;
  worker.set_id("w1");
  for (int times = 0; times < 2; ++times) {
    ASSERT_OK(store_->transact([&](Transaction& t) {
      EXPECT_TRUE(t.putBlob(digest, kDefaultProject).ok());
      EXPECT_TRUE(t.putObject("b1", digest).ok());
      EXPECT_TRUE(t.putArtifact(artifact).ok());
      EXPECT_TRUE(t.putRecord(record).ok());
      EXPECT_TRUE(t.putTarget(kDefaultProject, target).ok());
      EXPECT_TRUE(t.putWorker(worker).ok());
      EXPECT_THAT(idsOf(t, Kind::kBlob), UnorderedElementsAre(sha256));
      EXPECT_THAT(idsOf(t, Kind::kObject), UnorderedElementsAre("b1"));
      EXPECT_THAT(idsOf(t, Kind::kArtifact), UnorderedElementsAre("a1"));
      EXPECT_THAT(idsOf(t, Kind::kRecord), UnorderedElementsAre("r1"));
      return absl::OkStatus();
    }));
    ASSERT_OK(store_->transact([&](Transaction& t) {
      const std::pair<Kind, std::string> all[] = {{Kind::kBlob, sha256},   {Kind::kObject, "b1"},
                                                  {Kind::kArtifact, "a1"}, {Kind::kRecord, "r1"},
                                                  {Kind::kTarget, "chip"}, {Kind::kWorker, "w1"}};
      for (const auto& [kind, id] : all) EXPECT_TRUE(t.erase(kind, id).ok());
      return absl::OkStatus();
    }));
    ASSERT_OK(store_->read([&](Reader& r) {
      EXPECT_FALSE(*r.hasBlob(sha256));
      for (const absl::Status& status :
           {r.getObject("b1").status(), r.getArtifact(kDefaultProject, "a1").status(), r.artifactByKey("k1").status(),
            r.getTarget(kDefaultProject, "chip").status(), r.getWorker("w1").status()}) {
        EXPECT_TRUE(absl::IsNotFound(status)) << status;
      }
      return absl::OkStatus();
    }));
  }
}

TEST_P(StoreConformance, ALostBlobIsNotThereUntilItIsPutAgain) {
  const std::string sha256(64, 'a');
  v1::Digest digest;
  digest.set_sha256(sha256);
  digest.set_size_bytes(7);
  const auto isThere = [&] {
    bool there = false;
    EXPECT_OK(store_->read([&](Reader& r) {
      there = *r.hasBlob(sha256);
      EXPECT_EQ(there ? absl::StatusCode::kOk : absl::StatusCode::kNotFound, r.blobSize(sha256).status().code());
      EXPECT_TRUE(!there || *r.blobSize(sha256) == 7);
      return absl::OkStatus();
    }));
    return there;
  };
  const auto put = [&] {
    EXPECT_OK(store_->transact([&](Transaction& t) { return t.putBlob(digest, kDefaultProject, 5); }));
  };
  const auto lose = [&] { EXPECT_OK(store_->transact([&](Transaction& t) { return t.markBlobLost(sha256); })); };
  EXPECT_FALSE(isThere());
  lose();  // no effect on a blob that does not exist
  EXPECT_FALSE(isThere());
  put();
  EXPECT_TRUE(isThere());
  lose();
  EXPECT_FALSE(isThere());
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_THAT(idsOf(r, Kind::kBlob), UnorderedElementsAre(sha256)) << "its row stays";
    EXPECT_TRUE(*r.mayReadBlob(kDefaultProject, sha256)) << "as does who may read it";
    EXPECT_TRUE(r.lastUse(Kind::kBlob, sha256).ok());
    return absl::OkStatus();
  }));
  put();
  EXPECT_TRUE(isThere());
  EXPECT_TRUE(absl::IsCancelled(store_->transact([&](Transaction& t) {
    EXPECT_OK(t.markBlobLost(sha256));
    EXPECT_FALSE(*t.hasBlob(sha256));
    return absl::CancelledError("no");
  })));
  EXPECT_TRUE(isThere()) << "what did not become durable is not lost";
  lose();
  ASSERT_OK(store_->transact([&](Transaction& t) { return t.erase(Kind::kBlob, sha256); }));
  put();
  EXPECT_TRUE(isThere()) << "another one of this name";
}

TEST_P(StoreConformance, ARemovalOfBytesIsAnnounced) {
  v1::Digest digest;
  digest.set_sha256(std::string(64, 'c'));
  const std::string& sha256 = digest.sha256();
  const auto isRemoved = [&] { return *readOne(*store_, [&](Reader& r) { return r.isBlobBeingRemoved(sha256); }); };
  ASSERT_OK(store_->transact([&](Transaction& t) { return t.beginBlobRemoval(sha256); }));
  EXPECT_FALSE(isRemoved()) << "it has no row";
  const auto begin = [&](Transaction& t) -> absl::Status {
    TESSERA_RETURN_IF_ERROR(t.putBlob(digest, kDefaultProject));
    return t.beginBlobRemoval(sha256);
  };
  ASSERT_OK(store_->transact(begin));
  EXPECT_TRUE(isRemoved());
  EXPECT_FALSE(*readOne(*store_, [&](Reader& r) { return r.hasBlob(sha256); }));
  ASSERT_OK(store_->transact([&](Transaction& t) { return t.markBlobLost(sha256); }));
  EXPECT_FALSE(isRemoved()) << "it was given up";
  ASSERT_OK(store_->transact(begin));
  ASSERT_OK(store_->transact([&](Transaction& t) { return t.putBlob(digest, kDefaultProject); }));
  EXPECT_FALSE(isRemoved());
  ASSERT_OK(store_->transact(begin));
  ASSERT_OK(store_->transact([&](Transaction& t) { return t.erase(Kind::kBlob, sha256); }));
  EXPECT_FALSE(isRemoved());
}

TEST_P(StoreConformance, SettingsAreKept) {
  const auto value = [&] { return *readOne(*store_, [](Reader& r) { return r.setting("color"); }); };
  EXPECT_EQ(value(), "");
  ASSERT_OK(store_->transact([](Transaction& t) { return t.putSetting("color", "blue"); }));
  ASSERT_OK(store_->transact([](Transaction& t) { return t.putSetting("color", std::string("gr\0n", 4)); }));
  EXPECT_EQ(value(), std::string("gr\0n", 4));
}

TEST_P(StoreConformance, ItemsAreVisitedInSeveralSnapshots) {
  constexpr int kItems = 2 * kSnapshotItems + 1;
  ASSERT_OK(store_->transact([&](Transaction& t) -> absl::Status {
    for (int i = 0; i < kItems; ++i) {
      TESSERA_RETURN_IF_ERROR(t.insertJob(sampleJob(absl::StrCat("job ", i)), "hash", ""));
      v1::Digest digest;
      digest.set_sha256(sha256Hex(absl::StrCat(i)));
      TESSERA_RETURN_IF_ERROR(t.putBlob(digest, i % 2 == 0 ? "p" : "p-q", 1));
    }
    return absl::OkStatus();
  }));
  for (const Kind kind : {Kind::kJob, Kind::kBlob, Kind::kBlobReference}) {
    std::vector<std::string> ids;
    ASSERT_OK(forEachInSnapshots(*store_, kind, [&](Reader& reader, const Stored& stored) -> absl::Status {
      ids.push_back(stored.id);
      return reader.isPinned(kind, stored.id).status();
    }));
    EXPECT_EQ(ids.size(), kItems);
    ASSERT_OK(store_->read([&](Reader& r) {
      EXPECT_THAT(idsOf(r, kind), testing::UnorderedElementsAreArray(ids));
      return absl::OkStatus();
    }));
  }
  EXPECT_FALSE(
      forEachInSnapshots(*store_, Kind::kTarget, [](Reader&, const Stored&) { return absl::OkStatus(); }).ok());
  EXPECT_TRUE(absl::IsCancelled(
      forEachInSnapshots(*store_, Kind::kJob, [](Reader&, const Stored&) { return absl::CancelledError(); })));
}

TEST_P(StoreConformance, LastUsesOnlyRise) {
  v1::Digest digest;
  digest.set_sha256(std::string(64, 'b'));
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putBlob(digest, kDefaultProject).ok());
    EXPECT_TRUE(t.touch(Kind::kBlob, digest.sha256(), 50).ok());
    EXPECT_TRUE(t.touch(Kind::kBlob, digest.sha256(), 40).ok());
    EXPECT_TRUE(t.touch(Kind::kBlob, std::string(64, 'c'), 40).ok()) << "of what is not there";
    EXPECT_TRUE(t.putBlob(digest, kDefaultProject).ok());
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_EQ(*t.lastUse(Kind::kBlob, digest.sha256()), 50) << "putting it again forgets nothing";
    EXPECT_TRUE(absl::IsNotFound(t.lastUse(Kind::kBlob, std::string(64, 'c')).status()));
    EXPECT_TRUE(absl::IsFailedPrecondition(t.lastUse(Kind::kJob, "j1").status()));
    return t.erase(Kind::kBlob, digest.sha256());
  }));
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putBlob(digest, kDefaultProject).ok());
    EXPECT_EQ(*t.lastUse(Kind::kBlob, digest.sha256()), 0) << "another one of this name";
    return absl::OkStatus();
  }));
}

TEST_P(StoreConformance, PinsStayUntilTheyAreTaken) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.setPin(Kind::kJob, "j1", true).ok());
    return t.setPin(Kind::kJob, "j1", true);
  }));
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_TRUE(*r.isPinned(Kind::kJob, "j1"));
    EXPECT_FALSE(*r.isPinned(Kind::kArtifact, "j1"));
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->transact([&](Transaction& t) { return t.setPin(Kind::kJob, "j1", false); }));
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_FALSE(*r.isPinned(Kind::kJob, "j1"));
    return absl::OkStatus();
  }));
}

}  // namespace
}  // namespace tessera::storage
