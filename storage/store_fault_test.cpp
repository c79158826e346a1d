// Crashes and full disks. A child process writes and reports each acknowledged write through a pipe. It is killed at a
// random moment. Then all reported writes must exist, and no group of writes may exist in part.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <random>
#include <semaphore>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "storage/blob_store.h"
#include "storage/conformance/samples.h"
#include "storage/scratch_folder.h"
#include "storage/sqlite_store.h"

namespace tessera::storage {
namespace {

constexpr int kRounds = 20;
constexpr int kWriters = 4;
constexpr int kUnderWay = 16;  ///< asynchronous transactions in flight

/// A report of one write. Writes below PIPE_BUF are atomic, also when the writer is killed.
struct Report {
  int writer;
  int number;
};

class Child {
 public:
  /// Runs `body` in a child process with the write end of the pipe.
  explicit Child(const std::function<int(int pipe)>& body) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    process_ = fork();
    if (process_ == 0) {
      close(ends[0]);
      _exit(body(ends[1]));
    }
    close(ends[1]);
    pipe_ = ends[0];
  }
  ~Child() { close(pipe_); }
  void killAfter(std::chrono::microseconds delay) {
    std::this_thread::sleep_for(delay);
    kill(process_, SIGKILL);
  }
  /// All reports until the child has ended.
  std::vector<Report> reports() {
    std::vector<Report> all;
    Report report{};
    while (read(pipe_, &report, sizeof report) == sizeof report) all.push_back(report);
    return all;
  }
  /// The exit status as of waitpid.
  int wait() {
    int status = 0;
    EXPECT_EQ(waitpid(process_, &status, 0), process_);
    return status;
  }

 private:
  pid_t process_ = -1;
  int pipe_ = -1;
};

std::string idOf(int round, const Report& report) {
  return absl::StrCat(round, ".", report.writer, ".", report.number);
}

/// Writes a job, its action, its task and an event atomically.
absl::Status writeGroup(Transaction& t, const std::string& id) {
  absl::Status status = t.putAction(sampleAction(id, id));
  if (status.ok()) status = t.insertJob(sampleJob(id), "hash", id);
  if (status.ok()) status = t.putTask(sampleTask(id));
  if (status.ok()) status = t.linkTask(id, id);
  if (!status.ok()) return status;
  v1::JobEvent event;
  event.set_job_id("log");
  event.mutable_attempt()->set_task_id(id);
  return t.appendEvent(event).status();
}

/// Returns the ids of complete groups in a reopened store. Fails the test on an incomplete group.
std::set<std::string> wholeGroups(Store& store) {
  std::set<std::string> logged;
  std::set<std::string> jobs;
  EXPECT_OK(store.read([&](Reader& r) -> absl::Status {
    int64_t cursor = 0;
    while (true) {
      TESSERA_ASSIGN_OR_RETURN(auto events, r.eventsAfter("log", cursor, 1000));
      if (events.empty()) break;
      for (const v1::JobEvent& event : events) {
        EXPECT_EQ(event.sequence(), ++cursor) << "a gap in the event numbers";
        logged.insert(event.attempt().task_id());
      }
    }
    ListQuery query = {.page_size = 1000, .page_token = "", .filter = "id != log", .order_by = "id"};
    do {
      TESSERA_ASSIGN_OR_RETURN(auto page, r.listJobs(query));
      for (const v1::Job& job : page.items) {
        jobs.insert(job.id());
        EXPECT_TRUE(r.getAction(job.id()).ok()) << job.id();
        EXPECT_EQ(*r.actionsOfTask(job.id()), std::vector<std::string>{job.id()});
        EXPECT_EQ(r.tasksOfAction(job.id())->size(), 1u);
      }
      query.page_token = page.next_page_token;
    } while (!query.page_token.empty());
    return absl::OkStatus();
  }));
  EXPECT_EQ(logged, jobs);
  return jobs;
}

void makeLog(const std::string& path) {
  auto store = openSqliteStore(path);
  ASSERT_OK(store.status());
  ASSERT_OK((*store)->transact([](Transaction& t) { return t.insertJob(sampleJob("log"), "hash", ""); }));
}

TEST(StoreFault, AcknowledgedTransactionsSurviveKill) {
  ScratchFolder folder;
  const std::string path = folder.file("tessera.db");
  makeLog(path);
  std::mt19937 random(20260131);
  std::set<std::string> acknowledged;
  for (int round = 0; round < kRounds; ++round) {
    Child child([&](int pipe) {
      auto store = openSqliteStore(path);
      if (!store.ok()) return 1;
      std::counting_semaphore<> under_way(kUnderWay);
      std::vector<std::thread> writers;
      for (int writer = 0; writer < kWriters; ++writer) {
        writers.emplace_back([&, writer] {
          for (int number = 0;; ++number) {
            const Report report = {writer, number};
            const auto body = [round, report](Transaction& t) { return writeGroup(t, idOf(round, report)); };
            const auto done = [&, report](const absl::Status& status) {
              if (!status.ok() || write(pipe, &report, sizeof report) != sizeof report) _exit(2);
            };
            if (writer % 2 == 0) {
              done((*store)->transact(body));
              continue;
            }
            // Half of the writers use transactAsync(), with several transactions in flight each.
            under_way.acquire();
            (*store)->transactAsync(body, [&, done](const absl::Status& status) {
              done(status);
              under_way.release();
            });
          }
        });
      }
      for (std::thread& writer : writers) writer.join();
      return 0;
    });
    child.killAfter(std::chrono::microseconds(random() % 150'000));
    for (const Report& report : child.reports()) acknowledged.insert(idOf(round, report));
    const int status = child.wait();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the child ended by itself: " << status;
    auto store = openSqliteStore(path);
    ASSERT_OK(store.status());
    const std::set<std::string> found = wholeGroups(**store);
    for (const std::string& id : acknowledged) ASSERT_TRUE(found.contains(id)) << id << " was acknowledged and is lost";
  }
  EXPECT_GT(acknowledged.size(), 100u) << "the rounds must have written something to speak of";
  RecordProperty("acknowledged", static_cast<int>(acknowledged.size()));
}

/// Limits the size of files that this process writes; 0 removes the limit.
void limitFileSize(rlim_t bytes) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes ? bytes : limit.rlim_max;
  setrlimit(RLIMIT_FSIZE, &limit);
}

TEST(StoreFault, AFullDiskIsAnErrorAndLosesNothing) {
  ScratchFolder folder;
  const std::string path = folder.file("tessera.db");
  makeLog(path);
  constexpr int kAfterwards = 1'000'000;
  Child child([&](int pipe) {
    auto store = openSqliteStore(path);
    if (!store.ok()) return 1;
    int refused = 0;
    // With 2 MiB, the log fills up and is copied into the database until the database is full as well.
    limitFileSize(2 << 20);
    for (int number = 0; refused < 5; ++number) {
      const Report report = {0, number};
      absl::Status status = (*store)->transact([&](Transaction& t) { return writeGroup(t, idOf(0, report)); });
      if (status.ok() && write(pipe, &report, sizeof report) != sizeof report) return 2;
      if (status.ok()) continue;
      if (!absl::IsResourceExhausted(status) && !absl::IsUnavailable(status)) return 3;
      ++refused;
      // Reads still succeed.
      if (!readOne(**store, [](Reader& r) { return r.getJob("log"); }).ok()) return 4;
    }
    limitFileSize(0);
    const Report report = {0, kAfterwards};
    if (!(*store)->transact([&](Transaction& t) { return writeGroup(t, idOf(0, report)); }).ok()) return 5;
    return write(pipe, &report, sizeof report) == sizeof report ? 0 : 6;
  });
  const std::vector<Report> reports = child.reports();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_GT(reports.size(), 10u);
  auto store = openSqliteStore(path);
  ASSERT_OK(store.status());
  const std::set<std::string> found = wholeGroups(**store);
  for (const Report& report : reports) EXPECT_TRUE(found.contains(idOf(0, report))) << report.number;
  EXPECT_EQ(found.size(), reports.size()) << "what was refused left nothing";
}

/// Content of blob `number`: random size up to about 400 kB.
std::string blobBytes(int writer, int number) {
  std::string bytes = absl::StrCat(writer, "/", number, "/");
  bytes.resize(bytes.size() + static_cast<size_t>(number * 7919 % 400'000), static_cast<char>('a' + number % 26));
  return bytes;
}

v1::Digest digestOf(const std::string& bytes) {
  v1::Digest digest;
  digest.set_sha256(sha256Hex(bytes));
  digest.set_size_bytes(static_cast<int64_t>(bytes.size()));
  return digest;
}

/// Uploads the missing part of a blob in chunks.
absl::Status uploadRest(BlobStore& store, const std::string& bytes) {
  const v1::Digest digest = digestOf(bytes);
  TESSERA_ASSIGN_OR_RETURN(int64_t at, store.committedBytes(digest));
  TESSERA_ASSIGN_OR_RETURN(auto upload, store.startUpload(digest, at));
  for (auto offset = static_cast<size_t>(at); offset < bytes.size(); offset += 10'000) {
    TESSERA_RETURN_IF_ERROR(upload->write(std::string_view(bytes).substr(offset, 10'000)));
  }
  return upload->commit();
}

TEST(BlobFault, AcknowledgedBlobsSurviveKillAndUploadsResume) {
  ScratchFolder folder;
  const std::string root = folder.file("blobs");
  std::mt19937 random(31);
  int acknowledged = 0;
  int resumed = 0;
  int next[kWriters] = {};
  // On a slow disk it takes more rounds until a kill hits an upload in progress.
  const auto enough = [&](int round) { return round >= kRounds && acknowledged > 100 && resumed > 0; };
  for (int round = 0; !enough(round) && round < 20 * kRounds; ++round) {
    Child child([&](int pipe) {
      auto store = openBlobStore(root);
      if (!store.ok()) return 1;
      std::vector<std::thread> writers;
      for (int writer = 0; writer < kWriters; ++writer) {
        writers.emplace_back([&, writer] {
          for (int number = next[writer];; ++number) {
            const Report report = {writer, number};
            absl::Status status = uploadRest(**store, blobBytes(writer, number));
            if (!status.ok() || write(pipe, &report, sizeof report) != sizeof report) _exit(2);
          }
        });
      }
      for (std::thread& writer : writers) writer.join();
      return 0;
    });
    child.killAfter(std::chrono::microseconds(random() % 100'000));
    const std::vector<Report> reports = child.reports();
    const int status = child.wait();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the child ended by itself: " << status;
    auto store = openBlobStore(root);
    ASSERT_OK(store.status());
    const auto sound = [&](const std::string& bytes) {
      std::string found;
      absl::Status read = (*store)->get(sha256Hex(bytes), 0, 0, [&](std::string_view chunk) {
        found.append(chunk);
        return absl::OkStatus();
      });
      return read.ok() && found == bytes;
    };
    for (const Report& report : reports) {
      ASSERT_TRUE(sound(blobBytes(report.writer, report.number))) << report.writer << "/" << report.number;
      next[report.writer] = std::max(next[report.writer], report.number + 1);
      ++acknowledged;
    }
    for (int writer = 0; writer < kWriters; ++writer) {  // the blob in progress
      const std::string bytes = blobBytes(writer, next[writer]);
      const int64_t committed = *(*store)->committedBytes(digestOf(bytes));
      resumed += committed > 0 && committed < static_cast<int64_t>(bytes.size());
      EXPECT_EQ((*store)->contains(sha256Hex(bytes)), sound(bytes)) << "present means whole";
      EXPECT_OK(uploadRest(**store, bytes));
      EXPECT_TRUE(sound(bytes));
    }
  }
  EXPECT_GT(acknowledged, 100);
  EXPECT_GT(resumed, 0) << "no kill hit an upload midway";
}

TEST(BlobFault, AFullDiskIsAnErrorAndTheUploadResumes) {
  ScratchFolder folder;
  const std::string root = folder.file("blobs");
  const std::string bytes(300'000, 'x');
  Child child([&](int) {
    auto store = openBlobStore(root);
    if (!store.ok()) return 1;
    limitFileSize(100'000);
    if (!absl::IsResourceExhausted((*store)->put(bytes).status())) return 2;
    if (!absl::IsResourceExhausted(uploadRest(**store, bytes))) return 3;
    if ((*store)->contains(sha256Hex(bytes))) return 4;
    limitFileSize(0);
    if (*(*store)->committedBytes(digestOf(bytes)) != 100'000) return 5;
    return uploadRest(**store, bytes).ok() ? 0 : 6;
  });
  EXPECT_EQ(child.wait(), 0);
  auto store = openBlobStore(root);
  ASSERT_OK(store.status());
  EXPECT_OK((*store)->get(sha256Hex(bytes), 0, 0, [](std::string_view) { return absl::OkStatus(); }));
}

}  // namespace
}  // namespace tessera::storage
