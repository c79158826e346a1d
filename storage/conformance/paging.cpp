// Lists: pages are complete and free of duplicates, in each order, under concurrent writes.
#include <algorithm>
#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "storage/conformance/samples.h"

namespace tessera::storage {
namespace {

/// Collects all items, page by page.
std::vector<v1::TuningRecord> allRecords(Store& store, ListQuery query) {
  std::vector<v1::TuningRecord> records;
  do {
    auto page = readOne(store, [&](Reader& r) { return r.listRecords(query); });
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok()) break;
    EXPECT_LE(static_cast<int>(page->items.size()), query.page_size);
    records.insert(records.end(), page->items.begin(), page->items.end());
    query.page_token = page->next_page_token;
  } while (!query.page_token.empty());
  return records;
}

TEST_P(StoreConformance, PagesJoinToTheWholeOrderedList) {
  std::mt19937 random(1);
  ASSERT_OK(store_->transact([&](Transaction& t) {
    for (int i = 0; i < 137; ++i) {
      v1::TuningRecord record = sampleRecord(absl::StrCat("r", i), random() % 7 / 3.0, random() % 5);
      record.set_target_name(i % 3 ? "zen4" : "haswell");
      EXPECT_TRUE(t.putRecord(record).ok());
    }
    return absl::OkStatus();
  }));
  using Record = v1::TuningRecord;
  using Less = bool (*)(const Record&, const Record&);
  const std::pair<const char*, Less> orders[] = {
      {"",
       [](const Record& a, const Record& b) {
         return std::pair(a.create_time_us(), a.id()) < std::pair(b.create_time_us(), b.id());
       }},
      {"id desc", [](const Record& a, const Record& b) { return a.id() > b.id(); }},
      {"median_ms desc",
       [](const Record& a, const Record& b) {
         return std::pair(a.median_ms(), a.id()) > std::pair(b.median_ms(), b.id());
       }},
      {"target, median_ms",
       [](const Record& a, const Record& b) {
         return std::tuple(a.target_name(), a.median_ms(), a.id()) < std::tuple(b.target_name(), b.median_ms(), b.id());
       }},
      {" target desc ,median_ms asc, create_time desc",
       [](const Record& a, const Record& b) {
         return std::tuple(b.target_name(), a.median_ms(), b.create_time_us(), b.id()) <
                std::tuple(a.target_name(), b.median_ms(), a.create_time_us(), a.id());
       }},
  };
  for (const auto& [order_by, less] : orders) {
    for (int page_size : {1, 10, 137, 1000}) {
      const auto records =
          allRecords(*store_, {.page_size = page_size, .page_token = "", .filter = "", .order_by = order_by});
      std::set<std::string> ids;
      for (const Record& record : records) ids.insert(record.id());
      EXPECT_EQ(ids.size(), 137u) << order_by;
      EXPECT_EQ(records.size(), 137u) << order_by << ", pages of " << page_size;
      EXPECT_TRUE(std::is_sorted(records.begin(), records.end(), less)) << order_by;
    }
  }
}

TEST_P(StoreConformance, PagingIsStableWhileOthersInsert) {
  constexpr int kBefore = 300;
  ASSERT_OK(store_->transact([&](Transaction& t) {
    for (int i = 0; i < kBefore; ++i) EXPECT_TRUE(t.putRecord(sampleRecord(absl::StrCat("old", i), i % 10, i)).ok());
    return absl::OkStatus();
  }));
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    std::mt19937 random(2);
    // A store without a disk inserts faster than pages are read; end the list at some point.
    for (int i = 0; !stop && i < 3000; ++i) {
      absl::Status status = store_->transact([&](Transaction& t) {
        return t.putRecord(sampleRecord(absl::StrCat("new", i), random() % 10, random() % 300));
      });
      EXPECT_TRUE(status.ok()) << status;
    }
  });
  for (const char* order_by : {"create_time", "create_time desc", "median_ms desc, create_time"}) {
    const auto records = allRecords(*store_, {.page_size = 7, .page_token = "", .filter = "", .order_by = order_by});
    std::set<std::string> seen;
    int old = 0;
    for (const v1::TuningRecord& record : records) {
      EXPECT_TRUE(seen.insert(record.id()).second) << record.id() << " came twice";
      old += record.id().starts_with("old");
    }
    EXPECT_EQ(old, kBefore) << order_by;
  }
  stop = true;
  writer.join();
}

TEST_P(StoreConformance, PageTokensFitOnlyTheirQuery) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(t.putRecord(sampleRecord(absl::StrCat("r", i), i)).ok());
      EXPECT_TRUE(t.insertJob(sampleJob(absl::StrCat("j", i)), "h", "").ok());
    }
    return absl::OkStatus();
  }));
  const ListQuery first = {.page_size = 2, .page_token = "", .filter = "median_ms >= 0", .order_by = "median_ms"};
  const std::string token = readOne(*store_, [&](Reader& r) { return r.listRecords(first); })->next_page_token;
  ASSERT_FALSE(token.empty());
  const auto statusOf = [&](ListQuery query) {
    return readOne(*store_, [&](Reader& r) { return r.listRecords(query); }).status();
  };
  ListQuery query = first;
  query.page_token = token;
  query.page_size = 3;  // another page size is accepted
  EXPECT_TRUE(statusOf(query).ok());
  ListQuery other = query;
  other.filter = "median_ms >= 1";
  EXPECT_TRUE(absl::IsInvalidArgument(statusOf(other)));
  other = query;
  other.order_by = "median_ms desc";
  EXPECT_TRUE(absl::IsInvalidArgument(statusOf(other)));
  EXPECT_TRUE(absl::IsInvalidArgument(readOne(*store_, [&](Reader& r) {
                                        return r.listJobs(
                                            {.page_size = 0, .page_token = token, .filter = "", .order_by = ""});
                                      }).status()));
  for (size_t i = 0; i < token.size(); ++i) {
    other = query;
    other.page_token[i] = other.page_token[i] == 'A' ? 'B' : 'A';
    absl::Status status = statusOf(other);
    // The unused low bits of the last base64 character may change without effect.
    EXPECT_TRUE(absl::IsInvalidArgument(status) || i + 1 == token.size()) << i << ": " << status;
  }
  for (const char* junk : {"x", "!!!!", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}) {
    other.page_token = junk;
    EXPECT_THAT(std::string(statusOf(other).message()), testing::HasSubstr("page_token: found"));
  }
}

TEST_P(StoreConformance, ListMistakesAreNamed) {
  const auto messageOf = [&](ListQuery query) {
    return std::string(readOne(*store_, [&](Reader& r) { return r.listJobs(query); }).status().message());
  };
  EXPECT_EQ(messageOf({}), "");
  EXPECT_THAT(messageOf({.page_size = -1, .page_token = "", .filter = "", .order_by = ""}),
              testing::HasSubstr("page_size: found -1; accepted: 0"));
  EXPECT_THAT(messageOf({.page_size = 0, .page_token = "", .filter = "", .order_by = "colour"}),
              testing::AllOf(testing::HasSubstr("\"colour\""), testing::HasSubstr("create_time")));
  EXPECT_THAT(messageOf({.page_size = 0, .page_token = "", .filter = "", .order_by = "name up"}),
              testing::HasSubstr("asc or desc"));
  EXPECT_THAT(messageOf({.page_size = 0, .page_token = "", .filter = "", .order_by = "name, name"}),
              testing::HasSubstr("twice"));
  EXPECT_THAT(messageOf({.page_size = 0, .page_token = "", .filter = "", .order_by = "name,"}),
              testing::HasSubstr("order_by"));
  EXPECT_THAT(messageOf({.page_size = 0, .page_token = "", .filter = "colour = red", .order_by = ""}),
              testing::HasSubstr("filter, character 1"));
}

TEST_P(StoreConformance, PagesOfLargeItemsEndEarly) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    for (int i = 0; i < 6; ++i) {
      v1::Job job = sampleJob(absl::StrCat("j", i), i);
      job.clear_compile();
      job.mutable_execute()->add_inputs()->set_data(std::string(1 << 20, 'x'));
      EXPECT_TRUE(t.insertJob(job, "h", "").ok());
    }
    return absl::OkStatus();
  }));
  ListQuery query;
  std::vector<std::string> ids;
  do {
    auto page = readOne(*store_, [&](Reader& r) { return r.listJobs(query); });
    ASSERT_OK(page.status());
    size_t bytes = 0;
    for (const v1::Job& job : page->items) {
      ids.push_back(job.id());
      bytes += job.ByteSizeLong();
    }
    EXPECT_LT(bytes, 4u << 20) << "the default limit of a gRPC message";
    query.page_token = page->next_page_token;
  } while (!query.page_token.empty());
  EXPECT_THAT(ids, testing::ElementsAre("j5", "j4", "j3", "j2", "j1", "j0"));
}

}  // namespace
}  // namespace tessera::storage
