#include "server/supervisor/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "server/supervisor/spawn.h"

namespace tessera::server {
namespace {

/// Waits until `fact` holds. The time limit only turns a hang into a failure.
bool eventually(const std::function<bool()>& fact) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!fact()) {
    if (std::chrono::steady_clock::now() > give_up) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

/// A "worker" that writes down its id and waits for a signal.
SupervisorOptions shellWorkers(const std::filesystem::path& folder, int count, const std::string& script) {
  SupervisorOptions options;
  options.workers = count;
  options.binary = "/bin/sh";
  options.arguments = {"-c", script, folder.string()};
  options.scratch_folder = folder.string();
  options.first_backoff = std::chrono::milliseconds(1);
  options.longest_backoff = std::chrono::milliseconds(20);
  return options;
}

class SupervisorTest : public testing::Test {
 public:
  SupervisorTest() : folder_(std::filesystem::temp_directory_path() / ("supervisor-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~SupervisorTest() override { std::filesystem::remove_all(folder_); }

 protected:
  std::function<void(const std::string&)> collect() {
    return [this](const std::string& id) {
      const std::lock_guard lock(mutex_);
      ended_.push_back(id);
    };
  }
  size_t endedCount() {
    const std::lock_guard lock(mutex_);
    return ended_.size();
  }

  const std::filesystem::path folder_;
  std::mutex mutex_;
  std::vector<std::string> ended_;
};

bool allUp(const Supervisor& supervisor) {
  const std::vector<pid_t> pids = supervisor.pids();
  return std::all_of(pids.begin(), pids.end(), [](pid_t pid) { return pid > 0; });
}

TEST_F(SupervisorTest, StartsAKilledWorkerAgainUnderItsId) {
  Supervisor supervisor(shellWorkers(folder_, 2, "exec sleep 1000"), collect());
  ASSERT_TRUE(eventually([&] { return allUp(supervisor); }));
  const std::vector<pid_t> before = supervisor.pids();
  EXPECT_EQ(getpgid(before[0]), before[0]) << "a process group of its own";
  ::kill(before[1], SIGKILL);
  ASSERT_TRUE(eventually([&] { return endedCount() == 1 && allUp(supervisor); }));
  EXPECT_EQ(supervisor.pids()[0], before[0]);
  EXPECT_NE(supervisor.pids()[1], before[1]);
  EXPECT_EQ(ended_, std::vector<std::string>{"local-1"});
}

TEST_F(SupervisorTest, DrainAsksAndStartsNobodyAgain) {
  Supervisor supervisor(shellWorkers(folder_, 2, "trap 'exit 0' TERM; while :; do sleep 0.01; done"), collect());
  ASSERT_TRUE(eventually([&] { return allUp(supervisor); }));
  supervisor.drain();
  ASSERT_TRUE(eventually([&] { return !supervisor.running() && endedCount() == 2; }));
  EXPECT_THAT(supervisor.pids(), testing::Each(0));
}

TEST_F(SupervisorTest, KillTakesTheWholeGroup) {
  const std::string child_pid = (folder_ / "child").string();
  SupervisorOptions options = shellWorkers(
      folder_, 1, "trap '' TERM; sleep 1000 & echo $! > \"$0/child.new\"; mv \"$0/child.new\" \"$0/child\"; wait");
  Supervisor supervisor(options, collect());
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(child_pid); }));
  pid_t child = 0;
  std::ifstream(child_pid) >> child;
  ASSERT_GT(child, 0);
  supervisor.kill();
  EXPECT_FALSE(supervisor.running());
  EXPECT_TRUE(eventually([&] {
    // An orphan that has not been reaped is a zombie, and counts as dead.
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string pid, name, state;
    return !(stat >> pid >> name >> state) || state == "Z" || state == "X";
  }));
}

TEST_F(SupervisorTest, KeepsTryingABinaryThatCannotStart) {
  SupervisorOptions options = shellWorkers(folder_, 1, "");
  options.binary = (folder_ / "missing").string();
  Supervisor supervisor(options, collect());
  const auto pid = spawnBound({options.binary});
  EXPECT_TRUE(absl::IsNotFound(pid.status())) << pid.status();
  std::filesystem::create_symlink("/bin/sleep", options.binary);
  // sleep rejects the worker's flags and ends; so it was started.
  EXPECT_TRUE(eventually([&] { return endedCount() > 0; }));
}

TEST_F(SupervisorTest, GivesUpAWorkerThatSaysItCannotHelp) {
  SupervisorOptions options = shellWorkers(folder_, 2, "[ \"$2\" = local-1 ] && exit 3; exec sleep 1000");
  options.final_codes = {2, 3};
  Supervisor supervisor(options, collect());
  ASSERT_TRUE(eventually([&] { return !supervisor.gaveUp().text.empty(); }));
  EXPECT_EQ(supervisor.gaveUp().text, "worker local-1 ended: exit code 3");
  EXPECT_EQ(supervisor.gaveUp().exit_code, 3);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // many times the backoff
  EXPECT_EQ(endedCount(), 1u);
  EXPECT_THAT(supervisor.pids(), testing::ElementsAre(testing::Gt(0), 0));
}

TEST_F(SupervisorTest, OtherExitCodesAreTriedAgain) {
  SupervisorOptions options = shellWorkers(folder_, 1, "exit 4");
  options.final_codes = {2, 3};
  Supervisor supervisor(options, collect());
  EXPECT_TRUE(eventually([&] { return endedCount() >= 3; }));
  EXPECT_EQ(supervisor.gaveUp().text, "");
}

TEST(SpawnBound, ChildDiesWithItsParent) {
  int pids[2];
  ASSERT_EQ(pipe(pids), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const auto child = spawnBound({"/bin/sleep", "1000"});
    const pid_t pid = child.value_or(-1);
    (void)!write(pids[1], &pid, sizeof(pid));
    pause();
    _exit(0);
  }
  pid_t child = 0;
  ASSERT_EQ(read(pids[0], &child, sizeof(child)), static_cast<ssize_t>(sizeof(child)));
  ASSERT_GT(child, 0);
  // Adopt the orphan, so that its end can be observed.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

}  // namespace
}  // namespace tessera::server
