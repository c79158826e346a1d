// Each read must be answered from an index, with 100,000 rows as well as with one.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "proto/messages/project.h"
#include "storage/conformance/samples.h"
#include "storage/list_query.h"
#include "storage/scratch_folder.h"
#include "storage/sql/queries.h"
#include "storage/sqlite/database.h"
#include "storage/sqlite_store.h"

namespace tessera::storage {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr int kRows = 100'000;

class QueryPlans : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new ScratchFolder;
    auto store = openSqliteStore(folder_->file("tessera.db"));
    ASSERT_OK(store.status());
    for (int from = 0; from < kRows; from += 10'000) {
      ASSERT_OK((*store)->transact([&](Transaction& t) {
        for (int i = from; i < from + 10'000; ++i) {
          const std::string id = std::to_string(i);
          v1::Task task = sampleTask(id, i % 2 ? v1::BUILD : v1::PLAN, i % 3, i);
          if (i % 10 == 0) task.set_state(v1::Task::DONE);
          EXPECT_TRUE(t.putTask(task).ok());
          EXPECT_TRUE(t.putAction(sampleAction(id, "key" + id, i)).ok());
          EXPECT_TRUE(t.insertJob(sampleJob(id, i), "h", id).ok());
        }
        v1::JobEvent event;
        event.set_job_id("7");
        for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(t.appendEvent(event).ok());
        return absl::OkStatus();
      }));
    }
    store->reset();
    auto database = SqliteDatabase::open(folder_->file("tessera.db"), SqliteDatabase::Mode::kReadOnly);
    ASSERT_OK(database.status());
    database_ = database->release();
  }
  static void TearDownTestSuite() {
    delete database_;
    delete folder_;
  }

  static std::string planOf(const std::string& sql) {
    Statement statement = database_->prepareOnce("EXPLAIN QUERY PLAN " + sql);
    std::string plan;
    while (true) {
      absl::StatusOr<bool> row = statement.step();
      if (!row.ok()) return absl::StrCat("error: ", row.status().ToString());
      if (!*row) return plan;
      absl::StrAppend(&plan, std::string(statement.bytes(3)), "\n");
    }
  }

  /// Number of SQLite virtual machine steps to execute a statement: a measure of its cost without a clock.
  static int64_t stepsOf(Statement statement) { return steps(std::move(statement), false); }
  static int64_t firstRowOf(Statement statement) { return steps(std::move(statement), true); }

  static int64_t steps(Statement statement, bool first_row_only) {
    int64_t steps = 0;
    sqlite3_progress_handler(
        database_->handle(), 1, [](void* count) { return ++*static_cast<int64_t*>(count), 0; }, &steps);
    while (true) {
      absl::StatusOr<bool> row = statement.step();
      EXPECT_TRUE(row.ok()) << row.status();
      if (!row.ok() || !*row || first_row_only) break;
    }
    sqlite3_progress_handler(database_->handle(), 0, nullptr, nullptr);
    return steps;
  }

  static ScratchFolder* folder_;
  static SqliteDatabase* database_;
};
ScratchFolder* QueryPlans::folder_ = nullptr;
SqliteDatabase* QueryPlans::database_ = nullptr;

TEST_F(QueryPlans, EveryFixedReadUsesAnIndexAndSortsNothing) {
  for (const char* sql : sql::kReads) {
    // Reads the whole partial index of leased tasks, which is the result.
    const bool all_of_few = sql == sql::kLeasedTasks;
    EXPECT_THAT(planOf(sql), AllOf(Not(HasSubstr("error")), Not(HasSubstr("TEMP B-TREE")),
                                   ContainsRegex(all_of_few ? "SCAN tasks USING INDEX tasks_leased" : "SEARCH")))
        << sql;
    if (!all_of_few) EXPECT_THAT(planOf(sql), Not(HasSubstr("SCAN"))) << sql;
  }
}

TEST_F(QueryPlans, QueueHeadsAndLookupsCostTheSameInALongQueue) {
  for (const v1::TaskKind kind : {v1::BUILD, v1::EXECUTE}) {
    EXPECT_LT(firstRowOf(std::move(
                  database_->prepare(sql::kReadyOfProject).bind(kind).bind(1).bind(kDefaultProject).bind(1000))),
              50);
    EXPECT_LT(stepsOf(std::move(database_->prepare(sql::kNextReadyProject).bind(kind).bind(1).bind(""))), 50);
    EXPECT_LT(stepsOf(std::move(database_->prepare(sql::kNextReadyProject).bind(kind).bind(1).bind(kDefaultProject))),
              50)
        << "the end of a long queue is found by a seek too";
    EXPECT_LT(firstRowOf(std::move(database_->prepare(sql::kReadyTasks).bind(kind).bind(1000))), 50);
    EXPECT_LT(stepsOf(std::move(
                  database_->prepare(sql::kNextReadyPriority).bind(kind).bind(1).bind(kDefaultProject).bind(2))),
              50);
    EXPECT_LT(
        firstRowOf(std::move(
            database_->prepare(sql::kOldestReady).bind(kind).bind(1).bind(kDefaultProject).bind(1).bind(1 << 30))),
        50);
  }
  EXPECT_LT(stepsOf(std::move(database_->prepare(sql::kReadyFrom).bind(-1000))), 100) << "kept, not counted";
  EXPECT_LT(stepsOf(std::move(database_->prepare(sql::kLivingActionsByKey).bind("key99999"))), 50);
  EXPECT_LT(stepsOf(std::move(database_->prepare(sql::kLivingTaskByKey).bind("key of 99998"))), 50);
  EXPECT_LT(stepsOf(std::move(database_->prepare(sql::kLivingJobsOfAction).bind("99999"))), 50);
  EXPECT_LT(stepsOf(std::move(database_->prepare(sql::kEventsAfter).bind("7").bind(90'000).bind(10))), 150);
  EXPECT_LT(stepsOf(std::move(database_->prepare(sql::kLastSequence).bind("7"))), 50);
  EXPECT_LT(stepsOf(std::move(database_->prepare(sql::kJobsPastQueueDeadline).bind(int64_t{1} << 60))), 50);
  EXPECT_LT(stepsOf(database_->prepare(sql::kLeasedTasks)), 50);
  EXPECT_LT(stepsOf(database_->prepare(sql::kQueueDepths)), 400) << "kept, not counted";
}

TEST_F(QueryPlans, CommonListsNeedNoSort) {
  const std::tuple<const Entity*, const char*, const char*> lists[] = {
      {&jobEntity(), "", ""},
      {&jobEntity(), "", "create_time"},
      {&jobEntity(), "state = QUEUED", ""},
      {&jobEntity(), "state = FAILED AND create_time > 5", ""},
      {&jobEntity(), "state = SUCCEEDED", ""},
      {&artifactEntity(), "", ""},
      {&artifactEntity(), "model = m", ""},
      {&recordEntity(), "", ""},
      {&recordEntity(), "workload = w AND target = t", "median_ms"},
      {&recordEntity(), "", "median_ms desc"},
      {&recordEntity(), "job = j", ""},
      {&recordEntity(), "job = j AND mode = search", "create_time desc"},
      {&recordEntity(), "artifact = a", "create_time desc"},
      {&recordEntity(), "host = h", ""},
      {&recordEntity(), "summary = s", ""},
      {&recordEntity(), "operators = o", "speed desc"},
      {&recordEntity(), "target = t", ""},
      {&recordEntity(), "chip = c", ""},
      {&recordEntity(), "mode = search", "create_time desc"},
      {&recordEntity(), "method = q", ""},
      {&recordEntity(), "outcome = PASSED", ""},
      {&recordEntity(), "validation = passed", ""},
      {&recordEntity(), "threads = 2", ""},
      {&recordEntity(), "trial > 5", "trial"},
      {&recordEntity(), "speed > 1.1", "speed desc"},
      {&targetEntity(), "", ""},
      {&workerEntity(), "", ""},
      {&taskEntity(), "", ""},
      {&taskEntity(), "state = READY", "create_time"},
  };
  for (const auto& [entity, filter, order_by] : lists) {
    ListQuery query = {
        .page_size = 10, .page_token = "", .filter = filter, .order_by = order_by, .project = kDefaultProject};
    for (bool next : {false, true}) {
      absl::StatusOr<ListPlan> plan = planList(query, *entity, "key");
      ASSERT_OK(plan.status());
      EXPECT_THAT(planOf(plan->sql), AllOf(Not(HasSubstr("TEMP B-TREE")), HasSubstr("USING INDEX"))) << plan->sql;
      if (next) EXPECT_THAT(planOf(plan->sql), HasSubstr("SEARCH")) << plan->sql;
      const std::vector<Value> last(plan->order.size(), Value(int64_t{0}));
      query.page_token = makePageToken(plan->fingerprint, last, "key");
    }
  }
}

/// Most jobs have no request_id and are not in its index. A job that has one is found by the unique index, and any
/// order sorts a single row.
TEST_F(QueryPlans, ARequestIdIsFoundByTheIndexOfThoseThatHaveOne) {
  for (const char* order_by : {"", "id", "create_time desc"}) {
    const ListQuery query = {.page_size = 10,
                             .page_token = "",
                             .filter = "request_id = x",
                             .order_by = order_by,
                             .project = kDefaultProject};
    absl::StatusOr<ListPlan> plan = planList(query, jobEntity(), "key");
    ASSERT_OK(plan.status());
    EXPECT_THAT(planOf(plan->sql), HasSubstr("SEARCH jobs USING INDEX jobs_by_request (project=? AND request_id=?)"));
  }
}

TEST_F(QueryPlans, JobsThatDidNotSucceedAreFoundByTheIndexOfThose) {
  for (const std::string project : {kDefaultProject, ""}) {
    for (const char* state : {"QUEUED", "RUNNING", "FAILED", "CANCELLED"}) {
      const ListQuery query = {.page_size = 10,
                               .page_token = "",
                               .filter = absl::StrCat("state = ", state),
                               .order_by = "",
                               .project = project};
      absl::StatusOr<ListPlan> plan = planList(query, jobEntity(), "key");
      ASSERT_OK(plan.status());
      EXPECT_THAT(planOf(plan->sql), AllOf(ContainsRegex("SEARCH jobs USING INDEX jobs_(of_project_)?by_state"),
                                           Not(HasSubstr("TEMP B-TREE"))))
          << plan->sql;
    }
  }
}

TEST_F(QueryPlans, ListsOfAllProjectsNeedNoSort) {
  for (const Entity* entity : {&jobEntity(), &artifactEntity(), &recordEntity(), &targetEntity(), &taskEntity()}) {
    absl::StatusOr<ListPlan> plan = planList({}, *entity, "key");
    ASSERT_OK(plan.status());
    EXPECT_THAT(planOf(plan->sql), AllOf(Not(HasSubstr("TEMP B-TREE")), HasSubstr("USING INDEX"))) << plan->sql;
  }
}

}  // namespace
}  // namespace tessera::storage
