// Runs random schedules from a seed: clients that repeat and cancel, workers that die, are suspended and report late, a
// server that restarts. Then checks invariants.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "server/testing/scheduler_bench.h"

namespace tessera::server {
namespace {

struct FakeProcess {
  std::string worker;
  int64_t pid = 0;
  std::vector<v1::Lease> running;
};

class RandomSchedule : public testing::TestWithParam<unsigned> {
 protected:
  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  void createSome() {
    const std::string model = models_[pick(static_cast<int>(models_.size()))];
    v1::CreateJobRequest request = bench_.request("r" + std::to_string(requests_.size()), model, units_[model]);
    if (pick(8) == 0) {
      request.set_queue_timeout_us(1'000'000 + pick(20'000'000));
    }
    request.set_priority(pick(3));
    requests_.push_back(request);
    const auto job = bench_.create(request);
    ASSERT_TRUE(job.ok()) << job.status();
    acknowledged_.insert(job->id());
  }

  void repeatARequest() {
    if (requests_.empty()) {
      return;
    }
    const auto job = bench_.create(requests_[pick(static_cast<int>(requests_.size()))]);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_TRUE(acknowledged_.contains(job->id())) << "a repeated request made a job";
  }

  void cancelSome() {
    if (acknowledged_.empty()) {
      return;
    }
    auto job = acknowledged_.begin();
    std::advance(job, pick(static_cast<int>(acknowledged_.size())));
    ASSERT_TRUE(bench_.scheduler().cancelJob(*job).ok());
  }

  void leaseSome(FakeProcess& process) {
    if (process.running.size() < 2) {
      const v1::Lease lease = bench_.lease(process.worker);
      if (!lease.task_id().empty()) {
        EXPECT_TRUE(tokens_[lease.task_id()].insert(lease.fencing_token()).second) << "a token was given twice";
        EXPECT_EQ(*tokens_[lease.task_id()].rbegin(), lease.fencing_token()) << "tokens must rise";
        process.running.push_back(lease);
      }
    }
  }

  /// Reports a result: of a running task, or once more or too late of an earlier one.
  void reportSome(FakeProcess& process) {
    if (process.running.empty()) {
      return;
    }
    const size_t i = static_cast<size_t>(pick(static_cast<int>(process.running.size())));
    const v1::Lease lease = process.running[i];
    const bool current = bench_.task(lease.task_id()).fencing_token() == lease.fencing_token() &&
                         bench_.task(lease.task_id()).state() == v1::Task::LEASED;
    const bool crash = pick(20) == 0;
    const v1::TaskResult result = crash ? failedResult(v1::Failure::CRASHED) : bench_.work.run(lease.task());
    const absl::Status status = bench_.report(process.worker, lease, result);
    EXPECT_EQ(status.ok(), current) << status;
    if (status.ok() && !crash) {
      ++done_[{lease.task().kind(), lease.task().SerializeAsString()}];
    }
    if (pick(3) == 0) {
      EXPECT_EQ(bench_.report(process.worker, lease, result).ok(), current) << "a repeated report";
    }
    process.running.erase(process.running.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void killWorker(FakeProcess& process) {
    const std::vector<v1::Lease> held = process.running;
    if (pick(2) == 0) {
      ASSERT_TRUE(bench_.scheduler().workerGone(process.worker).ok());
    }
    process.pid += 1000;
    if (pick(4) != 0) {
      process.running.clear();  // otherwise the old process still runs and reports late
    }
    bench_.registerWorker(process.worker, process.pid);
  }

  void restartServer() {
    bench_.restart();
    for (FakeProcess& process : processes_) {
      bench_.registerWorker(process.worker, process.pid);
    }
  }

  void beatAll() {
    for (FakeProcess& process : processes_) {
      for (const v1::Lease& lease : process.running) {
        (void)bench_.beat(process.worker, lease);
      }
    }
  }

  void step() {
    FakeProcess& process = processes_[pick(static_cast<int>(processes_.size()))];
    const int what = pick(100);
    if (what < 12) {
      createSome();
    } else if (what < 15) {
      repeatARequest();
    } else if (what < 18) {
      cancelSome();
    } else if (what < 50) {
      leaseSome(process);
    } else if (what < 80) {
      reportSome(process);
    } else if (what < 84) {
      killWorker(process);
    } else if (what < 86) {
      restartServer();
    } else if (what < 94) {
      bench_.clock.advance(pick(3'000'000));
      beatAll();
    } else {
      bench_.clock.advance(pick(8'000'000));
      ASSERT_TRUE(bench_.scheduler().sweep().ok());
    }
  }

  /// Healthy workers finish the remaining tasks.
  void settle() {
    bench_.pass(bench_.scheduler().rules().lease_us * 4);
    bench_.registerWorker("healthy", 7);
    bench_.runAll("healthy");
    bench_.pass(60'000'000);
  }

  SchedulerFixture bench_{rules()};
  std::mt19937 random_{GetParam()};
  std::vector<std::string> models_ = {"m0", "m1", "m2", "m3", "m4"};
  std::map<std::string, std::string> units_ = {
      {"m0", "a b"}, {"m1", "b c"}, {"m2", "d"}, {"m3", "a d e f"}, {"m4", ""}};
  std::vector<FakeProcess> processes_ = {{"local-0", 1, {}}, {"local-1", 2, {}}, {"remote-0", 3, {}}};
  std::vector<v1::CreateJobRequest> requests_;
  std::set<std::string> acknowledged_;
  std::map<std::string, std::set<int64_t>> tokens_;
  std::map<std::pair<v1::TaskKind, std::string>, int> done_;  ///< accepted results by task

 private:
  static Rules rules() {
    Rules rules = SchedulerFixture::defaultRules();
    rules.lease_losses_before_failure = 1000;  // this test kills far more workers than a fleet loses
    return rules;
  }
};

TEST_P(RandomSchedule, EveryAcknowledgedJobEndsExactlyOnce) {
  for (FakeProcess& process : processes_) {
    bench_.registerWorker(process.worker, process.pid);
  }
  for (int i = 0; i < 400 && !HasFatalFailure(); ++i) {
    step();
  }
  settle();
  int succeeded = 0;
  for (const std::string& id : acknowledged_) {
    const v1::Job job = bench_.job(id);
    const auto events = bench_.events(id);
    int ends = 0;
    for (size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(events[i].sequence(), static_cast<int64_t>(i) + 1);
      const bool terminal = events[i].has_state() && events[i].state().state() >= v1::Job::SUCCEEDED;
      ends += terminal ? 1 : 0;
      EXPECT_EQ(terminal, i + 1 == events.size()) << id << ": the end is the last event, and only the last";
    }
    EXPECT_EQ(ends, 1) << id;
    EXPECT_GE(job.state(), v1::Job::SUCCEEDED) << id << " never ended";
    if (job.state() == v1::Job::SUCCEEDED) {
      ++succeeded;
      EXPECT_TRUE(bench_.blobs->contains(job.compile_result().artifact().sha256()));
    } else if (job.state() == v1::Job::FAILED) {
      EXPECT_TRUE(job.failure().reason() == v1::Failure::QUARANTINED ||
                  job.failure().reason() == v1::Failure::QUEUE_DEADLINE_EXCEEDED)
          << job.failure().DebugString();
    }
  }
  EXPECT_GT(succeeded, 0) << "a schedule in which nothing succeeds shows nothing";
  // Equal work is done once: an accepted object is never built again. PLAN and ASSEMBLE may be, if all jobs of an
  // action were cancelled before its end.
  for (const auto& [task, times] : done_) {
    if (task.first == v1::BUILD) {
      EXPECT_EQ(times, 1);
    }
  }
  ASSERT_TRUE(bench_.store
                  ->read([](storage::Reader& reader) {
                    EXPECT_TRUE(reader.leasedTasks()->empty());
                    EXPECT_TRUE(absl::IsNotFound(reader.nextReadyTask({}).status()))
                        << "a task is left that nobody waits for";
                    auto workers = reader.listWorkers({});
                    for (const v1::Worker& worker : workers->items) {
                      EXPECT_EQ(worker.task_ids_size(), 0) << worker.id();
                    }
                    return absl::OkStatus();
                  })
                  .ok());
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSchedule, testing::Range(1U, 13U));

}  // namespace
}  // namespace tessera::server
