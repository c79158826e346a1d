#include "compiler/runtime/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace tessera::compiler {
namespace {

void read(const void* at) { (void)*static_cast<const volatile uint8_t*>(at); }

/// A kernel that reads past its second operand.
struct Stray {
  Stray() {
    for (GuardedMemory& each : memory) {
      EXPECT_TRUE(each.allocate(40, 4));
      each.place(GuardedMemory::End::kBack);
      list.push_back(&each);
    }
    kernel = {"conv1+relu", "w3", 4, 1, 0, 16, list.data(), 4};
  }
  GuardedMemory memory[4];
  std::vector<const GuardedMemory*> list;
  RunningKernel kernel;
};

TEST(Faults, AreCaughtAndTheProcessGoesOn) {
  GuardedMemory memory;
  ASSERT_TRUE(memory.allocate(8, 1));
  for (int i = 0; i < 3; ++i) {
    const std::optional<Fault> fault = catchFault([&] { read(memory.data() - 1); });
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->signal, SIGSEGV);
    EXPECT_EQ(fault->address, memory.data() - 1);
    EXPECT_FALSE(catchFault([&] { read(memory.data()); }));
  }
}

TEST(Faults, AreCaughtInEveryThread) {
  GuardedMemory memory;
  ASSERT_TRUE(memory.allocate(8, 1));
  std::vector<std::thread> threads;
  std::atomic<int> caught = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 50; ++n) caught += catchFault([&] { read(memory.data() - 1); }).has_value();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(caught, 200);
}

TEST(Faults, AreDescribedByKernelAndOperand) {
  const Stray stray;
  char text[512];
  const auto described = [&](const void* address) {
    EXPECT_EQ(describeFault({SIGSEGV, address}, stray.kernel, text, sizeof(text)), std::strlen(text));
    return std::string(text);
  };
  const std::string where = "SIGSEGV in kernel w3 (step 4: conv1+relu), phase 1, grid [0, 16)";
  EXPECT_EQ(described(&stray), where);
  EXPECT_EQ(described(stray.memory[1].data() + 40), where + ": 1 bytes behind operand 1 of 40 bytes");
  EXPECT_EQ(described(stray.memory[0].data() - 6000), where + ": 6000 bytes before operand 0 of 40 bytes");
  EXPECT_EQ(described(stray.memory[0].data()), where + ": a write to operand 0 of 40 bytes");
  EXPECT_EQ(described(stray.memory[2].data() + 41), where + ": 2 bytes behind the workspace of 40 bytes");
  EXPECT_EQ(described(stray.memory[3].data() + 40), where + ": 1 bytes behind the thread's scratch of 40 bytes");
  EXPECT_EQ(describeFault({SIGSEGV, &stray}, stray.kernel, text, 8), 7u);
  EXPECT_STREQ(text, "SIGSEGV");
}

using FaultsDeathTest = testing::Test;

TEST(FaultsDeathTest, NameTheKernelAndEndTheProcessAsBefore) {
  const Stray stray;
  const auto crash = [&] {
    reportFaults(nullptr);
    const RunningKernelScope running(stray.kernel);
    read(stray.memory[1].data() + 40);
  };
  EXPECT_EXIT(crash(), testing::KilledBySignal(SIGSEGV), "kernel w3 .step 4: conv1.relu.*behind operand 1");
}

TEST(FaultsDeathTest, AreTheCallersToEnd) {
  const Stray stray;
  const auto crash = [&] {
    reportFaults([](const char* sentence) {
      if (write(STDERR_FILENO, sentence, std::strlen(sentence)) > 0) _exit(10);
    });
    std::thread([&] {
      const HandlerStack stack;
      const RunningKernelScope running(stray.kernel);
      read(stray.memory[1].data() + 40);
    }).join();
  };
  EXPECT_EXIT(crash(), testing::ExitedWithCode(10), "phase 1, grid .0, 16.");
}

TEST(FaultsDeathTest, OutsideOfKernelsAreNotOurs) {
  const Stray stray;
  const auto crash = [&] {
    reportFaults([](const char*) { _exit(10); });
    {
      const RunningKernelScope running(stray.kernel);
    }
    read(stray.memory[1].data() + 40);
  };
  EXPECT_EXIT(crash(), testing::KilledBySignal(SIGSEGV), "");
  const auto sent = [&] {
    reportFaults([](const char*) { _exit(10); });
    raise(SIGSEGV);
  };
  EXPECT_EXIT(sent(), testing::KilledBySignal(SIGSEGV), "");
}

int overflow(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return depth == 0 ? 0 : overflow(depth - 1) + frame[0];
}

TEST(FaultsDeathTest, RunningOutOfStackIsDescribedToo) {
  const Stray stray;
  const auto crash = [&] {
    const HandlerStack stack;
    reportFaults(nullptr);
    const RunningKernelScope running(stray.kernel);
    overflow(1 << 30);
  };
  EXPECT_EXIT(crash(), testing::KilledBySignal(SIGSEGV), "kernel w3");
}

}  // namespace
}  // namespace tessera::compiler
