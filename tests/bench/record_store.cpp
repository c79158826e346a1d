// A tuning database with a million records: inserts per second, and query times when it is full.
//   ninja -C build/release record_store && build/release/bin/record_store [--records N] [FOLDER]
// FOLDER selects the disk; the default is the temporary folder. Not a test; needs 2 GB.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/schedule/text.h"
#include "proto/messages/project.h"
#include "proto/support/status_macros.h"
#include "storage/sqlite_store.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTrials = 200;  // records of one search, inserted consecutively
constexpr int kAtOnce = 500;  // of one transaction: one message of an import
constexpr int kQuestions = 2000;

constexpr const char* kTree =
    "vectors 512\n"
    "[i0:Sp(core)/1 i1:Tp/32] pack nest 0 operand 1 vectors i1 x16 tile i1:32\n"
    "[i1:Sp(core)/96 i0:Tp/14 i1:Tp/32] outer-product nest 0 vectors i1 x16 tile i0:14,i1:32,r2:4 points i0,i1 sums r2 "
    "fetch ahead 8\n"
    "  stage panels operand 1 along i1 order i1,r2\n";

[[noreturn]] void fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(1);
}

std::string workloadOf(int64_t search) { return "workload-" + std::to_string(search * 7919 % 5000); }

v1::TuningRecord recordOf(int64_t number, const v1::Schedule& tree, std::mt19937_64& random) {
  const int64_t search = number / kTrials;
  v1::TuningRecord record;
  char id[64];  // in the server's order: searches by start time
  std::snprintf(id, sizeof(id), "search-%013llx-%016llx-%d", 1'700'000'000'000'000LL + search * 200'000LL,
                static_cast<unsigned long long>(search) * 0x9e3779b97f4a7c15ULL, static_cast<int>(number % kTrials));
  record.set_id(id);
  record.set_workload_hash(workloadOf(search));
  record.set_workload_summary("conv2d 3x3 s1 " + std::to_string(search * 7919 % 5000) + " + add + relu");
  record.set_target_name(search % 3 == 0 ? "zen4" : "cascadelake");
  record.set_target_hash("hash of " + record.target_name());
  *record.mutable_schedule() = tree;
  record.mutable_schedule()->mutable_phases(1)->mutable_kernel()->mutable_tile(0)->set_size(
      1 + static_cast<int64_t>(random() % 28));
  for (int run = 0; run < 7; ++run) record.add_times_ms(1 + static_cast<double>(random() % 100'000) / 1e4);
  record.set_median_ms(record.times_ms(3));
  record.set_baseline_ms(5);
  record.set_outcome(random() % 8 == 0 ? v1::TuningRecord::REFUSED : v1::TuningRecord::PASSED);
  record.set_hostname("host" + std::to_string(search % 12));
  record.set_cpu_model("a processor");
  record.set_mode(search % 5 == 0 ? "profile" : "search");
  record.set_method(search % 2 == 0 ? "q" : "model");
  record.set_threads(search % 4 == 0 ? 2 : 1);
  record.set_trial(static_cast<int32_t>(number % kTrials));
  record.set_job_id("job-" + std::to_string(search / 20));
  record.set_artifact_id("artifact-" + std::to_string(number / 50));
  record.set_create_time_us(1'700'000'000'000'000 + number * 1000);
  return record;
}

/// Number of rows of an answer: a query without results would measure nothing.
struct Question {
  const char* name;
  std::function<absl::StatusOr<size_t>(storage::Reader&, int64_t search)> ask;
};

absl::StatusOr<size_t> list(storage::Reader& reader, const std::string& filter, const char* order, int size) {
  TESSERA_ASSIGN_OR_RETURN(
      const auto page,
      reader.listRecords(
          {.page_size = size, .page_token = "", .filter = filter, .order_by = order, .project = kDefaultProject}));
  return page.items.size();
}

absl::StatusOr<size_t> best(storage::Reader& reader, const storage::BestQuery& query) {
  TESSERA_ASSIGN_OR_RETURN(const auto page, reader.bestRecords(query));
  size_t records = 0;
  for (const storage::BestGroup& group : page.items) records += group.records.size();
  return records;
}

std::vector<Question> questions() {
  const auto quoted = [](const std::string& field, const std::string& value) { return field + " = \"" + value + "\""; };
  return {
      {"best of a workload",
       [](auto& r, int64_t s) { return best(r, {.project = kDefaultProject, .workloads = {workloadOf(s)}}); }},
      {"top 10 of a workload, chip and threads",
       [](auto& r, int64_t s) {
         return best(r, {.project = kDefaultProject,
                         .workloads = {workloadOf(s)},
                         .target = "cascadelake",
                         .threads = 1,
                         .top = 10});
       }},
      {"best of 50 groups from the start",
       [](auto& r, int64_t) { return best(r, {.project = kDefaultProject, .page_size = 50}); }},
      {"list: workload and target by time, 10",
       [&](auto& r, int64_t s) {
         return list(r, "workload = \"" + workloadOf(s) + "\" AND target = cascadelake", "median_ms", 10);
       }},
      {"list: artifact, 10",
       [=](auto& r, int64_t s) { return list(r, quoted("artifact", "artifact-" + std::to_string(s)), "", 10); }},
      {"list: host, newest 10",
       [=](auto& r, int64_t s) {
         return list(r, quoted("host", "host" + std::to_string(s % 12)), "create_time desc", 10);
       }},
      {"list: summary, 10",
       [=](auto& r, int64_t s) {
         return list(r, quoted("summary", "conv2d 3x3 s1 " + std::to_string(s % 5000) + " + add + relu"), "", 10);
       }},
      {"list: mode, newest 10", [](auto& r, int64_t) { return list(r, "mode = profile", "create_time desc", 10); }},
      {"list: fastest against their default, 10",
       [](auto& r, int64_t) { return list(r, "speed > 1", "speed desc", 10); }},
      {"list: job and mode, 10",
       [](auto& r, int64_t s) {
         return list(r, "job = \"job-" + std::to_string(s / 20) + "\" AND mode = search", "create_time desc", 10);
       }},
  };
}

void fill(storage::Store& store, int64_t records) {
  const auto tree = compiler::parseSchedule(kTree);
  if (!tree.ok()) fail(tree.status());
  std::mt19937_64 random(1);
  const auto start = Clock::now();
  auto last = start;
  double slowest = HUGE_VAL;
  for (int64_t from = 0; from < records; from += kAtOnce) {
    const absl::Status status = store.transact([&](storage::Transaction& tx) -> absl::Status {
      for (int64_t number = from; number < std::min(records, from + kAtOnce); ++number)
        TESSERA_RETURN_IF_ERROR(tx.putRecord(recordOf(number, *tree, random)));
      return absl::OkStatus();
    });
    if (!status.ok()) fail(status);
    if ((from + kAtOnce) % 100'000 != 0) continue;
    const double seconds = std::chrono::duration<double>(Clock::now() - last).count();
    slowest = std::min(slowest, 100'000 / seconds);
    std::printf("  %lld records: the last hundred thousand at %.0f a second\n", static_cast<long long>(from) + kAtOnce,
                100'000 / seconds);
    std::fflush(stdout);
    last = Clock::now();
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::printf("%lld records in transactions of %d: %.0f inserts/s", static_cast<long long>(records), kAtOnce,
              static_cast<double>(records) / seconds);
  if (slowest < HUGE_VAL) std::printf(", the slowest hundred thousand %.0f", slowest);
  std::printf("\n");
}

void ask(storage::Store& store, const Question& question, int64_t searches) {
  std::mt19937_64 random(2);
  std::vector<double> times_ms;
  size_t rows = 0;
  for (int round = 0; round < kQuestions; ++round) {
    const auto search = static_cast<int64_t>(random() % static_cast<uint64_t>(searches));
    const auto start = Clock::now();
    const absl::Status status = store.read([&](storage::Reader& reader) {
      const auto found = question.ask(reader, search);
      if (found.ok()) rows += *found;
      return found.status();
    });
    if (!status.ok()) fail(status);
    times_ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  if (rows == 0) fail(absl::InternalError(absl::StrCat(question.name, ": nothing was found")));
  std::sort(times_ms.begin(), times_ms.end());
  std::printf("  %-42s median %7.3f ms   99th percentile %7.3f ms   slowest %7.3f ms   %5.1f rows\n", question.name,
              times_ms[kQuestions / 2], times_ms[kQuestions * 99 / 100], times_ms.back(),
              static_cast<double>(rows) / kQuestions);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  int64_t records = 1'000'000;
  std::filesystem::path folder = std::filesystem::temp_directory_path();
  for (int at = 1; at < argc; ++at) {
    if (std::strcmp(argv[at], "--records") == 0 && at + 1 < argc) {
      if (!absl::SimpleAtoi(argv[++at], &records) || records < 1) fail(absl::InvalidArgumentError("--records N"));
    } else {
      folder = argv[at];
    }
  }
  folder /= "record_store-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  {
    auto store = storage::openSqliteStore((folder / "records.db").string());
    if (!store.ok()) fail(store.status());
    fill(**store, records);
    for (const Question& question : questions()) ask(**store, question, std::max<int64_t>(1, records / kTrials));
  }
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::run(argc, argv); }
