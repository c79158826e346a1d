// Jobs by gRPC, against a server in this process and workers in threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/testing/service_bench.h"

namespace tessera::server {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::SizeIs;

/// Timeout, so that a call that hangs fails its test.
void boundByMinutes(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
}

/// Number of tasks of a kind that both workers know to be accepted. A job can end before its worker has the answer to
/// the report, so this waits for the expected number.
int settled(FakeWorkerLoop& one, FakeWorkerLoop& two, v1::TaskKind kind, int expected) {
  const auto done = [&] { return one.done(kind) + two.done(kind); };
  for (int wait = 0; wait < 1000 && done() < expected; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return done();
}

TEST(Jobs, WatchFollowsAJobToItsEnd) {
  ServiceBench bench;
  const v1::Job created = bench.create(bench.compileRequest("r1", "net", "a b c"));
  std::vector<v1::JobEvent> seen;
  std::thread watcher([&] { seen = bench.watch(created.id()); });
  {
    FakeWorkerLoop worker(bench, "w");
    watcher.join();
  }
  ASSERT_FALSE(seen.empty());
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].sequence(), static_cast<int64_t>(i) + 1);
  }
  EXPECT_EQ(seen.back().state().state(), v1::Job::SUCCEEDED);
  // From every cursor the remaining events follow, without gaps or duplicates, and then the end.
  for (size_t cursor = 0; cursor <= seen.size(); ++cursor) {
    const auto rest = bench.watch(created.id(), static_cast<int64_t>(cursor));
    ASSERT_THAT(rest, SizeIs(seen.size() - cursor));
    for (size_t i = 0; i < rest.size(); ++i) {
      EXPECT_EQ(rest[i].SerializeAsString(), seen[cursor + i].SerializeAsString());
    }
  }
}

TEST(Jobs, ARequestBringsItsFiles) {
  ServiceBench bench;
  const std::string model = "model enclosed: a b";
  v1::CreateJobRequest request = bench.compileRequest("r1", "uploaded", "a b");
  *request.mutable_compile()->mutable_model() = digestOf(model);
  v1::EnclosedFile& file = *request.add_files();
  *file.mutable_digest() = digestOf(model);

  const auto refused = [&] {
    grpc::ClientContext context;
    v1::CreateJobResponse response;
    return bench.jobs->CreateJob(&context, request, &response).error_code();
  };
  file.set_data(std::string(model.size(), '?'));
  EXPECT_EQ(refused(), grpc::StatusCode::DATA_LOSS) << "other bytes of that length";
  v1::CreateJobRequest without = request;
  without.clear_files();
  std::swap(request, without);
  EXPECT_EQ(refused(), grpc::StatusCode::NOT_FOUND) << "of what was refused nothing is kept";
  std::swap(request, without);

  request.mutable_files(0)->set_data(model);
  const v1::Job job = bench.create(request);
  EXPECT_EQ(bench.create(without).id(), job.id()) << "the same request, whether it brings its files or not";
  FakeWorkerLoop worker(bench, "w");
  bench.watch(job.id());
  EXPECT_EQ(bench.job(job.id()).state(), v1::Job::SUCCEEDED);
  request.set_request_id("r2");
  EXPECT_TRUE(bench.create(request).cached()) << "what is there already is no trouble";
}

TEST(Jobs, WatchGoesOnAfterARestart) {
  ServiceBench bench;
  const v1::Job created = bench.create(bench.compileRequest("r1", "net", "a b"));
  int64_t cursor = 0;
  {
    grpc::ClientContext context;
    v1::WatchJobRequest request;
    request.set_id(created.id());
    auto reader = bench.jobs->WatchJob(&context, request);
    v1::WatchJobResponse response;
    ASSERT_TRUE(reader->Read(&response));
    cursor = response.event().sequence();
    bench.restart();
    while (reader->Read(&response)) {
      cursor = response.event().sequence();
    }
    EXPECT_FALSE(reader->Finish().ok()) << "the stream breaks off, it does not end";
  }
  FakeWorkerLoop worker(bench, "w");
  const auto rest = bench.watch(created.id(), cursor);
  ASSERT_FALSE(rest.empty());
  EXPECT_EQ(rest.front().sequence(), cursor + 1);
  EXPECT_EQ(rest.back().state().state(), v1::Job::SUCCEEDED);
}

TEST(Jobs, AWaitingWorkerIsWokenByANewTask) {
  ServerOptions options;
  options.rules.lease_us = int64_t{3600} * 1'000'000;  // so that only the notifier can end the wait in time
  ServiceBench bench(options);
  grpc::ClientContext registering;
  v1::RegisterWorkerRequest hello;
  hello.set_worker_id("w");
  hello.set_compiler_version(bench.server->scheduler().rules().compiler_version);
  v1::RegisterWorkerResponse welcome;
  ASSERT_TRUE(bench.workers->RegisterWorker(&registering, hello, &welcome).ok());
  std::atomic<bool> asked = false;
  grpc::Status status;
  v1::LeaseTaskResponse response;
  std::thread waiter([&] {
    grpc::ClientContext context;
    boundByMinutes(context);
    v1::LeaseTaskRequest request;
    request.set_worker_id("w");
    request.set_wait_us(int64_t{1800} * 1'000'000);
    asked = true;
    status = bench.workers->LeaseTask(&context, request, &response);
  });
  while (!asked) {
    std::this_thread::yield();
  }
  (void)bench.create(bench.compileRequest("r1", "net", "a"));
  waiter.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.lease().task().kind(), v1::PLAN);
}

/// A small file needs no call of its own, in either direction.
TEST(Jobs, SmallFilesTravelWithLeaseAndReport) {
  ServiceBench bench;
  const std::string large(100'000, 'l');
  grpc::ClientContext registering, leasing;
  v1::RegisterWorkerRequest hello;
  hello.set_worker_id("w");
  hello.set_compiler_version(bench.server->scheduler().rules().compiler_version);
  v1::RegisterWorkerResponse welcome;
  ASSERT_TRUE(bench.workers->RegisterWorker(&registering, hello, &welcome).ok());
  v1::CreateJobRequest request = bench.compileRequest("r1", "net", "a");
  ASSERT_TRUE(upload(*bench.blobs, large).ok());
  (*request.mutable_compile()->mutable_external_data())["large"] = digestOf(large);
  v1::CreateJobRequest analyze;
  *analyze.mutable_analyze()->mutable_compile() = request.compile();
  analyze.mutable_analyze()->set_question(v1::AnalyzeSpec::CHECK);
  analyze.set_request_id("r2");
  const v1::Job job = bench.create(analyze);
  v1::LeaseTaskRequest ask;
  ask.set_worker_id("w");
  v1::LeaseTaskResponse response;
  ASSERT_TRUE(bench.workers->LeaseTask(&leasing, ask, &response).ok());
  const v1::Lease& lease = response.lease();
  ASSERT_EQ(lease.task().inputs_size(), 2) << lease.ShortDebugString();
  ASSERT_EQ(lease.inputs_size(), 1) << "the large one is asked for";
  EXPECT_EQ(lease.inputs(0).digest().sha256(), request.compile().model().sha256());
  EXPECT_EQ(digestOf(lease.inputs(0).data()).sha256(), request.compile().model().sha256());

  v1::ReportTaskRequest report;
  report.set_worker_id("w");
  report.set_task_id(lease.task_id());
  report.set_fencing_token(lease.fencing_token());
  report.set_secret(lease.secret());
  report.mutable_result()->mutable_analyze()->set_report_file("report");
  v1::OutputFile* file = report.mutable_result()->add_files();
  file->set_name("report");
  *file->mutable_digest() = digestOf("the report");
  const auto tell = [&](const std::string& data) {
    file->set_data(data);
    grpc::ClientContext context;
    boundByMinutes(context);
    v1::ReportTaskResponse told;
    return bench.workers->ReportTask(&context, report, &told);
  };
  const grpc::Status wrong = tell("another report");
  EXPECT_EQ(wrong.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(wrong.error_message().find("result.files.data"), std::string::npos) << wrong.error_message();
  EXPECT_EQ(bench.job(job.id()).state(), v1::Job::RUNNING);
  const auto bytesOf = [&](const std::string& text) {
    return bench.store().read(
        [&](storage::Reader& reader) { return reader.blobBytes(digestOf(text).sha256()).status(); });
  };
  report.set_fencing_token(lease.fencing_token() + 1);
  EXPECT_EQ(tell("the report").error_code(), grpc::StatusCode::ABORTED);
  EXPECT_TRUE(absl::IsNotFound(bytesOf("the report"))) << "what is discarded leaves nothing";
  report.set_fencing_token(lease.fencing_token());
  const grpc::Status right = tell("the report");
  ASSERT_TRUE(right.ok()) << right.error_message();
  ASSERT_EQ(bench.job(job.id()).state(), v1::Job::SUCCEEDED);
  EXPECT_TRUE(tell("the report").ok()) << "a repeated report";
  v1::DownloadBlobRequest fetch;
  fetch.set_sha256(bench.job(job.id()).analyze_result().report().sha256());
  std::string bytes;
  ASSERT_TRUE(download(*bench.blobs, fetch, bytes).ok());
  EXPECT_EQ(bytes, "the report");
  EXPECT_TRUE(bytesOf("the report").ok());
}

TEST(Jobs, ExecuteIsAJobThatEndsWithTheCall) {
  ServiceBench bench;
  auto worker = std::make_unique<FakeWorkerLoop>(bench, "w");
  const v1::Job compiled = bench.create(bench.compileRequest("r1", "net", "a"));
  (void)bench.watch(compiled.id());
  const std::string artifact = bench.job(compiled.id()).compile_result().artifact_id();

  v1::ExecuteRequest request;
  request.mutable_spec()->set_artifact_id(artifact);
  v1::TensorValue* input = request.mutable_spec()->add_inputs();
  input->mutable_spec()->set_name("x");
  input->mutable_spec()->set_dtype(v1::DATA_TYPE_F32);
  input->mutable_spec()->add_shape(1);
  input->set_data(std::string(4, '\1'));
  {
    grpc::ClientContext context;
    boundByMinutes(context);
    v1::ExecuteResponse response;
    const grpc::Status status = bench.execution->Execute(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(response.result().outputs_size(), 1);
    EXPECT_EQ(response.result().outputs(0).data(), input->data());
    EXPECT_TRUE(bench.job(response.job_id()).has_execute_result());
  }
  {
    grpc::ClientContext context;
    boundByMinutes(context);
    v1::ProfileRequest profile;
    profile.mutable_spec()->set_artifact_id(artifact);
    v1::ProfileResponse response;
    ASSERT_TRUE(bench.execution->Profile(&context, profile, &response).ok());
    EXPECT_EQ(response.result().kernels_size(), 2);
    grpc::ClientContext exporting;
    auto reader = bench.records->ExportRecords(&exporting, v1::ExportRecordsRequest());
    v1::ExportRecordsResponse record;
    int records = 0;
    while (reader->Read(&record)) {
      EXPECT_EQ(record.record().job_id(), response.job_id());
      ++records;
    }
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_EQ(records, 2);
  }
  worker.reset();  // no worker runs it any more, and the client gives up
  grpc::ClientContext impatient;
  impatient.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  v1::ExecuteResponse response;
  EXPECT_EQ(bench.execution->Execute(&impatient, request, &response).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  v1::ListJobsRequest list;
  list.set_order_by("create_time desc");
  list.set_page_size(1);
  v1::ListJobsResponse page;
  do {
    grpc::ClientContext context;
    boundByMinutes(context);
    page.Clear();
    ASSERT_TRUE(bench.jobs->ListJobs(&context, list, &page).ok());
    ASSERT_EQ(page.jobs_size(), 1);
  } while (page.jobs(0).state() == v1::Job::QUEUED);
  EXPECT_EQ(page.jobs(0).state(), v1::Job::CANCELLED);
  EXPECT_EQ(page.jobs(0).execute().inputs(0).data(), "") << "lists leave tensors out";
}

TEST(Jobs, AreFoundByLabels) {
  ServiceBench bench;
  for (const char* team : {"vision", "speech"}) {
    v1::CreateJobRequest request = bench.compileRequest(team, team, "a");
    (*request.mutable_labels())["team"] = team;
    EXPECT_EQ(bench.create(request).labels().at("team"), team);
  }
  v1::ListJobsRequest list;
  list.set_filter("labels.team = vision");
  list.set_page_size(1'000'000);  // means the maximum
  v1::ListJobsResponse page;
  grpc::ClientContext context;
  ASSERT_TRUE(bench.jobs->ListJobs(&context, list, &page).ok());
  ASSERT_EQ(page.jobs_size(), 1);
  EXPECT_EQ(page.jobs(0).request_id(), "vision");
  const std::pair<std::string, std::string> wrong[] = {
      {"Team", "a"}, {"", "a"}, {"1st", "a"}, {std::string(64, 'k'), "a"}, {"k", std::string(64, 'v')}, {"k", "a\x1f"}};
  for (const auto& [key, value] : wrong) {
    v1::CreateJobRequest request = bench.compileRequest("r", "net", "a");
    (*request.mutable_labels())[key] = value;
    v1::CreateJobResponse response;
    grpc::ClientContext creating;
    EXPECT_EQ(bench.jobs->CreateJob(&creating, request, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT)
        << key << "=" << value;
  }
}

TEST(Jobs, ARunWithANameIsAskedForAgain) {
  ServiceBench bench;
  v1::ExecuteRequest request;
  {
    FakeWorkerLoop worker(bench, "w");
    const v1::Job compiled = bench.create(bench.compileRequest("c", "net", "a"));
    (void)bench.watch(compiled.id());
    request.mutable_spec()->set_artifact_id(bench.job(compiled.id()).compile_result().artifact_id());
  }
  request.set_request_id("nightly");
  (*request.mutable_labels())["run"] = "7";
  v1::ExecuteResponse response;
  {
    grpc::ClientContext impatient;
    impatient.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    EXPECT_EQ(bench.execution->Execute(&impatient, request, &response).error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  FakeWorkerLoop worker(bench, "w");
  std::string first;
  for (int i = 0; i < 2; ++i) {
    grpc::ClientContext context;
    boundByMinutes(context);
    const grpc::Status status = bench.execution->Execute(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(first.empty() ? response.job_id() : first, response.job_id()) << "one run";
    first = response.job_id();
  }
  EXPECT_EQ(bench.job(first).request_id(), "nightly");
  EXPECT_EQ(bench.job(first).labels().at("run"), "7");
  request.mutable_spec()->set_threads(2);
  grpc::ClientContext other;
  boundByMinutes(other);
  EXPECT_EQ(bench.execution->Execute(&other, request, &response).error_code(), grpc::StatusCode::ALREADY_EXISTS);
}

TEST(Fleet, WorkersAndTasksAreShown) {
  ServiceBench bench;
  FakeWorkerLoop worker(bench, "w");
  const v1::Job job = bench.create(bench.compileRequest("r", "net", "a b"));
  (void)bench.watch(job.id());
  v1::GetWorkerRequest get;
  v1::GetWorkerResponse found;
  get.set_id("w");
  {
    grpc::ClientContext context;
    ASSERT_TRUE(bench.fleet->GetWorker(&context, get, &found).ok());
    EXPECT_EQ(found.worker().id(), "w");
  }
  get.set_id("nobody");
  {
    grpc::ClientContext context;
    EXPECT_EQ(bench.fleet->GetWorker(&context, get, &found).error_code(), grpc::StatusCode::NOT_FOUND);
  }
  v1::ListTasksRequest list;
  list.set_filter("kind = BUILD AND state = DONE");
  list.set_order_by("create_time");
  v1::ListTasksResponse page;
  grpc::ClientContext context;
  ASSERT_TRUE(v1::FleetService::NewStub(bench.channel)->ListTasks(&context, list, &page).ok());
  ASSERT_EQ(page.tasks_size(), 2);
  for (const v1::TaskInfo& task : page.tasks()) {
    EXPECT_EQ(task.worker_id(), "w");
    EXPECT_EQ(task.attempts(), 1);
    EXPECT_GT(task.create_time().seconds(), 0);
    EXPECT_GE(task.end_time().seconds(), task.create_time().seconds());
    EXPECT_EQ(task.job_ids_size(), 0) << "the job has ended";
  }
}

/// The answer as one text for each kind and target.
std::vector<std::string> wantedIn(const std::shared_ptr<grpc::Channel>& channel,
                                  const v1::ListWantedWorkersRequest& request = {}) {
  v1::ListWantedWorkersResponse page;
  grpc::ClientContext context;
  const grpc::Status status = v1::FleetService::NewStub(channel)->ListWantedWorkers(&context, request, &page);
  EXPECT_TRUE(status.ok()) << status.error_message();
  std::vector<std::string> texts;
  for (const v1::WantedWorkers& entry : page.wanted()) {
    texts.push_back(absl::StrCat(v1::TaskKind_Name(entry.kind()), " ", entry.target(), ": ", entry.waiting(), "+",
                                 entry.running(), ", slots ", entry.slots(), ", workers ", entry.workers()));
  }
  return texts;
}

TEST(Fleet, WantedWorkersAreCountedOverAllProjects) {
  ServiceBench bench;
  EXPECT_THAT(wantedIn(bench.channel), testing::IsEmpty());
  (void)bench.create(bench.compileRequest("r", "net", "a"));
  ASSERT_TRUE(bench.store()
                  .transact([&](storage::Transaction& tx) {
                    for (const char* target : {"cascadelake", "host", "secret-1", "secret-2"}) {
                      v1::Task task;
                      task.set_id(target);
                      task.set_state(v1::Task::READY);
                      task.set_project("other");
                      task.mutable_spec()->set_kind(v1::MEASURE);
                      task.set_target(target);
                      EXPECT_TRUE(tx.putTask(task).ok());
                    }
                    return absl::OkStatus();
                  })
                  .ok());
  const std::string plan = "PLAN : 1+0, slots 1, workers 1", known = "MEASURE cascadelake: 1+0, slots 1, workers 1",
                    host = "MEASURE host: 1+0, slots 1, workers 1";
  EXPECT_THAT(wantedIn(bench.channel), ElementsAre(plan, known, host, "MEASURE (others): 2+0, slots 2, workers 2"))
      << "names of another project's targets are not shown";
  EXPECT_THAT(wantedIn(bench.operator_channel),
              ElementsAre(plan, known, host, "MEASURE secret-1: 1+0, slots 1, workers 1",
                          "MEASURE secret-2: 1+0, slots 1, workers 1"));
  v1::ListWantedWorkersRequest request;
  request.set_kind(v1::PLAN);
  EXPECT_THAT(wantedIn(bench.channel, request), ElementsAre(plan));
  request.Clear();
  request.set_target("cascadelake");
  EXPECT_THAT(wantedIn(bench.channel, request), ElementsAre(known));
  request.set_target(std::string(1000, 'x'));
  v1::ListWantedWorkersResponse page;
  grpc::ClientContext context;
  EXPECT_EQ(bench.fleet->ListWantedWorkers(&context, request, &page).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(Fleet, ATaskOfManyJobsSaysHowManyThereAre) {
  ServiceBench bench;
  for (int i = 0; i < 40; ++i) (void)bench.create(bench.compileRequest("r" + std::to_string(i), "equal", "a"));
  v1::ListTasksResponse page;
  grpc::ClientContext context;
  ASSERT_TRUE(v1::FleetService::NewStub(bench.channel)->ListTasks(&context, v1::ListTasksRequest(), &page).ok());
  ASSERT_EQ(page.tasks_size(), 1) << "equal jobs share it";
  EXPECT_EQ(page.tasks(0).jobs(), 40);
  EXPECT_EQ(page.tasks(0).job_ids_size(), 16);
}

TEST(Jobs, WhoLeavesWhileItsCallWaitsHasMadeNothing) {
  ServerOptions options;
  options.control_threads = 1;
  ServiceBench bench(options);
  std::vector<v1::CreateJobRequest> requests;
  for (int i = 0; i < 21; ++i) {
    const std::string name = "m" + std::to_string(i);
    requests.push_back(bench.compileRequest(name, name, "a"));
  }
  // The disk is busy, and so is the only thread that answers calls, with the first of these.
  std::promise<void> busy, free;
  std::thread disk([&] {
    EXPECT_TRUE(bench.store()
                    .transact([&](storage::Transaction&) {
                      busy.set_value();
                      free.get_future().wait();
                      return absl::OkStatus();
                    })
                    .ok());
  });
  busy.get_future().wait();
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::thread> clients;
  for (const v1::CreateJobRequest& request : requests) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    clients.emplace_back([&, context = contexts.back().get()] {
      v1::CreateJobResponse response;
      (void)bench.jobs->CreateJob(context, request, &response);
    });
    if (clients.size() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it is being answered
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the others wait
  for (size_t i = 1; i < contexts.size(); ++i) contexts[i]->TryCancel();
  std::this_thread::sleep_for(std::chrono::seconds(1));  // until the server knows that the clients have left
  free.set_value();
  disk.join();
  for (std::thread& client : clients) client.join();
  grpc::ClientContext context;
  v1::ListJobsResponse page;
  ASSERT_TRUE(bench.jobs->ListJobs(&context, v1::ListJobsRequest(), &page).ok());
  ASSERT_EQ(page.jobs_size(), 1) << "20 calls had no effect";
  EXPECT_EQ(page.jobs(0).request_id(), requests[0].request_id());
}

TEST(Jobs, ManyClientsShareEqualWork) {
  ServiceBench bench;
  FakeWorkerLoop one(bench, "w1");
  FakeWorkerLoop two(bench, "w2");
  constexpr int kClients = 16;
  constexpr int kEach = 12;  // half of them are equal for all clients
  std::vector<std::string> states[kClients];
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; i < kEach; ++i) {
        const bool equal = i % 2 == 0;
        const std::string name =
            equal ? "equal" + std::to_string(i) : "own" + std::to_string(c) + "-" + std::to_string(i);
        const v1::Job job =
            bench.create(bench.compileRequest("r" + std::to_string(c) + "-" + std::to_string(i), name, name));
        (void)bench.watch(job.id());
        states[c].push_back(v1::Job::State_Name(bench.job(job.id()).state()));
      }
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  for (const auto& answers : states) {
    EXPECT_THAT(answers, SizeIs(kEach));
    EXPECT_THAT(answers, Each("SUCCEEDED"));
  }
  constexpr int kDistinct = kEach / 2 + kClients * kEach / 2;
  EXPECT_EQ(settled(one, two, v1::PLAN, kDistinct), kDistinct);
  EXPECT_EQ(settled(one, two, v1::BUILD, kDistinct), kDistinct);
}

TEST(Jobs, RestartsLoseAndRepeatNothing) {
  ServiceBench bench;
  FakeWorkerLoop one(bench, "remote-1");
  FakeWorkerLoop two(bench, "remote-2");
  std::vector<v1::Job> jobs;
  for (int i = 0; i < 24; ++i) {
    const std::string name = "net" + std::to_string(i);
    jobs.push_back(bench.create(bench.compileRequest("r" + std::to_string(i), name, name + " shared")));
    if (i % 6 == 5) {
      bench.restart();
    }
  }
  for (const v1::Job& job : jobs) {
    const auto events = bench.watch(job.id());
    ASSERT_FALSE(events.empty());
    EXPECT_EQ(events.back().state().state(), v1::Job::SUCCEEDED);
  }
  EXPECT_EQ(settled(one, two, v1::ASSEMBLE, 24), 24);
}

}  // namespace
}  // namespace tessera::server
