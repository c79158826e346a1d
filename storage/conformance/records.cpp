// The tuning database: the fastest records of each group, statistics, and merges that recognize equal measurements.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "storage/conformance/samples.h"
#include "storage/record_properties.h"

namespace tessera::storage {
namespace {

using testing::HasSubstr;

v1::TuningRecord measured(const std::string& id, const std::string& workload, const std::string& target, int threads,
                          double median_ms) {
  v1::TuningRecord record = sampleRecord(id, median_ms, 7);
  record.set_workload_hash(workload);
  record.set_target_name(target);
  record.set_target_hash("hash of " + target);
  record.set_threads(threads);
  return record;
}

/// "w1 zen4 1: a b; w1 zen4 2: c"
std::string shown(const std::vector<BestGroup>& groups) {
  return absl::StrJoin(groups, "; ", [](std::string* out, const BestGroup& group) {
    absl::StrAppend(out, group.workload, " ", group.target, " ", group.threads, ":");
    for (const v1::TuningRecord& record : group.records) absl::StrAppend(out, " ", record.id());
  });
}

std::string best(Store& store, const BestQuery& query) {
  auto page = readOne(store, [&](Reader& r) { return r.bestRecords(query); });
  return page.ok() ? shown(page->items) : page.status().ToString();
}

void put(Store& store, const std::vector<v1::TuningRecord>& records) {
  ASSERT_OK(store.transact([&](Transaction& t) {
    for (const v1::TuningRecord& record : records) EXPECT_TRUE(t.putRecord(record).ok());
    return absl::OkStatus();
  }));
}

void putSeveral(Store& store) {
  v1::TuningRecord wrong = measured("wrong", "w1", "zen4", 1, 0.1);
  wrong.set_outcome(v1::TuningRecord::WRONG_RESULT);
  v1::TuningRecord old = measured("old", "w1", "zen4", 1, 0.2);
  old.set_validation("failed: 3 of 10 elements");
  v1::TuningRecord compared = measured("b", "w1", "zen4", 1, 2);
  compared.set_baseline_ms(3);
  put(store, {measured("a", "w1", "zen4", 1, 3), compared, measured("c", "w1", "zen4", 1, 2.5),
              measured("d", "w1", "zen4", 2, 1), measured("e", "w1", "arm", 1, 9), measured("f", "w2", "zen4", 1, 4),
              measured("g", "w3", "arm", 1, 5), measured("untimed", "w4", "arm", 1, 0), wrong, old});
}

TEST_P(StoreConformance, TheFastestOfEachGroupAreFound) {
  putSeveral(*store_);
  EXPECT_EQ(best(*store_, {}), "w1 arm 1: e; w1 zen4 1: b; w1 zen4 2: d; w2 zen4 1: f; w3 arm 1: g");
  EXPECT_EQ(best(*store_, {.top = 2}), "w1 arm 1: e; w1 zen4 1: b c; w1 zen4 2: d; w2 zen4 1: f; w3 arm 1: g");
  EXPECT_EQ(best(*store_, {.target = "zen4"}), "w1 zen4 1: b; w1 zen4 2: d; w2 zen4 1: f");
  EXPECT_EQ(best(*store_, {.chip = "hash of arm"}), "w1 arm 1: e; w3 arm 1: g");
  EXPECT_EQ(best(*store_, {.target = "zen4", .threads = 2}), "w1 zen4 2: d");
  EXPECT_EQ(best(*store_, {.project = kDefaultProject, .workloads = {"w3", "w9", "w2"}}), "w3 arm 1: g; w2 zen4 1: f");
  EXPECT_EQ(best(*store_, {.project = kDefaultProject, .workloads = {"w1"}, .target = "zen4", .threads = 1, .top = 9}),
            "w1 zen4 1: b c a");
  EXPECT_EQ(best(*store_, {.project = kDefaultProject, .workloads = {"w4"}}), "");
}

TEST_P(StoreConformance, PagesOfGroupsJoinToAllOfThem) {
  putSeveral(*store_);
  for (const BestQuery& all :
       {BestQuery{}, BestQuery{.project = kDefaultProject, .workloads = {"w2", "w1", "w3"}, .top = 2}}) {
    std::vector<std::string> pages;
    BestQuery query = all;
    query.page_size = 2;
    do {
      auto page = readOne(*store_, [&](Reader& r) { return r.bestRecords(query); });
      ASSERT_OK(page.status());
      ASSERT_LE(page->items.size(), 2u);
      pages.push_back(shown(page->items));
      query.page_token = page->next_page_token;
    } while (!query.page_token.empty());
    EXPECT_EQ(absl::StrJoin(pages, "; "), best(*store_, all));
    EXPECT_EQ(pages.size(), 3u);
  }
  BestQuery first = {.page_size = 1};
  auto page = readOne(*store_, [&](Reader& r) { return r.bestRecords(first); });
  ASSERT_OK(page.status());
  const BestQuery other = {.top = 3, .page_size = 1, .page_token = page->next_page_token};
  EXPECT_TRUE(absl::IsInvalidArgument(readOne(*store_, [&](Reader& r) { return r.bestRecords(other); }).status()));
}

TEST_P(StoreConformance, EveryShownColumnFiltersAndOrders) {
  v1::TuningRecord a = measured("a", "w1", "zen4", 1, 2);
  a.set_baseline_ms(5);
  a.set_method("q");
  a.set_trial(3);
  a.set_outcome(v1::TuningRecord::PASSED);
  v1::TuningRecord b = measured("b", "w1", "zen4", 1, 4);
  b.set_baseline_ms(5);
  b.set_trial(9);
  b.set_outcome(v1::TuningRecord::CRASHED);
  put(*store_, {a, b});
  const auto listed = [&](const char* filter, const char* order) {
    auto page = readOne(*store_, [&](Reader& r) {
      return r.listRecords({.page_size = 0, .page_token = "", .filter = filter, .order_by = order});
    });
    if (!page.ok()) return page.status().ToString();
    return absl::StrJoin(page->items, " ", [](std::string* out, const auto& record) { out->append(record.id()); });
  };
  EXPECT_EQ(listed("chip = \"hash of zen4\"", "trial desc"), "b a");
  EXPECT_EQ(listed("speed > 2.4 AND speed < 2.6", ""), "a");
  EXPECT_EQ(listed("", "speed desc"), "a b") << "a failed trial has no speed";
  EXPECT_EQ(listed("outcome = CRASHED", ""), "b");
  EXPECT_EQ(listed("method = q", ""), "a");
  EXPECT_EQ(listed("trial >= 9", ""), "b");
  EXPECT_THAT(listed("outcome = BROKEN", ""), HasSubstr("WRONG_RESULT"));
}

TEST_P(StoreConformance, CountsAndExtremesByAnyField) {
  putSeveral(*store_);
  const auto counted = [&](const char* filter, const char* field, int limit = 100) {
    auto groups = readOne(*store_, [&](Reader& r) { return r.recordStatistics("", filter, field, limit); });
    if (!groups.ok()) return groups.status().ToString();
    return absl::StrJoin(*groups, "; ", [](std::string* out, const RecordGroup& g) {
      absl::StrAppend(out, g.value, " ", g.records, " failed ", g.failed, " of ", g.workloads, " best ", g.best_ms,
                      " x", g.best_speed);
    });
  };
  EXPECT_EQ(counted("", ""), " 10 failed 2 of 4 best 1 x1.5");
  EXPECT_EQ(counted("", "target"), "zen4 7 failed 2 of 2 best 1 x1.5; arm 3 failed 0 of 3 best 5 x0");
  EXPECT_EQ(counted("target = zen4", "threads"), "1 6 failed 2 of 2 best 2 x1.5; 2 1 failed 0 of 1 best 1 x0");
  EXPECT_EQ(counted("", "outcome", 1), "OUTCOME_UNSPECIFIED 9 failed 1 of 4 best 1 x1.5");
  EXPECT_EQ(counted("workload = w9", "target"), "");
  EXPECT_THAT(counted("", "median_ms"), HasSubstr("accepted: id, workload"));
}

TEST_P(StoreConformance, AMergeStoresContentOnce) {
  v1::TuningRecord record = measured("a", "w1", "zen4", 1, 2);
  record.mutable_schedule()->set_vector_bits(256);
  put(*store_, {record});
  v1::TuningRecord same = record, other = record, anonymous = record;
  same.set_id("of another database");
  other.set_median_ms(3);
  anonymous.clear_id();
  anonymous.set_median_ms(4);
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_FALSE(*t.mergeRecord(same));
    EXPECT_TRUE(*t.mergeRecord(other)) << "its id is taken";
    EXPECT_FALSE(*t.mergeRecord(other));
    EXPECT_TRUE(*t.mergeRecord(anonymous));
    EXPECT_FALSE(*t.mergeRecord(anonymous));
    return absl::OkStatus();
  }));
  // Equal measurements with the same time, and without a time.
  for (const int64_t time_us : {int64_t{7'000'000}, int64_t{0}}) {
    v1::TuningRecord first = record, second = record;
    first.set_create_time_us(time_us);
    first.set_id(absl::StrCat("first at ", time_us));
    second = first;
    second.set_seed(12345);
    ASSERT_OK(store_->transact([&](Transaction& t) {
      EXPECT_EQ(*t.mergeRecord(first), time_us != record.create_time_us());
      EXPECT_TRUE(*t.mergeRecord(second)) << "it differs where no index looks";
      EXPECT_FALSE(*t.mergeRecord(first));
      EXPECT_FALSE(*t.mergeRecord(second));
      return absl::OkStatus();
    }));
  }
  auto kept = readOne(*store_, [&](Reader& r) { return r.getRecord("a"); });
  ASSERT_OK(kept.status());
  EXPECT_EQ(kept->median_ms(), 2);
  EXPECT_EQ(kept->schedule_hash().size(), 64u);
  same = *kept;
  same.set_id("exported");
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_FALSE(*t.mergeRecord(same)) << "what the store filled in is not content";
    return absl::OkStatus();
  }));
  EXPECT_TRUE(absl::IsNotFound(readOne(*store_, [&](Reader& r) { return r.getRecord("exported"); }).status()));
  auto moved = readOne(*store_, [&](Reader& r) { return r.getRecord(contentHash(other)); });
  ASSERT_OK(moved.status());
  EXPECT_EQ(moved->median_ms(), 3);
}

/// Text that no compression shortens.
std::string randomText(size_t size, uint32_t seed) {
  std::string text;
  for (uint32_t state = seed; text.size() < size;) {
    state = state * 1664525 + 1013904223;
    text.push_back(static_cast<char>('!' + (state >> 16) % 90));
  }
  return text;
}

TEST_P(StoreConformance, LongTextsOfRecordsAreStoredAndFound) {
  v1::TuningRecord record = measured("long", "w", "zen4", 1, 2);
  record.set_workload_summary(randomText(4096, 1));
  record.mutable_workload_shape()->set_operators(randomText(60'000, 2));
  record.set_validation(randomText(60'000, 3) + "\u00e9");
  put(*store_, {record, measured("short", "w", "zen4", 1, 3)});
  EXPECT_EQ(readOne(*store_, [](Reader& r) { return r.getRecord("long"); })->validation(), record.validation());
  std::string literal;
  for (const char c : randomText(3000, 1)) {
    if (c == '"' || c == '\\' || c == '*') literal.push_back('\\');
    literal.push_back(c);
  }
  ListQuery query;
  query.filter = absl::StrCat("summary = \"", literal, "\"");
  query.order_by = "validation";
  const auto found = readOne(*store_, [&](Reader& r) { return r.listRecords(query); });
  ASSERT_OK(found.status());
  ASSERT_EQ(found->items.size(), 1u);
  EXPECT_EQ(found->items[0].workload_summary(), record.workload_summary());
}

}  // namespace
}  // namespace tessera::storage
