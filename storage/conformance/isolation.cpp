// Transactions are atomic and isolated, and concurrent ones lose no updates.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "proto/support/status_macros.h"
#include "storage/conformance/samples.h"

namespace tessera::storage {
namespace {

TEST_P(StoreConformance, AFailedTransactionLeavesNothing) {
  absl::Status why = absl::AbortedError("changed my mind");
  EXPECT_EQ(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putAction(sampleAction("a", "k")).ok());
    EXPECT_TRUE(t.insertJob(sampleJob("j"), "h", "a").ok());
    EXPECT_TRUE(t.getJob("j").ok()) << "a transaction sees its own writes";
    EXPECT_EQ(t.liveActionsByKey("k")->size(), 1u);
    return why;
  }),
            why);
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_TRUE(absl::IsNotFound(r.getJob("j").status()));
    EXPECT_TRUE(absl::IsNotFound(r.getAction("a").status()));
    return absl::OkStatus();
  }));
  EXPECT_EQ(store_->read([&](Reader&) { return why; }), why);
}

TEST_P(StoreConformance, AFailedTransactionDoesNotHarmItsNeighbours) {
  // Failing and succeeding transactions are likely to share commits.
  constexpr int kThreads = 8;
  constexpr int kEach = 25;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kEach; ++i) {
        const std::string id = std::to_string(thread) + "." + std::to_string(i);
        absl::Status status = store_->transact([&](Transaction& t) {
          absl::Status put = t.putTask(sampleTask(id));
          return thread % 2 ? absl::CancelledError("on purpose") : put;
        });
        EXPECT_EQ(status.ok(), thread % 2 == 0) << status;
        if (status.ok()) {
          EXPECT_TRUE(readOne(*store_, [&](Reader& r) { return r.getTask(id); }).ok())
              << "what was acknowledged is visible at once";
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int i = 0; i < kEach; ++i) {
      const std::string id = std::to_string(thread) + "." + std::to_string(i);
      EXPECT_EQ(readOne(*store_, [&](Reader& r) { return r.getTask(id); }).ok(), thread % 2 == 0) << id;
    }
  }
}

TEST_P(StoreConformance, WhoDoesNotWaitIsToldWhatBecameOfIt) {
  constexpr int kTransactions = 100;
  std::mutex mutex;
  std::condition_variable told;
  std::vector<std::pair<std::string, absl::Status>> answers;
  for (int i = 0; i < kTransactions; ++i) {
    const std::string id = std::to_string(i);
    store_->transactAsync(
        [i, id](Transaction& t) {
          absl::Status put = t.putTask(sampleTask(id));
          return i % 2 ? absl::CancelledError("on purpose") : put;
        },
        [&, id](const absl::Status& status) {
          const std::lock_guard lock(mutex);
          answers.emplace_back(id, status);
          told.notify_one();
        });
  }
  std::unique_lock lock(mutex);
  told.wait(lock, [&] { return answers.size() == kTransactions; });
  std::set<std::string> ids;
  for (const auto& [id, status] : answers) {
    ids.insert(id);
    const bool kept = std::stoi(id) % 2 == 0;
    EXPECT_EQ(status.code(), kept ? absl::StatusCode::kOk : absl::StatusCode::kCancelled) << id;
    EXPECT_EQ(readOne(*store_, [&](Reader& r) { return r.getTask(id); }).ok(), kept) << id;
  }
  EXPECT_EQ(ids.size(), kTransactions) << "each once";
}

TEST_P(StoreConformance, OneThatNobodyWaitsForWithinAnotherIsPartOfIt) {
  EXPECT_TRUE(absl::IsAborted(store_->transact([&](Transaction&) {
    absl::Status inner = absl::UnknownError("not told");
    store_->transactAsync([](Transaction& t) { return t.putTask(sampleTask("inner")); },
                          [&](const absl::Status& status) { inner = status; });
    EXPECT_TRUE(inner.ok()) << inner;
    return absl::AbortedError("changed my mind");
  })));
  EXPECT_FALSE(readOne(*store_, [&](Reader& r) { return r.getTask("inner"); }).ok());
}

TEST_P(StoreConformance, ReadModifyWriteLosesNoUpdate) {
  constexpr int kThreads = 8;
  constexpr int kEach = 40;
  ASSERT_OK(store_->transact([](Transaction& t) { return t.putTask(sampleTask("t")); }));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        absl::Status status = store_->transact([](Transaction& t) -> absl::Status {
          TESSERA_ASSIGN_OR_RETURN(v1::Task task, t.getTask("t"));
          task.set_fencing_token(task.fencing_token() + 1);
          return t.putTask(task);
        });
        EXPECT_TRUE(status.ok()) << status;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(readOne(*store_, [](Reader& r) { return r.getTask("t"); })->fencing_token(), kThreads * kEach);
}

TEST_P(StoreConformance, AReadSeesOneSnapshot) {
  // A writer moves one unit at a time between two tasks; no reader may ever see the sum change.
  constexpr int kSum = 1000;
  ASSERT_OK(store_->transact([&](Transaction& t) {
    v1::Task from = sampleTask("from");
    from.set_fencing_token(kSum);
    EXPECT_TRUE(t.putTask(from).ok());
    return t.putTask(sampleTask("to"));
  }));
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int i = 0; i < 200; ++i) {
      absl::Status status = store_->transact([](Transaction& t) {
        v1::Task from = *t.getTask("from");
        v1::Task to = *t.getTask("to");
        from.set_fencing_token(from.fencing_token() - 1);
        to.set_fencing_token(to.fencing_token() + 1);
        absl::Status put = t.putTask(from);
        return put.ok() ? t.putTask(to) : put;
      });
      EXPECT_TRUE(status.ok()) << status;
    }
    stop = true;
  });
  std::vector<std::thread> readers;
  for (int thread = 0; thread < 6; ++thread) {
    readers.emplace_back([&] {
      do {
        absl::Status status = store_->read([&](Reader& r) {
          const int64_t from = r.getTask("from")->fencing_token();
          std::this_thread::yield();
          EXPECT_EQ(from + r.getTask("to")->fencing_token(), kSum);
          return absl::OkStatus();
        });
        EXPECT_TRUE(status.ok()) << status;
      } while (!stop);
    });
  }
  writer.join();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(readOne(*store_, [](Reader& r) { return r.getTask("to"); })->fencing_token(), 200);
}

TEST_P(StoreConformance, ATransactionWithinOneIsPartOfIt) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_OK(t.putTask(sampleTask("outer")));
    EXPECT_OK(store_->transact([&](Transaction& within) {
      EXPECT_OK(within.getTask("outer").status());
      return within.putTask(sampleTask("inner"));
    }));
    EXPECT_TRUE(absl::IsAborted(store_->transact([&](Transaction& within) {
      EXPECT_OK(within.putTask(sampleTask("undone")));
      return absl::AbortedError("on purpose");
    })));
    EXPECT_OK(store_->read([](Reader& r) { return r.getTask("inner").status(); }));
    EXPECT_TRUE(absl::IsNotFound(t.getTask("undone").status())) << "alone, at once";
    return absl::OkStatus();
  }));
  EXPECT_OK(readOne(*store_, [](Reader& r) { return r.getTask("outer"); }).status());
  EXPECT_OK(readOne(*store_, [](Reader& r) { return r.getTask("inner"); }).status());
  EXPECT_TRUE(absl::IsNotFound(readOne(*store_, [](Reader& r) { return r.getTask("undone"); }).status()));
  EXPECT_TRUE(absl::IsCancelled(store_->transact([&](Transaction&) {
    EXPECT_OK(store_->transact([&](Transaction& within) { return within.putTask(sampleTask("neither")); }));
    return absl::CancelledError("on purpose");
  })));
  EXPECT_TRUE(absl::IsNotFound(readOne(*store_, [](Reader& r) { return r.getTask("neither"); }).status()))
      << "it became durable with what is around it, or not at all";
}

TEST_P(StoreConformance, AReadWithinAReadSeesTheSameMomentAndATransactionIsRefused) {
  // Use as many readers as there are snapshots: a nested read that needed another snapshot would block for ever.
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      EXPECT_OK(store_->read([&](Reader&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return store_->read([](Reader& r) { return r.queueLength().status(); });
      }));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(absl::IsInternal(
      store_->read([&](Reader&) { return store_->transact([](Transaction&) { return absl::OkStatus(); }); })));
}

}  // namespace
}  // namespace tessera::storage
