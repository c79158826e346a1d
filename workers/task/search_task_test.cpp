// A search continues from batch to batch by its log alone, whichever results were known when a batch was proposed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/testing/workload_text.h"
#include "compiler/schedule/text.h"
#include "workers/task_run.h"
#include "workers/testing/temporary_folder.h"

namespace tessera::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kBatch = 4;

class SearchTask : public ::testing::TestWithParam<const char*> {
 protected:
  SearchTask() {
    compiler::codegen::testing::WorkloadText text;
    const auto product =
        text.named("matmul", {text.argument({67, 96}), text.argument({96, 130})}, text.fill({67, 130}, "0.0"));
    unit_ = compiler::codegen::hostUnit(text.finish({product}));
    auto schedule = compiler::defaultSchedule(unit_);
    EXPECT_TRUE(schedule.ok()) << schedule.status();
    if (schedule.ok()) *unit_.mutable_schedule() = *schedule;
  }

  /// The next batch for the current log.
  v1::TaskResult next(const v1::SearchLog& log) {
    const TemporaryFolder temporary;
    adoptOrphans();
    auto scratch = *Scratch::open(temporary.path() + "/scratch");
    AttemptFolder folder = *scratch->newAttempt();
    v1::TaskSpec task;
    task.set_kind(v1::SEARCH);
    task.set_run_timeout_us(60'000'000);
    v1::SearchTask& spec = *task.mutable_search();
    spec.mutable_unit()->set_sha256(std::string(64, 'a'));
    *task.add_inputs() = spec.unit();
    std::ofstream(folder.input(spec.unit().sha256()), std::ios::binary) << unit_.SerializeAsString();
    spec.set_method(GetParam());
    spec.set_seed(3);
    spec.set_wanted(kBatch);
    *spec.mutable_log() = log;
    TaskRunner runner;
    runner.binary = TESSERA_TASK;
    Cancellation attempt;
    return runTask(runner, task, folder, [](const v1::Progress&) {}, attempt);
  }

  /// Appends the batch of `next` with these speeds, and returns its trees.
  std::vector<std::string> grow(v1::SearchLog& log, const std::vector<double>& speeds) {
    const v1::TaskResult result = next(log);
    EXPECT_FALSE(result.has_failure()) << result.failure().message();
    std::vector<std::string> trees;
    for (const auto& proposal : result.search().proposals())
      trees.push_back(compiler::printSchedule(proposal.schedule()));
    v1::SearchLog::Batch& batch = *log.add_batches();
    batch = result.search().batch();
    batch.mutable_speeds()->Assign(speeds.begin(), speeds.end());
    return trees;
  }

  v1::BuildUnit unit_;
};

TEST_P(SearchTask, ProposesAheadOfOutcomesAndHearsOfThemLater) {
  v1::SearchLog log;
  const std::vector<std::string> first = grow(log, {1.2, -1, 0, -1});
  EXPECT_FALSE(log.batches(0).seed_schedules().empty()) << "forms are made once";
  const std::vector<std::string> second = grow(log, {0.9, 1.5, 0.7, -1});
  EXPECT_THAT(log.batches(1).pending(), ElementsAre(1, 3));
  EXPECT_THAT(log.batches(1).seed_schedules(), IsEmpty());
  log.mutable_batches(0)->mutable_speeds()->Set(1, 1.1);
  log.mutable_batches(0)->mutable_speeds()->Set(3, 2.0);
  v1::SearchLog again = log;
  const std::vector<std::string> third = grow(log, {1, 1, 1, 1});
  EXPECT_THAT(log.batches(2).pending(), ElementsAre(3));
  EXPECT_EQ(grow(again, {1, 1, 1, 1}), third) << "equal logs, equal proposals";
  log.mutable_batches(1)->mutable_speeds()->Set(3, 1.3);
  const std::vector<std::string> fourth = grow(log, {1, 1, 1, 1});
  EXPECT_THAT(log.batches(3).pending(), IsEmpty());
  std::set<std::string> different;
  for (const auto* trees : {&first, &second, &third, &fourth}) different.insert(trees->begin(), trees->end());
  EXPECT_EQ(different.size(), 4u * kBatch) << "nothing is proposed twice";
}

TEST_P(SearchTask, ALogOfAnotherHostCannotBeReplayed) {
  v1::SearchLog log;
  grow(log, {1, 1, 1, 1});
  v1::SearchLog other = log;
  other.mutable_batches(0)->set_trees(7);
  EXPECT_EQ(next(other).failure().reason(), v1::Failure::INCOMPATIBLE_HOST);
  grow(log, {1, 1, 1, 1});
  log.mutable_batches(1)->add_pending(kBatch);
  EXPECT_THAT(next(log).failure().message(), HasSubstr("cannot be replayed")) << "there is no such position";
}

INSTANTIATE_TEST_SUITE_P(Methods, SearchTask, ::testing::Values("walk", "q", "model", "evolutionary"));

}  // namespace
}  // namespace tessera::worker
