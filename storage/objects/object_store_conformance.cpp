// The suite that each kind of object store passes.
#include "storage/objects/object_store_conformance.h"

#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "storage/conformance/samples.h"

namespace tessera::storage {
namespace {

/// Bytes without a period that a part could hide.
std::string someBytes(size_t size) {
  std::string bytes(size, '\0');
  uint32_t state = 1;
  for (char& byte : bytes) byte = static_cast<char>((state = state * 1'664'525 + 1'013'904'223) >> 24);
  return bytes;
}

TEST_P(ObjectStoreConformance, StoredBytesComeBackWholeAndInRanges) {
  const auto part = static_cast<size_t>(GetParam().part_bytes);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1000}, part, part + 1, 2 * part + 77}) {
    const std::string bytes = someBytes(size);
    const std::string name = absl::StrCat("blobs/", sha256Hex(bytes));
    ASSERT_OK(putObject(*store_, name, bytes));
    EXPECT_EQ(*getObject(*store_, name), bytes);
    const auto end = static_cast<int64_t>(size);
    for (const int64_t offset : {int64_t{0}, int64_t{1}, end / 2, end - 1, end}) {
      if (offset < 0 || offset > end) continue;
      EXPECT_EQ(*getObject(*store_, name, offset), bytes.substr(static_cast<size_t>(offset)));
      EXPECT_EQ(*getObject(*store_, name, offset, 5), bytes.substr(static_cast<size_t>(offset), 5));
    }
    EXPECT_TRUE(absl::IsOutOfRange(getObject(*store_, name, end + 1).status())) << size;
  }
}

TEST_P(ObjectStoreConformance, AnObjectIsReplacedAndRemoved) {
  ASSERT_OK(putObject(*store_, "blobs/abcdef", "first"));
  ASSERT_OK(putObject(*store_, "blobs/abcdef", "second, longer"));
  EXPECT_EQ(*getObject(*store_, "blobs/abcdef"), "second, longer");
  ASSERT_OK(store_->remove("blobs/abcdef"));
  EXPECT_TRUE(absl::IsNotFound(getObject(*store_, "blobs/abcdef").status()));
  EXPECT_TRUE(absl::IsNotFound(getObject(*store_, "blobs/abcdef", 3).status()));
  EXPECT_OK(store_->remove("blobs/abcdef"));
  EXPECT_TRUE(namesIn(*store_, "blobs/").empty());
}

TEST_P(ObjectStoreConformance, BytesThatAreNotTheDigestsAreNotStored) {
  const std::string bytes = someBytes(static_cast<size_t>(GetParam().part_bytes) + 3);
  for (const std::string& wrong : {bytes.substr(1), "x" + bytes.substr(1), bytes.substr(0, bytes.size() - 1) + "x"}) {
    const absl::Status status = putObject(*store_, "blobs/abcd", wrong, bytes);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_TRUE(absl::IsNotFound(getObject(*store_, "blobs/abcd").status()));
  }
  EXPECT_TRUE(absl::IsDataLoss(putObject(*store_, "blobs/abcd", "short", "other")));
  EXPECT_TRUE(namesIn(*store_, "blobs/").empty());
}

TEST_P(ObjectStoreConformance, AListingIsSortedAndContinues) {
  std::map<std::string, int64_t> expected;
  for (int i = 0; i < 30; ++i) {
    const std::string bytes(static_cast<size_t>(i), 'b');
    const std::string name = absl::StrCat("blobs/", sha256Hex(bytes));
    ASSERT_OK(putObject(*store_, name, bytes));
    expected[name] = i;
  }
  ASSERT_OK(putObject(*store_, "partials/abc_1_2_vision", "other"));
  std::vector<std::string> names;
  for (const auto& [name, bytes] : expected) names.push_back(name);
  EXPECT_EQ(namesIn(*store_, "blobs/"), names);
  EXPECT_EQ(namesIn(*store_, "partials/abc_"), std::vector<std::string>{"partials/abc_1_2_vision"});
  EXPECT_TRUE(namesIn(*store_, "partials/abd_").empty());
  for (const size_t first : {size_t{0}, size_t{7}, names.size() - 1}) {
    EXPECT_EQ(namesIn(*store_, "blobs/", names[first]),
              std::vector<std::string>(names.begin() + static_cast<ptrdiff_t>(first) + 1, names.end()));
    // Just before a name: that name is visited.
    EXPECT_EQ(namesIn(*store_, "blobs/", names[first].substr(0, names[first].size() - 1), 2).front(), names[first]);
    const std::string prefix = names[first].substr(0, 8);
    std::vector<std::string> some;
    for (const std::string& name : names) {
      if (name.substr(0, 8) == prefix) some.push_back(name);
    }
    EXPECT_EQ(namesIn(*store_, prefix), some);
  }
  EXPECT_EQ(namesIn(*store_, "blobs/", "", 3).size(), 3u);
  ASSERT_OK(store_->list("blobs/", "", [&](const ObjectInfo& object) {
    EXPECT_EQ(object.bytes, expected[object.name]);
    EXPECT_LT(object.age_s, 3600);
    return true;
  }));
}

TEST_P(ObjectStoreConformance, TheSinkEndsARead) {
  const std::string bytes = someBytes(static_cast<size_t>(GetParam().part_bytes) * 3);
  ASSERT_OK(putObject(*store_, "blobs/abcd", bytes));
  int chunks = 0;
  EXPECT_TRUE(absl::IsCancelled(store_->get("blobs/abcd", 0, 0, [&](std::string_view) {
    ++chunks;
    return absl::CancelledError("enough");
  })));
  EXPECT_EQ(chunks, 1);
  EXPECT_EQ(*getObject(*store_, "blobs/abcd"), bytes) << "the next request is not affected";
}

TEST_P(ObjectStoreConformance, ManyThreadsUseIt) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        const std::string bytes = absl::StrCat("object ", i), name = "blobs/" + sha256Hex(bytes);
        EXPECT_OK(putObject(*store_, name, bytes));
        EXPECT_EQ(*getObject(*store_, name), bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(namesIn(*store_, "blobs/").size(), 10u);
}

TEST_P(ObjectStoreConformance, WritingIsTriedOutAndNothingIncompleteStays) {
  EXPECT_OK(store_->checkWritable());
  EXPECT_OK(store_->checkWritable());
  EXPECT_TRUE(namesIn(*store_, "blobs/").empty());
  EXPECT_EQ(*store_->removeIncomplete(0), 0);
}

TEST_P(ObjectStoreConformance, RequestsAreCounted) {
  ASSERT_OK(putObject(*store_, "blobs/abcd", "12345"));
  EXPECT_EQ(store_->requests().puts, 1);
  EXPECT_EQ(store_->requests().bytes_sent, 5);
  ASSERT_OK(getObject(*store_, "blobs/abcd", 2).status());
  EXPECT_EQ(store_->requests().gets, 1);
  EXPECT_EQ(store_->requests().bytes_received, 3);
  EXPECT_EQ(namesIn(*store_, "blobs/").size(), 1u);
  ASSERT_OK(store_->remove("blobs/abcd"));
  EXPECT_EQ(store_->requests().lists, 1);
  EXPECT_EQ(store_->requests().deletes, 1);
  EXPECT_EQ(store_->requests().heads + store_->requests().retries + store_->requests().failures, 0);
}

}  // namespace
}  // namespace tessera::storage
