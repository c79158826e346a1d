// From objects to results: assemble() writes the file, libtessera_rt loads and runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

#include "compiler/artifact/ir_kernels.h"
#include "compiler/driver/pipeline.h"
#include "compiler/runtime/artifact_reader.h"
#include "compiler/runtime/tessera.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kN = 10'000;

std::string readAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct Deleter {
  void operator()(tessera_artifact* artifact) const { tessera_artifact_destroy(artifact); }
  void operator()(tessera_session* session) const { tessera_session_destroy(session); }
};
using ArtifactPtr = std::unique_ptr<tessera_artifact, Deleter>;
using SessionPtr = std::unique_ptr<tessera_session, Deleter>;

SessionPtr sessionOf(const tessera_artifact* artifact, int threads) {
  tessera_session* session = nullptr;
  EXPECT_EQ(tessera_session_create(artifact, threads, &session), TESSERA_OK) << tessera_last_error();
  return SessionPtr(session);
}

class ArtifactTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = new SmallModel(kN); }
  static void TearDownTestSuite() { delete std::exchange(model_, nullptr); }

  void SetUp() override {
    folder_ = testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    request_.name = "small";
    request_.plan = model_->plan;
    request_.objects = model_->objects;
    request_.weights_path = folder_ + "/weights.bin";
    request_.artifact_path = folder_ + "/small.tsra";
    std::ofstream(request_.weights_path, std::ios::binary)
        .write(reinterpret_cast<const char*>(model_->weights.data()),
               static_cast<std::streamsize>(model_->weights.size() * 4));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  ArtifactPtr load() {
    EXPECT_EQ(assemble(request_).status(), absl::OkStatus());
    tessera_artifact* artifact = nullptr;
    EXPECT_EQ(tessera_artifact_load(request_.artifact_path.c_str(), TESSERA_VERIFY_WEIGHTS, &artifact), TESSERA_OK)
        << tessera_last_error();
    return ArtifactPtr(artifact);
  }

  static std::vector<float> inputOf(int seed) {
    std::vector<float> x(kN);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 7 + static_cast<size_t>(seed)) % 1000);
    return x;
  }
  static std::vector<float> expected(const std::vector<float>& x) {
    std::vector<float> y(kN);
    for (size_t i = 0; i < y.size(); ++i) y[i] = 2 * (x[kN - 1 - i] + static_cast<float>(kN - 1 - i) / 2);
    return y;
  }
  static tessera_status run(tessera_session* session, const std::vector<float>& x, std::vector<float>& y) {
    const tessera_const_buffer input = {x.data(), x.size() * 4};
    const tessera_buffer output = {y.data(), y.size() * 4};
    return tessera_session_run(session, &input, 1, &output, 1);
  }

  static inline SmallModel* model_ = nullptr;
  std::string folder_;
  AssembleRequest request_;
};

TEST_F(ArtifactTest, RunsWithAnyNumberOfThreads) {
  const ArtifactPtr artifact = load();
  for (int threads : {1, 2, 3, 7}) {
    const SessionPtr session = sessionOf(artifact.get(), threads);
    for (int seed = 0; seed < 20; ++seed) {
      const std::vector<float> x = inputOf(seed);
      std::vector<float> y(kN, -1.0f);
      ASSERT_EQ(run(session.get(), x, y), TESSERA_OK) << tessera_last_error();
      ASSERT_EQ(y, expected(x)) << threads << " threads, seed " << seed;
    }
  }
}

/// The model with p = mirror(w), computed before the first run, in place of w.
void prepareWeight(v1::Plan& plan) {
  v1::Plan& preparation = *plan.mutable_preparation();
  for (const v1::Buffer::Kind kind : {v1::Buffer::WEIGHT, v1::Buffer::OUTPUT}) {
    v1::Buffer& buffer = *preparation.add_buffers();
    buffer = plan.buffers(1);
    buffer.set_kind(kind);
  }
  *preparation.add_outputs() = plan.buffers(1).spec();
  v1::Step& step = *preparation.add_steps();
  step.set_name("prepare w");
  step.set_workload(1);
  step.add_operands(0);
  step.add_operands(1);
  plan.mutable_buffers(1)->set_kind(v1::Buffer::PREPARED);
}

TEST_F(ArtifactTest, TheFirstSessionComputesPreparedWeightsForAll) {
  prepareWeight(request_.plan);
  const auto manifest = assemble(request_);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->prepared_bytes(), (kN * 4 + 63) / 64 * 64);
  EXPECT_EQ(manifest->steps(), 2);
  const std::vector<float> x = inputOf(3);
  std::vector<float> prepared(kN), expected(kN);
  for (size_t i = 0; i < kN; ++i) prepared[i] = static_cast<float>(kN - 1 - i);
  for (size_t i = 0; i < kN; ++i) expected[i] = 2 * (x[kN - 1 - i] + prepared[kN - 1 - i]);
  for (const int together : {1, 2, 5}) {
    const ArtifactPtr artifact = load();
    EXPECT_EQ(tessera_artifact_prepared_bytes(artifact.get()), manifest->prepared_bytes());
    EXPECT_EQ(tessera_artifact_num_steps(artifact.get()), 2u);
    std::vector<std::thread> threads;
    std::atomic<int> right = 0;
    for (int i = 0; i < together; ++i) {
      threads.emplace_back([&, i] {
        const SessionPtr session = sessionOf(artifact.get(), 1 + i % 3);
        std::vector<float> y(kN);
        const tessera_const_buffer input = {x.data(), x.size() * 4};
        const tessera_buffer output = {y.data(), y.size() * 4};
        if (run(session.get(), x, y) == TESSERA_OK && y == expected) ++right;
        y.assign(kN, 0);
        const tessera_guard guard = i % 2 ? TESSERA_GUARD_FRONT : TESSERA_GUARD_BACK;
        if (tessera_session_run_guarded(session.get(), &input, 1, &output, 1, guard) == TESSERA_OK && y == expected)
          ++right;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(right, 2 * together) << tessera_last_error();
  }
}

TEST_F(ArtifactTest, DescribesItself) {
  const ArtifactPtr artifact = load();
  ASSERT_EQ(tessera_artifact_num_inputs(artifact.get()), 1u);
  tessera_tensor_info info{};
  ASSERT_EQ(tessera_artifact_input(artifact.get(), 0, &info), TESSERA_OK);
  EXPECT_STREQ(info.name, "x");
  EXPECT_EQ(info.dtype, TESSERA_F32);
  ASSERT_EQ(info.rank, 1);
  EXPECT_EQ(info.shape[0], kN);
  EXPECT_EQ(info.size_bytes, kN * 4);
  EXPECT_EQ(tessera_artifact_input(artifact.get(), 1, &info), TESSERA_INVALID_ARGUMENT);
  ASSERT_EQ(tessera_artifact_output(artifact.get(), 0, &info), TESSERA_OK);
  EXPECT_STREQ(info.name, "y");
  ASSERT_EQ(tessera_artifact_num_steps(artifact.get()), 2u);
  tessera_step_info step{};
  ASSERT_EQ(tessera_artifact_step(artifact.get(), 1, &step), TESSERA_OK);
  EXPECT_STREQ(step.name, "second");
  EXPECT_STREQ(step.symbol, "mirror");
  EXPECT_EQ(step.num_phases, 2);
  EXPECT_EQ(step.max_grid, kN);
  EXPECT_EQ(step.flops, kN);
  tessera_memory_info memory{};
  ASSERT_EQ(tessera_artifact_memory(artifact.get(), &memory), TESSERA_OK);
  EXPECT_EQ(memory.scratch_bytes, 64);
  EXPECT_EQ(memory.weights_bytes, model_->plan.weights_bytes());
}

TEST_F(ArtifactTest, SessionsRunConcurrentlyAndOutliveTheArtifact) {
  ArtifactPtr artifact = load();
  std::vector<SessionPtr> sessions;
  for (int i = 0; i < 4; ++i) sessions.push_back(sessionOf(artifact.get(), 1 + i % 2));
  artifact.reset();
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const std::vector<float> x = inputOf(i);
      const std::vector<float> y_expected = expected(x);
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::vector<float> y(kN);
        if (run(sessions[static_cast<size_t>(i)].get(), x, y) != TESSERA_OK || y != y_expected) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ArtifactTest, TwoRunsOfOneSessionAreRefusedNotMixed) {
  const ArtifactPtr artifact = load();
  const SessionPtr session = sessionOf(artifact.get(), 1);
  std::atomic<int> wrong = 0, busy = 0, done = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      const std::vector<float> x = inputOf(i);
      const std::vector<float> y_expected = expected(x);
      for (int repeat = 0; repeat < 200; ++repeat) {
        std::vector<float> y(kN);
        const tessera_status status = run(session.get(), x, y);
        if (status == TESSERA_BUSY) ++busy;
        if (status == TESSERA_OK) ++done;
        if (status == TESSERA_OK && y != y_expected) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(busy + done, 400);
  EXPECT_GE(done, 1);
}

TEST_F(ArtifactTest, SeveralArtifactsAreLoadedAtOnceEachWithItsOwnCode) {
  const ArtifactPtr first = load();
  SmallModel other(kN / 2);
  request_.plan = other.plan;
  request_.objects = other.objects;
  request_.artifact_path = folder_ + "/other.tsra";
  std::ofstream(request_.weights_path, std::ios::binary)
      .write(reinterpret_cast<const char*>(other.weights.data()),
             static_cast<std::streamsize>(other.weights.size() * 4));
  const ArtifactPtr second = load();
  tessera_tensor_info info{};
  ASSERT_EQ(tessera_artifact_input(second.get(), 0, &info), TESSERA_OK);
  EXPECT_EQ(info.shape[0], kN / 2);
  ASSERT_EQ(tessera_artifact_input(first.get(), 0, &info), TESSERA_OK);
  EXPECT_EQ(info.shape[0], kN);
}

TEST_F(ArtifactTest, ASessionRunsAnotherVersionFromItsNextRunOnAndGoesBack) {
  const ArtifactPtr first = load();
  std::vector<float> doubled = model_->weights;
  for (float& weight : doubled) weight *= 2;
  std::ofstream(request_.weights_path, std::ios::binary)
      .write(reinterpret_cast<const char*>(doubled.data()), static_cast<std::streamsize>(doubled.size() * 4));
  request_.artifact_path = folder_ + "/second.tsra";
  const ArtifactPtr second = load();
  const std::vector<float> x = inputOf(1);
  std::vector<float> of_second = expected(x);
  for (size_t i = 0; i < of_second.size(); ++i) of_second[i] += static_cast<float>(kN - 1 - i);
  const SessionPtr session = sessionOf(first.get(), 2);
  std::vector<float> y(kN);
  const auto becomes = [&](const tessera_artifact* artifact) {
    EXPECT_EQ(tessera_session_replace(session.get(), artifact), TESSERA_OK) << tessera_last_error();
    EXPECT_EQ(run(session.get(), x, y), TESSERA_OK) << tessera_last_error();
    return y;
  };
  EXPECT_EQ(becomes(second.get()), of_second);
  EXPECT_EQ(becomes(first.get()), expected(x)) << "going back is the same call";

  // From another thread, while runs continue: each run uses one version or the other, never both.
  std::atomic<bool> stop = false;
  std::thread swaps([&] {
    for (int i = 0; i < 300; ++i)
      EXPECT_EQ(tessera_session_replace(session.get(), (i % 2 ? first : second).get()), TESSERA_OK);
    stop = true;
  });
  int runs[2] = {0, 0};
  while (!stop || runs[0] + runs[1] < 20) {
    ASSERT_EQ(run(session.get(), x, y), TESSERA_OK) << tessera_last_error();
    ASSERT_TRUE(y == expected(x) || y == of_second) << "run " << runs[0] + runs[1] << " mixes two versions";
    ++runs[y == of_second];
  }
  swaps.join();

  SmallModel other(kN / 2);
  request_.plan = other.plan;
  request_.objects = other.objects;
  request_.artifact_path = folder_ + "/other.tsra";
  std::ofstream(request_.weights_path, std::ios::binary)
      .write(reinterpret_cast<const char*>(other.weights.data()),
             static_cast<std::streamsize>(other.weights.size() * 4));
  const ArtifactPtr smaller = load();
  EXPECT_EQ(tessera_session_replace(session.get(), smaller.get()), TESSERA_INVALID_ARGUMENT);
  EXPECT_THAT(tessera_last_error(), HasSubstr("input 0 ('x') has another name, type or shape"));
  EXPECT_EQ(run(session.get(), x, y), TESSERA_OK) << "it goes on as it was";
}

TEST_F(ArtifactTest, ProfileGivesEachStepATime) {
  const ArtifactPtr artifact = load();
  const SessionPtr session = sessionOf(artifact.get(), 2);
  const std::vector<float> x = inputOf(1);
  std::vector<float> y(kN);
  const tessera_const_buffer input = {x.data(), x.size() * 4};
  const tessera_buffer output = {y.data(), y.size() * 4};
  int64_t ns[2] = {0, 0};
  EXPECT_EQ(tessera_session_profile(session.get(), &input, 1, &output, 1, ns, 1), TESSERA_INVALID_ARGUMENT);
  ASSERT_EQ(tessera_session_profile(session.get(), &input, 1, &output, 1, ns, 2), TESSERA_OK);
  EXPECT_GT(ns[0], 0);
  EXPECT_GT(ns[1], 0);
  EXPECT_EQ(y, expected(x));
}

TEST_F(ArtifactTest, BuffersThatDoNotFitAreRefusedBeforeAnythingIsWritten) {
  const ArtifactPtr artifact = load();
  const SessionPtr session = sessionOf(artifact.get(), 1);
  std::vector<float> x = inputOf(0), y(kN, 5.0f);
  const tessera_const_buffer input = {x.data(), x.size() * 4};
  const tessera_buffer output = {y.data(), y.size() * 4};
  const auto refused = [&](tessera_const_buffer in, tessera_buffer out, const char* words) {
    EXPECT_EQ(tessera_session_run(session.get(), &in, 1, &out, 1), TESSERA_INVALID_ARGUMENT) << words;
    EXPECT_THAT(tessera_last_error(), HasSubstr(words));
  };
  refused({x.data(), x.size() * 4 - 4}, output, "input 0 ('x') takes 40000 bytes, 39996 were given");
  refused({nullptr, x.size() * 4}, output, "input 0 ('x') is null");
  refused(input, {reinterpret_cast<char*>(y.data()) + 1, y.size() * 4}, "not aligned");
  refused({y.data(), y.size() * 4}, output, "output 0 overlaps input 0");
  EXPECT_EQ(tessera_session_run(session.get(), &input, 1, &output, 0), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_session_run(session.get(), nullptr, 1, &output, 1), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(y, std::vector<float>(kN, 5.0f));
}

TEST_F(ArtifactTest, LoadsFromMemoryAtAnyAddress) {
  load();
  const std::string file = readAll(request_.artifact_path);
  for (size_t shift : {0, 1, 32}) {
    std::string bytes = std::string(shift, ' ') + file;
    tessera_artifact* artifact = nullptr;
    ASSERT_EQ(tessera_artifact_load_memory(bytes.data() + shift, file.size(), 0, &artifact), TESSERA_OK)
        << tessera_last_error();
    const ArtifactPtr owner(artifact);
    const SessionPtr session = sessionOf(artifact, 1);
    const std::vector<float> x = inputOf(3);
    std::vector<float> y(kN);
    ASSERT_EQ(run(session.get(), x, y), TESSERA_OK);
    EXPECT_EQ(y, expected(x));
  }
}

TEST_F(ArtifactTest, EqualRequestsGiveEqualBytesAndNothingIsLeftBehind) {
  ASSERT_TRUE(assemble(request_).ok());
  const std::string first = readAll(request_.artifact_path);
  std::reverse(request_.objects.begin(), request_.objects.end());
  request_.artifact_path = folder_ + "/again.tsra";
  ASSERT_TRUE(assemble(request_).ok());
  EXPECT_EQ(readAll(request_.artifact_path), first);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename());
  EXPECT_THAT(names, testing::UnorderedElementsAre("weights.bin", "small.tsra", "again.tsra"));
}

TEST_F(ArtifactTest, WeightsThatStayApartChangeNoByte) {
  const auto manifest = assemble(request_);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const std::string whole = readAll(request_.artifact_path);
  request_.artifact_path = folder_ + "/before";
  request_.after_weights_path = folder_ + "/behind";
  EXPECT_FALSE(assemble(request_).ok()) << "the digest is not known";
  EXPECT_FALSE(std::filesystem::exists(request_.artifact_path));
  request_.weights_sha256 = manifest->weights_sha256();
  const auto apart = assemble(request_);
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_EQ(apart->SerializeAsString(), manifest->SerializeAsString());
  EXPECT_TRUE(readAll(folder_ + "/before") + readAll(request_.weights_path) + readAll(folder_ + "/behind") == whole);
}

TEST_F(ArtifactTest, ManifestSaysWhatIsInside) {
  request_.objects[0].mutable_info()->mutable_phases(1)->set_strategy("scalar-loops");
  const auto manifest = assemble(request_);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->name(), "small");
  EXPECT_EQ(manifest->flops(), 2 * kN);
  EXPECT_EQ(manifest->kernels(), 2);
  EXPECT_EQ(manifest->code_sha256().size(), 64u);
  EXPECT_EQ(manifest->weights_sha256().size(), 64u);
  EXPECT_THAT(manifest->scalar_kernels(), testing::ElementsAre("mirror: mirror"));
  ArtifactFile file;
  ASSERT_TRUE(ArtifactFile::open(request_.artifact_path, &file).ok());
  std::string bytes, json;
  ASSERT_TRUE(file.readText(kManifestEntry, &bytes).ok());
  v1::Manifest stored;
  ASSERT_TRUE(stored.ParseFromString(bytes));
  EXPECT_EQ(stored.SerializeAsString(), manifest->SerializeAsString());
  ASSERT_TRUE(file.readText(kManifestJsonEntry, &json).ok());
  EXPECT_THAT(json, HasSubstr("\"weights_sha256\": \"" + manifest->weights_sha256()));
  EXPECT_EQ(file.find(kCodeEntry)->offset % 4096, 0u);
  EXPECT_EQ(file.find(kWeightsEntry)->offset % 4096, 0u);
}

TEST_F(ArtifactTest, CodeExportsOneSymbolAndNeedsNoLibrary) {
  // NOLINTNEXTLINE(bugprone-command-processor)
  if (std::system("command -v readelf > /dev/null") != 0) GTEST_SKIP() << "readelf is not installed";
  ASSERT_TRUE(assemble(request_).ok());
  ArtifactFile file;
  ASSERT_TRUE(ArtifactFile::open(request_.artifact_path, &file).ok());
  std::string code;
  ASSERT_TRUE(file.readText(kCodeEntry, &code).ok());
  std::ofstream(folder_ + "/code.so", std::ios::binary) << code;
  ASSERT_EQ(
      std::system(  // NOLINT(bugprone-command-processor)
          ("cd " + folder_ + " && readelf -W --dyn-syms code.so > symbols && readelf -Wd code.so > dynamic").c_str()),
      0);
  const std::string symbols = readAll(folder_ + "/symbols"), dynamic = readAll(folder_ + "/dynamic");
  EXPECT_THAT(symbols, HasSubstr("contains 2 entries"));  // the null symbol and the exported one
  EXPECT_THAT(symbols, HasSubstr("tessera_module_v1"));
  EXPECT_THAT(dynamic, testing::Not(HasSubstr("(NEEDED)")));
  EXPECT_THAT(dynamic, testing::Not(HasSubstr("TEXTREL")));
  EXPECT_THAT(dynamic, testing::Not(HasSubstr("INIT")));
}

TEST_F(ArtifactTest, AssembleNamesWhatDoesNotFit) {
  const auto message = [&](const AssembleRequest& request) {
    return std::string(assemble(request).status().message());
  };
  AssembleRequest request = request_;
  request.objects.pop_back();
  EXPECT_THAT(message(request), HasSubstr("no object was given for workload add"));
  request = request_;
  request.plan.set_weights_bytes(64);
  EXPECT_THAT(message(request), HasSubstr("the plan expects 64"));
  request = request_;
  request.weights_path.clear();
  EXPECT_THAT(message(request), HasSubstr("no weights file"));
  request = request_;
  request.plan.mutable_steps(1)->set_operands(0, 99);
  EXPECT_THAT(message(request), HasSubstr("steps[1] refers to buffer 99 of 4"));
  request = request_;
  request.objects[1] = compileIr(
      "declare float @expf(float)\n"
      "define void @add(ptr %o, i64 %lo, i64 %hi, ptr %w, ptr %s) {\n"
      "  %r = call float @expf(float 1.0)\n  store float %r, ptr %s\n  ret void\n}",
      "add", {phaseOf("add", 1)});
  EXPECT_THAT(message(request), HasSubstr("expf"));
  EXPECT_FALSE(std::filesystem::exists(request_.artifact_path));
  // A failed link must not spoil the next one.
  EXPECT_TRUE(assemble(request_).ok());
}

TEST_F(ArtifactTest, HostIsCheckedBeforeCodeIsLoaded) {
  // Code for a feature that no host has: if the code were mapped first, the error would differ.
  request_.plan.mutable_target()->mutable_code()->add_features("warp-drive");
  ASSERT_TRUE(assemble(request_).ok());
  tessera_artifact* artifact = nullptr;
  EXPECT_EQ(tessera_artifact_load(request_.artifact_path.c_str(), 0, &artifact), TESSERA_INCOMPATIBLE);
  EXPECT_THAT(tessera_last_error(), HasSubstr("warp-drive"));
  EXPECT_EQ(artifact, nullptr);
}

TEST_F(ArtifactTest, LoadErrorsSayWhat) {
  tessera_artifact* artifact = nullptr;
  EXPECT_EQ(tessera_artifact_load("/nonexistent.tsra", 0, &artifact), TESSERA_IO_ERROR);
  EXPECT_THAT(tessera_last_error(), HasSubstr("/nonexistent.tsra"));
  EXPECT_EQ(tessera_artifact_load(folder_.c_str(), 0, &artifact), TESSERA_IO_ERROR);
  EXPECT_EQ(tessera_artifact_load(request_.weights_path.c_str(), 0, &artifact), TESSERA_CORRUPT);
  EXPECT_EQ(tessera_artifact_load(nullptr, 0, &artifact), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_artifact_load("x", 0x80, &artifact), TESSERA_INVALID_ARGUMENT);
  const ArtifactPtr loaded = load();
  tessera_session* session = nullptr;
  EXPECT_EQ(tessera_session_create(loaded.get(), 0, &session), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_session_create(loaded.get(), 1025, &session), TESSERA_INVALID_ARGUMENT);
}

TEST_F(ArtifactTest, DamagedWeightsAreNoticedOnRequest) {
  load();
  std::string bytes = readAll(request_.artifact_path);
  ArtifactFile file;
  ASSERT_TRUE(ArtifactFile::open(request_.artifact_path, &file).ok());
  bytes[file.find(kWeightsEntry)->offset + 100] ^= 1;
  tessera_artifact* artifact = nullptr;
  EXPECT_EQ(tessera_artifact_load_memory(bytes.data(), bytes.size(), TESSERA_VERIFY_WEIGHTS, &artifact),
            TESSERA_CORRUPT);
  EXPECT_THAT(tessera_last_error(), HasSubstr("weights.bin"));
  EXPECT_EQ(tessera_artifact_load_memory(bytes.data(), bytes.size(), 0, &artifact), TESSERA_OK);
  tessera_artifact_destroy(artifact);
}

TEST_F(ArtifactTest, RandomDamageNeverCrashes) {
  load();
  const std::string honest = readAll(request_.artifact_path);
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string bytes = honest;
    const int flips = 1 + static_cast<int>(random() % 4);
    // Half of the damage goes to the directory at the end, where it has most effect.
    const size_t from = i % 2 ? 0 : bytes.size() - 600;
    for (int f = 0; f < flips; ++f)
      bytes[from + random() % (bytes.size() - from)] ^= static_cast<char>(1 + random() % 255);
    if (i % 5 == 0) bytes.resize(random() % bytes.size());
    tessera_artifact* artifact = nullptr;
    const tessera_status status = tessera_artifact_load_memory(bytes.data(), bytes.size(), 0, &artifact);
    EXPECT_TRUE(status == TESSERA_OK || status == TESSERA_CORRUPT || status == TESSERA_INCOMPATIBLE)
        << tessera_last_error();
    refused += status != TESSERA_OK;
    tessera_artifact_destroy(artifact);
  }
  EXPECT_GT(refused, 700);
}

}  // namespace
}  // namespace tessera::compiler
