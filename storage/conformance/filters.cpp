// Meaning of filters, for each field of each entity.
#include "absl/strings/str_join.h"
#include "storage/conformance/samples.h"

namespace tessera::storage {
namespace {

/// A filter and the ids (or names) that it selects, in ascending order.
struct Expectation {
  const char* filter;
  const char* selected;
};

template <typename Message>
std::string selected(const absl::StatusOr<Page<Message>>& page) {
  if (!page.ok()) return std::string(page.status().message());
  return absl::StrJoin(page->items, " ", [](std::string* out, const Message& message) {
    if constexpr (std::is_same_v<Message, StoredTarget>) {
      out->append(message.target.name());
    } else {
      out->append(message.id());
    }
  });
}

ListQuery by(const char* key, const char* filter) {
  return {.page_size = 0, .page_token = "", .filter = filter, .order_by = key};
}

TEST_P(StoreConformance, JobFilters) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    v1::Job a = sampleJob("a", 1'000'000);
    a.set_state(v1::Job::SUCCEEDED);
    a.set_end_time_us(5);
    a.set_cached(true);
    a.set_action_key("k1");
    a.mutable_compile()->set_name("ResNet-50");
    v1::Job b = sampleJob("b", 2'000'000);
    b.set_priority(7);
    b.mutable_compile()->set_name("resnet*[18]");
    b.mutable_compile()->mutable_target()->mutable_inline_()->set_name("edge");
    v1::Job c = sampleJob("c", 3'000'000);
    c.set_request_id("nightly");
    c.mutable_execute()->set_artifact_id("x");
    v1::Job d = sampleJob("d", 4'000'000);
    d.mutable_profile()->set_artifact_id("x");
    d.set_state(v1::Job::FAILED);
    d.set_priority(-2);
    for (const v1::Job& job : {a, b, c, d}) EXPECT_TRUE(t.insertJob(job, "h", "").ok());
    return absl::OkStatus();
  }));
  const Expectation expectations[] = {
      {"", "a b c d"},
      {"id = b", "b"},
      {"id >= b AND id < d", "b c"},
      {"id != b", "a c d"},
      {"state = SUCCEEDED", "a"},
      {"state != SUCCEEDED", "b c d"},
      {"state : failed OR state : queued", "b c d"},
      {"kind = COMPILE", "a b"},
      {"kind = EXECUTE OR kind = PROFILE", "c d"},
      {"target = cascadelake", "a"},
      {"target = edge", "b"},
      {"target : *", "a b"},
      {"name = ResNet-50", "a"},
      {"name = resnet-50", ""},
      {"name : RESNET", "a b"},
      {"name : \"-\"", "a"},
      {"name = *-*", "a"},
      {"name = ?esNet-50", ""},
      {"name = r*8*", "b"},
      {"name = \"resnet\\*[18]\"", "b"},
      {"name = \"resnet*\\*[18]\"", "b"},
      {"name = \"resnet\\*[17-19]\"", ""},
      {"name : \"*[1\"", "b"},
      {"name != r*", "a c d"},
      {"name = \"\"", "c d"},
      {"request_id = nightly", "c"},
      {"request_id = request-*", "a b d"},
      {"action_key = k1", "a"},
      {"cached = true", "a"},
      {"cached != true", "b c d"},
      {"priority > 0", "b"},
      {"priority <= -2", "d"},
      {"priority : 7", "b"},
      {"create_time > \"1970-01-01T00:00:02Z\"", "c d"},
      {"create_time >= 1970-01-01T00:00:02Z AND create_time < 3000000", "b"},
      {"create_time = 1970-01-01T01:00:04+01:00", "d"},
      {"end_time : *", "a"},
      {"NOT end_time : *", "b c d"},
      {"-(state = FAILED OR cached = true) priority < 5", "c"},
  };
  for (const Expectation& expectation : expectations) {
    EXPECT_EQ(selected(readOne(*store_, [&](Reader& r) { return r.listJobs(by("id", expectation.filter)); })),
              expectation.selected)
        << expectation.filter;
  }
}

TEST_P(StoreConformance, JobsAreFoundByTheirLabels) {
  const std::pair<const char*, std::map<std::string, std::string>> jobs[] = {
      {"a", {{"team", "vision"}, {"run", "7"}}},
      {"b", {{"team", "vision2"}}},
      {"c", {{"steam", "vision"}, {"note", "a \"b\" = c*"}}},
      {"d", {}},
  };
  for (const auto& [id, labels] : jobs) {
    v1::Job job = sampleJob(id);
    job.mutable_labels()->insert(labels.begin(), labels.end());
    ASSERT_OK(store_->transact([&](Transaction& t) { return t.insertJob(job, "h", ""); }));
  }
  const Expectation expectations[] = {
      {"labels.team = vision", "a"},      {"labels.team : vision2", "b"},
      {"labels.team != vision", "b c d"}, {"labels.team : *", "a b"},
      {"NOT labels.team : *", "c d"},     {"labels.run = 7 AND labels.team = vision", "a"},
      {"labels.run = \"\"", ""},          {"labels.note = \"a \\\"b\\\" = c\\*\"", "c"},
      {"labels.eam = vision", ""},
  };
  for (const Expectation& expectation : expectations) {
    EXPECT_EQ(selected(readOne(*store_, [&](Reader& r) { return r.listJobs(by("id", expectation.filter)); })),
              expectation.selected)
        << expectation.filter;
  }
  for (const char* wrong : {"labels = vision", "labels.team = vis*", "labels.team > vision"}) {
    EXPECT_TRUE(
        absl::IsInvalidArgument(readOne(*store_, [&](Reader& r) { return r.listJobs(by("id", wrong)); }).status()))
        << wrong;
  }
  EXPECT_TRUE(
      absl::IsInvalidArgument(readOne(*store_, [&](Reader& r) { return r.listJobs(by("labels.team", "")); }).status()));
}

TEST_P(StoreConformance, TasksAreListed) {
  ASSERT_OK(store_->transact([](Transaction& t) {
    for (int i = 0; i < 4; ++i) {
      v1::Task task = sampleTask(std::string(1, static_cast<char>('a' + i)), i % 2 ? v1::BUILD : v1::PLAN, i);
      task.set_create_time_us(10 + i);
      task.set_worker_id(i == 3 ? "w" : "");
      task.set_state(i == 3 ? v1::Task::LEASED : v1::Task::READY);
      task.set_project(i == 0 ? "vision" : "");
      EXPECT_TRUE(t.putTask(task).ok());
    }
    v1::Task done = sampleTask("c", v1::PLAN, 2);
    done.set_create_time_us(12);
    done.set_state(v1::Task::DONE);
    done.set_worker_id("w");
    return t.putTask(done);
  }));
  const Expectation expectations[] = {
      {"", "a b c d"},
      {"kind = BUILD", "b d"},
      {"state = DONE", "c"},
      {"worker = w", "c d"},
      {"create_time > 11", "c d"},
      {"project = vision", "a"},
      {"priority >= 2", "c d"},
      {"id = b", "b"},
  };
  for (const Expectation& expectation : expectations) {
    EXPECT_EQ(selected(readOne(*store_, [&](Reader& r) { return r.listTasks(by("id", expectation.filter)); })),
              expectation.selected)
        << expectation.filter;
  }
  ListQuery own = by("id", "");
  own.project = "vision";
  EXPECT_EQ(selected(readOne(*store_, [&](Reader& r) { return r.listTasks(own); })), "a");
}

TEST_P(StoreConformance, JobFiltersFollowUpdates) {
  ASSERT_OK(store_->transact([](Transaction& t) { return t.insertJob(sampleJob("a"), "h", ""); }));
  v1::Job changed = sampleJob("a", 9);
  changed.set_state(v1::Job::FAILED);
  changed.set_priority(3);
  changed.set_end_time_us(11);
  changed.set_cached(true);
  changed.set_action_key("k");
  changed.mutable_compile()->set_name("other");
  changed.mutable_compile()->mutable_target()->set_name("zen4");
  ASSERT_OK(store_->transact([&](Transaction& t) { return t.updateJob(changed); }));
  const char* filter =
      "state=FAILED priority=3 end_time=11 cached=true action_key=k name=other target=zen4 create_time=9 kind=COMPILE";
  EXPECT_EQ(selected(readOne(*store_, [&](Reader& r) { return r.listJobs(by("id", filter)); })), "a");
}

TEST_P(StoreConformance, ArtifactFilters) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    v1::Artifact a = sampleArtifact("a", "k1", 10);
    a.set_job_id("j1");
    a.mutable_manifest()->set_name("bert");
    a.mutable_manifest()->set_target_name("zen4");
    a.mutable_manifest()->set_model_sha256("m1");
    EXPECT_TRUE(t.putArtifact(a).ok());
    return t.putArtifact(sampleArtifact("b", "k2", 20));
  }));
  const Expectation expectations[] = {{"", "a b"},           {"id = a", "a"},          {"name = bert", "a"},
                                      {"target : zen", "a"}, {"model = m1", "a"},      {"job = j1", "a"},
                                      {"job != j1", "b"},    {"create_time > 10", "b"}};
  for (const Expectation& expectation : expectations) {
    EXPECT_EQ(selected(readOne(*store_, [&](Reader& r) { return r.listArtifacts(by("id", expectation.filter)); })),
              expectation.selected)
        << expectation.filter;
  }
}

TEST_P(StoreConformance, RecordFilters) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    v1::TuningRecord a = sampleRecord("a", 0.25, 10);
    a.set_workload_hash("w1");
    a.set_workload_summary("conv2d 3x3");
    a.mutable_workload_shape()->set_operators("conv2d + relu");
    a.set_target_name("zen4");
    a.set_hostname("host1");
    a.set_job_id("j1");
    a.set_artifact_id("x1");
    a.set_mode("search");
    a.set_validation("passed");
    a.set_threads(4);
    EXPECT_TRUE(t.putRecord(a).ok());
    return t.putRecord(sampleRecord("b", 1.5, 20));
  }));
  const Expectation expectations[] = {{"workload = w1", "a"},      {"summary : \"CONV2D\"", "a"},
                                      {"target = zen4", "a"},      {"host = host1", "a"},
                                      {"job = j1", "a"},           {"artifact = x1", "a"},
                                      {"mode = search", "a"},      {"validation = passed", "a"},
                                      {"threads = 4", "a"},        {"median_ms < 1", "a"},
                                      {"median_ms >= .25", "a b"}, {"median_ms = 1.5e0", "b"},
                                      {"create_time >= 20", "b"},  {"median_ms : *", "a b"},
                                      {"threads : *", "a"},        {"operators = \"conv2d + relu\"", "a"}};
  for (const Expectation& expectation : expectations) {
    EXPECT_EQ(selected(readOne(*store_, [&](Reader& r) { return r.listRecords(by("id", expectation.filter)); })),
              expectation.selected)
        << expectation.filter;
  }
}

TEST_P(StoreConformance, TargetAndWorkerFilters) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    v1::Target lake;
    lake.set_name("cascadelake");
    lake.set_family(v1::Target::X86_64);
    v1::Target edge;
    edge.set_name("edge");
    edge.set_summary("the small one");
    edge.set_family(v1::Target::SPATIAL);
    EXPECT_TRUE(t.putTarget(kDefaultProject, edge).ok());
    EXPECT_TRUE(t.putTarget(kDefaultProject, lake).ok());
    v1::Worker worker;
    worker.set_id("w1");
    worker.set_state(v1::Worker::DRAINING);
    worker.set_compiler_version("0.1.0");
    worker.set_last_seen_us(77);
    worker.mutable_host()->set_hostname("rack7");
    v1::Worker idle;
    idle.set_id("w2");
    idle.set_state(v1::Worker::IDLE);
    EXPECT_TRUE(t.putWorker(idle).ok());
    return t.putWorker(worker);
  }));
  const Expectation targets[] = {{"", "cascadelake edge"},
                                 {"family = X86_64 AND name : lake", "cascadelake"},
                                 {"family = SPATIAL", "edge"},
                                 {"summary : small", "edge"},
                                 {"name = *e", "cascadelake edge"}};
  for (const Expectation& expectation : targets) {
    EXPECT_EQ(selected(readOne(*store_, [&](Reader& r) { return r.listTargets(by("name", expectation.filter)); })),
              expectation.selected)
        << expectation.filter;
  }
  const Expectation workers[] = {{"", "w1 w2"},
                                 {"state = DRAINING", "w1"},
                                 {"id = w2", "w2"},
                                 {"host = rack7", "w1"},
                                 {"compiler_version = \"0.1.*\"", "w1"},
                                 {"last_seen_time > 76", "w1"}};
  for (const Expectation& expectation : workers) {
    EXPECT_EQ(selected(readOne(*store_, [&](Reader& r) { return r.listWorkers(by("id", expectation.filter)); })),
              expectation.selected)
        << expectation.filter;
  }
}

}  // namespace
}  // namespace tessera::storage
