// Kernels that leave their memory, and how that is detected: guarded runs and fault reports of the C interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <memory>

#include "compiler/artifact/ir_kernels.h"
#include "compiler/driver/pipeline.h"
#include "compiler/runtime/tessera.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kN = 1000;  // 4000 bytes: 32 short of a multiple of 64

struct Deleter {
  void operator()(tessera_artifact* artifact) const { tessera_artifact_destroy(artifact); }
  void operator()(tessera_session* session) const { tessera_session_destroy(session); }
};

class GuardedRun : public testing::Test {
 protected:
  void load(const SmallModel& model, int threads = 1) {
    AssembleRequest request;
    request.plan = model.plan;
    request.objects = model.objects;
    request.weights_path = testing::TempDir() + "guarded_weights.bin";
    request.artifact_path = testing::TempDir() + "guarded.tsra";
    std::ofstream(request.weights_path, std::ios::binary)
        .write(reinterpret_cast<const char*>(model.weights.data()),
               static_cast<std::streamsize>(model.weights.size() * 4));
    const auto manifest = assemble(request);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    tessera_artifact* artifact = nullptr;
    ASSERT_EQ(tessera_artifact_load(request.artifact_path.c_str(), 0, &artifact), TESSERA_OK) << tessera_last_error();
    artifact_.reset(artifact);
    tessera_session* session = nullptr;
    ASSERT_EQ(tessera_session_create(artifact, threads, &session), TESSERA_OK) << tessera_last_error();
    session_.reset(session);
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i % 7);
  }
  void loadStray(const Stray& stray) { load(strayModel(kN, stray)); }

  tessera_status runGuarded(tessera_guard guard) {
    const tessera_const_buffer input = {x_.data(), x_.size() * 4};
    const tessera_buffer output = {y_.data(), y_.size() * 4};
    return tessera_session_run_guarded(session_.get(), &input, 1, &output, 1, guard);
  }
  tessera_status run() {
    const tessera_const_buffer input = {x_.data(), x_.size() * 4};
    const tessera_buffer output = {y_.data(), y_.size() * 4};
    return tessera_session_run(session_.get(), &input, 1, &output, 1);
  }

  std::unique_ptr<tessera_artifact, Deleter> artifact_;
  std::unique_ptr<tessera_session, Deleter> session_;
  std::vector<float> x_ = std::vector<float>(kN), y_ = std::vector<float>(kN);
};

TEST_F(GuardedRun, GivesWhatAPlainRunGives) {
  for (int threads : {1, 3}) {
    load(SmallModel(kN), threads);
    ASSERT_EQ(run(), TESSERA_OK);
    const std::vector<float> wanted = y_;
    for (tessera_guard guard : {TESSERA_GUARD_FRONT, TESSERA_GUARD_BACK}) {
      std::fill(y_.begin(), y_.end(), 0.0f);
      ASSERT_EQ(runGuarded(guard), TESSERA_OK) << tessera_last_error();
      EXPECT_EQ(y_, wanted);
    }
  }
}

TEST_F(GuardedRun, NamesTheKernelThatWroteBesideItsResult) {
  loadStray({.write_bytes = 4});
  ASSERT_EQ(runGuarded(TESSERA_GUARD_FRONT), TESSERA_OUT_OF_BOUNDS);
  EXPECT_THAT(tessera_last_error(),
              HasSubstr("kernel mirror (step 1: second) wrote 1 bytes behind operand 1 of 4000 bytes"));
  loadStray({.write_bytes = -4});
  ASSERT_EQ(runGuarded(TESSERA_GUARD_BACK), TESSERA_OUT_OF_BOUNDS);
  EXPECT_THAT(tessera_last_error(), HasSubstr("wrote 1 bytes before operand 1"));
}

TEST_F(GuardedRun, PoisonsWhatAKernelMustWrite) {
  loadStray({.missing = 1});
  ASSERT_EQ(runGuarded(TESSERA_GUARD_FRONT), TESSERA_OK);
  const std::vector<float> front = y_;
  ASSERT_EQ(runGuarded(TESSERA_GUARD_BACK), TESSERA_OK);
  const auto bits = [](const std::vector<float>& values, size_t count) {
    return std::string(reinterpret_cast<const char*>(values.data()), count * sizeof(float));  // poison is NaN
  };
  EXPECT_EQ(bits(front, kN - 1), bits(y_, kN - 1));
  EXPECT_NE(bits(front, kN), bits(y_, kN));
}

TEST_F(GuardedRun, RefusesAnUnknownGuard) {
  load(SmallModel(kN));
  EXPECT_EQ(runGuarded(static_cast<tessera_guard>(2)), TESSERA_INVALID_ARGUMENT);
}

using GuardedRunDeathTest = GuardedRun;

TEST_F(GuardedRunDeathTest, StrayAccessesAreFaultsThatAreNamed) {
  const auto crash = [&](tessera_guard guard) {
    tessera_report_faults([](const char* sentence) {
      if (write(STDERR_FILENO, sentence, std::strlen(sentence)) > 0) _exit(10);
    });
    runGuarded(guard);
  };
  const std::string kernel = "SIGSEGV in kernel mirror .step 1: second., phase 0, grid .0, 1.: ";
  loadStray({.write_bytes = 4});  // y is a buffer of the caller: no gap before the inaccessible page
  EXPECT_EXIT(crash(TESSERA_GUARD_BACK), testing::ExitedWithCode(10), kernel + "1 bytes behind operand 1 of 4000");
  loadStray({.read_bytes = -4});
  EXPECT_EXIT(crash(TESSERA_GUARD_FRONT), testing::ExitedWithCode(10), kernel + "4 bytes before operand 0 of 4000");
  loadStray({.read_bytes = 36});  // h is aligned to 64 bytes
  EXPECT_EXIT(crash(TESSERA_GUARD_BACK), testing::ExitedWithCode(10), kernel + "33 bytes behind operand 0 of 4000");
}

TEST_F(GuardedRunDeathTest, ArgumentsCannotBeWritten) {
  loadStray({.into_argument = true});
  const auto crash = [&] {
    tessera_report_faults(nullptr);
    runGuarded(TESSERA_GUARD_FRONT);
  };
  EXPECT_EXIT(crash(), testing::KilledBySignal(SIGSEGV), "kernel mirror.*: a write to operand 0 of 4000 bytes");
}

TEST_F(GuardedRunDeathTest, PlainRunsNameTheKernelToo) {
  loadStray({.read_bytes = int64_t{1} << 40});
  const auto crash = [&] {
    tessera_report_faults(nullptr);
    run();
  };
  EXPECT_EXIT(crash(), testing::KilledBySignal(SIGSEGV), "SIGSEGV in kernel mirror .step 1: second., phase 0");
}

}  // namespace
}  // namespace tessera::compiler
