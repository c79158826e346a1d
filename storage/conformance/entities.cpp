// Each entity is returned as it was put; put replaces by id; absent ones are NOT_FOUND.
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "storage/conformance/samples.h"

namespace tessera::storage {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::ElementsAre;

std::vector<std::string> idsOf(const auto& messages) {
  std::vector<std::string> ids;
  for (const auto& message : messages) ids.push_back(message.id());
  return ids;
}

TEST_P(StoreConformance, JobsComeBackAsTheyWerePut) {
  v1::Job job = sampleJob("j1", 7);
  job.mutable_compile()->mutable_model()->set_sha256(std::string(64, 'a'));
  ASSERT_OK(store_->transact([&](Transaction& t) {
    absl::Status status = t.putAction(sampleAction("a1", "key"));
    return status.ok() ? t.insertJob(job, "hash", "a1") : status;
  }));
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_TRUE(MessageDifferencer::Equals(*r.getJob("j1"), job));
    EXPECT_TRUE(MessageDifferencer::Equals(*r.getJobByRequestId(kDefaultProject, "request-j1"), job));
    EXPECT_EQ(*r.getRequestHash("j1"), "hash");
    EXPECT_EQ(*r.getActionOfJob("j1"), "a1");
    EXPECT_TRUE(absl::IsNotFound(r.getJob("j2").status()));
    EXPECT_TRUE(absl::IsNotFound(r.getJobByRequestId(kDefaultProject, "").status()));
    EXPECT_TRUE(absl::IsNotFound(r.getRequestHash("j2").status()));
    EXPECT_TRUE(absl::IsNotFound(r.getActionOfJob("j2").status()));
    return absl::OkStatus();
  }));
}

TEST_P(StoreConformance, JobIdsAndRequestIdsAreTakenOnce) {
  ASSERT_OK(store_->transact([&](Transaction& t) { return t.insertJob(sampleJob("j1"), "h", ""); }));
  v1::Job other = sampleJob("j2");
  other.set_request_id("request-j1");
  v1::Job anonymous = sampleJob("j3");
  anonymous.set_request_id("");
  v1::Job anonymous2 = sampleJob("j4");
  anonymous2.set_request_id("");
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(absl::IsAlreadyExists(t.insertJob(sampleJob("j1"), "h", "")));
    EXPECT_TRUE(absl::IsAlreadyExists(t.insertJob(other, "h", "")));
    EXPECT_TRUE(t.insertJob(anonymous, "h", "").ok());
    EXPECT_TRUE(t.insertJob(anonymous2, "h", "").ok());
    EXPECT_TRUE(absl::IsNotFound(t.updateJob(other)));
    EXPECT_TRUE(absl::IsFailedPrecondition(t.insertJob(sampleJob("j5"), "h", "no such action")));
    EXPECT_TRUE(absl::IsInvalidArgument(t.insertJob(v1::Job(), "h", "")));
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_TRUE(absl::IsNotFound(r.getJob("j2").status()));
    EXPECT_TRUE(absl::IsNotFound(r.getJob("j5").status()));
    EXPECT_TRUE(r.getJob("j3").ok());
    EXPECT_EQ(*r.getActionOfJob("j1"), "");
    return absl::OkStatus();
  }));
}

TEST_P(StoreConformance, LivingJobsAndDeadlinesFollowTheState) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putAction(sampleAction("a", "key")).ok());
    for (int i = 0; i < 4; ++i) {
      v1::Job job = sampleJob("j" + std::to_string(i));
      job.set_queue_deadline_us(i == 3 ? 0 : 100 + i);
      job.set_deadline_us(i == 3 ? 0 : 300 - i);
      EXPECT_TRUE(t.insertJob(job, "h", "a").ok());
    }
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_THAT(idsOf(*r.liveJobsOfAction("a")), ElementsAre("j0", "j1", "j2", "j3"));
    EXPECT_THAT(*r.jobsPastQueueDeadline(101), ElementsAre("j0", "j1"));
    EXPECT_THAT(*r.jobsPastQueueDeadline(99), ElementsAre());
    EXPECT_THAT(*r.jobsPastDeadline(299), ElementsAre("j2", "j1"));
    EXPECT_THAT(*r.jobsPastDeadline(297), ElementsAre());
    EXPECT_EQ(*r.firstLiveJobOfAction("a"), "j0");
    EXPECT_TRUE(absl::IsNotFound(r.firstLiveJobOfAction("none").status()));
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->transact([&](Transaction& t) {
    v1::Job job = *t.getJob("j0");
    job.set_state(v1::Job::RUNNING);
    EXPECT_TRUE(t.updateJob(job).ok());
    job = *t.getJob("j1");
    job.set_state(v1::Job::CANCELLED);
    EXPECT_TRUE(t.updateJob(job).ok());
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_THAT(idsOf(*r.liveJobsOfAction("a")), ElementsAre("j0", "j2", "j3"));
    EXPECT_THAT(*r.jobsPastQueueDeadline(1000), ElementsAre("j2"));
    EXPECT_THAT(*r.jobsPastDeadline(1000), ElementsAre("j2", "j0")) << "a running job has one as well";
    EXPECT_EQ(*r.getRequestHash("j1"), "h");
    EXPECT_EQ(*r.getActionOfJob("j1"), "a");
    return absl::OkStatus();
  }));
}

TEST_P(StoreConformance, LivingActionsAreFoundByKey) {
  v1::Action action = sampleAction("a1", "key");
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putAction(action).ok());
    return t.putAction(sampleAction("keyless", ""));
  }));
  EXPECT_EQ(readOne(*store_, [](Reader& r) { return r.liveActionsByKey("key"); })->front().id(), "a1");
  EXPECT_TRUE(readOne(*store_, [](Reader& r) { return r.liveActionsByKey(""); })->empty());
  action.set_state(v1::Job::SUCCEEDED);
  ASSERT_OK(store_->transact([&](Transaction& t) { return t.putAction(action); }));
  EXPECT_TRUE(readOne(*store_, [](Reader& r) { return r.liveActionsByKey("key"); })->empty());
  EXPECT_EQ(readOne(*store_, [](Reader& r) { return r.getAction("a1"); })->state(), v1::Job::SUCCEEDED);
}

TEST_P(StoreConformance, NearestActionsShareMostComponents) {
  const auto with = [](v1::Action action, const std::string& model, const std::string& target) {
    for (const auto& [name, hash] : {std::pair{"model", model}, {"target", target}, {"compiler", std::string("1")}}) {
      v1::KeyComponent* component = action.add_components();
      component->set_name(name);
      component->set_hash(hash);
    }
    return action;
  };
  const v1::Action asked = with(sampleAction("asked", "k"), "resnet", "haswell");
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putAction(with(sampleAction("both", "k1", 1), "resnet", "haswell")).ok());
    EXPECT_TRUE(t.putAction(with(sampleAction("model", "k2", 2), "resnet", "zen4")).ok());
    EXPECT_TRUE(t.putAction(with(sampleAction("neither", "k3", 3), "bert", "zen4")).ok());
    EXPECT_TRUE(t.putAction(with(sampleAction("neither", "k3", 4), "bert", "zen4")).ok());
    return t.putAction(sampleAction("empty", "k4", 5));
  }));
  const std::vector<v1::KeyComponent> components(asked.components().begin(), asked.components().end());
  EXPECT_THAT(idsOf(*readOne(*store_, [&](Reader& r) { return r.nearestActions(kDefaultProject, components, 10); })),
              ElementsAre("both", "model", "neither"));
  EXPECT_THAT(idsOf(*readOne(*store_, [&](Reader& r) { return r.nearestActions(kDefaultProject, components, 1); })),
              ElementsAre("both"));
}

TEST_P(StoreConformance, OneArtifactMayServeSeveralKeys) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putArtifact(sampleArtifact("x", "key1", 1)).ok());
    EXPECT_TRUE(t.putArtifact(sampleArtifact("x", "key2", 2)).ok());
    EXPECT_TRUE(t.putArtifact(sampleArtifact("newer", "key1", 3)).ok());
    return t.putArtifact(sampleArtifact("keyless", "", 4));
  }));
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_EQ(r.artifactByKey("key1")->id(), "newer");
    EXPECT_EQ(r.artifactByKey("key2")->id(), "x");
    EXPECT_TRUE(absl::IsNotFound(r.artifactByKey("").status()));
    EXPECT_EQ(r.getArtifact(kDefaultProject, "x")->create_time_us(), 2);
    return absl::OkStatus();
  }));
}

TEST_P(StoreConformance, PutsAreIdempotentAndReplace) {
  v1::Target target;
  target.set_name("edge");
  v1::Worker worker;
  worker.set_id("w");
  v1::Digest digest;
  digest.set_sha256(std::string(64, 'b'));
  digest.set_size_bytes(5);
  for (int round = 0; round < 3; ++round) {
    target.set_summary("round " + std::to_string(round));
    worker.set_tasks_done(round);
    ASSERT_OK(store_->transact([&](Transaction& t) {
      EXPECT_TRUE(t.putTarget(kDefaultProject, target).ok());
      EXPECT_TRUE(t.putWorker(worker).ok());
      EXPECT_TRUE(t.putBlob(digest, kDefaultProject).ok());
      EXPECT_TRUE(t.putObject("build", digest).ok());
      EXPECT_TRUE(t.putRecord(sampleRecord("r", round)).ok());
      EXPECT_TRUE(t.putAction(sampleAction("a", "key")).ok());
      EXPECT_TRUE(t.putTask(sampleTask("t")).ok());
      return t.linkTask("a", "t");
    }));
  }
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_EQ(r.getTarget(kDefaultProject, "edge")->summary(), "round 2");
    EXPECT_EQ(r.getWorker("w")->tasks_done(), 2);
    EXPECT_TRUE(*r.hasBlob(digest.sha256()));
    EXPECT_FALSE(*r.hasBlob(std::string(64, 'c')));
    EXPECT_EQ(r.getObject("build")->sha256(), digest.sha256());
    EXPECT_EQ(r.getObject("build")->size_bytes(), 5);
    EXPECT_TRUE(absl::IsNotFound(r.getObject("other").status()));
    EXPECT_EQ(r.listRecords({})->items.size(), 1u);
    EXPECT_EQ(r.listRecords({})->items[0].median_ms(), 2);
    EXPECT_EQ(r.listTargets({})->items.size(), 1u);
    EXPECT_EQ(r.listWorkers({})->items.size(), 1u);
    EXPECT_THAT(*r.actionsOfTask("t"), ElementsAre("a"));
    EXPECT_THAT(idsOf(*r.tasksOfAction("a")), ElementsAre("t"));
    return absl::OkStatus();
  }));
  EXPECT_TRUE(absl::IsInvalidArgument(
      store_->transact([](Transaction& t) { return t.putBlob(v1::Digest(), kDefaultProject); })));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(store_->transact([](Transaction& t) { return t.linkTask("a", "no such task"); })));
}

TEST_P(StoreConformance, TokensComeBackAsTheyWerePut) {
  const auto token = [](const std::string& id, const std::string& hash, int64_t revoked_us) {
    StoredToken stored;
    stored.token.set_id(id);
    stored.token.set_name("ada");
    stored.token.set_role(v1::CLIENT);
    stored.token.set_revoke_time_us(revoked_us);
    stored.sha256 = hash;
    return stored;
  };
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putToken(token("t2", "second", 0)).ok());
    EXPECT_TRUE(t.putToken(token("t1", "first", 0)).ok());
    EXPECT_TRUE(t.putToken(token("t2", "second", 7)).ok());
    EXPECT_TRUE(absl::IsInvalidArgument(t.putToken(token("", "third", 0))));
    EXPECT_TRUE(absl::IsAlreadyExists(t.putToken(token("t3", "first", 0)))) << "a secret is one token's";
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->read([&](Reader& r) {
    const auto tokens = r.tokens();
    EXPECT_TRUE(tokens.ok());
    if (!tokens.ok()) return tokens.status();
    EXPECT_EQ(tokens->size(), 2u);
    if (tokens->size() != 2) return absl::OkStatus();
    EXPECT_TRUE(MessageDifferencer::Equals((*tokens)[0].token, token("t1", "first", 0).token));
    EXPECT_TRUE(MessageDifferencer::Equals((*tokens)[1].token, token("t2", "second", 7).token));
    EXPECT_EQ((*tokens)[1].sha256, "second");
    return absl::OkStatus();
  }));
}

TEST_P(StoreConformance, BytesOfSmallBlobsAreRows) {
  const std::string zeros("a\0b", 3), a(64, 'a'), b(64, 'b'), c(64, 'c');
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_OK(t.putBlobBytes(b, zeros, 7));
    EXPECT_OK(t.putBlobBytes(a, "", 8));
    EXPECT_OK(t.putBlobBytes(c, std::string(70'000, 'c'), 9));
    EXPECT_OK(t.putBlobBytes(b, "others", 10));
    return absl::OkStatus();
  }));
  EXPECT_TRUE(absl::IsAborted(store_->transact([&](Transaction& t) {
    EXPECT_OK(t.eraseBlobBytes(c));
    EXPECT_OK(t.putBlobBytes(std::string(64, 'd'), "d", 9));
    return absl::AbortedError("on purpose");
  })));
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_EQ(*r.blobBytes(b), zeros) << "the first stay";
    EXPECT_EQ(*r.blobBytesSize(b), 3);
    EXPECT_EQ(*r.blobBytes(a), "");
    EXPECT_EQ(*r.rowBlobBytes(), 70'003);
    EXPECT_TRUE(absl::IsNotFound(r.blobBytes(std::string(64, 'd')).status()));
    EXPECT_TRUE(absl::IsNotFound(r.blobBytesSize(std::string(64, 'd')).status()));
    EXPECT_FALSE(*r.hasBlob(b)) << "another row says whether it is there";
    const auto first = r.rowBlobsAfter("", 2);
    EXPECT_EQ(first->size(), 2u);
    EXPECT_EQ(first->at(1).sha256, b);
    EXPECT_EQ(first->at(1).size, 3);
    EXPECT_EQ(first->at(1).time_s, 7);
    const auto rest = r.rowBlobsAfter(b, 2);
    EXPECT_EQ(rest->size(), 1u);
    EXPECT_EQ(rest->at(0).sha256, c);
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->transact([&](Transaction& t) { return t.eraseBlobBytes(c); }));
  EXPECT_EQ(*readOne(*store_, [](Reader& r) { return r.rowBlobBytes(); }), 3);
  EXPECT_OK(store_->transact([&](Transaction& t) { return t.eraseBlobBytes(c); }));
}

}  // namespace
}  // namespace tessera::storage
