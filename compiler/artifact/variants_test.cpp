// Artifacts with several variants: the output of assemble(), and how libtessera_rt finds and runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <memory>
#include <thread>

#include "compiler/artifact/ir_kernels.h"
#include "compiler/driver/pipeline.h"
#include "compiler/runtime/tessera.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSizes[] = {300, 10'000, 37};

struct Deleter {
  void operator()(tessera_artifact* artifact) const { tessera_artifact_destroy(artifact); }
  void operator()(tessera_session* session) const { tessera_session_destroy(session); }
};

class VariantsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    SmallModel model = smallModelVariants({std::begin(kSizes), std::end(kSizes)});
    AssembleRequest request;
    request.name = "small";
    request.plan = model.plan;
    request.objects = model.objects;
    request.weights_path = testing::TempDir() + "variants_weights.bin";
    request.artifact_path = testing::TempDir() + "variants.tsra";
    std::ofstream(request.weights_path, std::ios::binary)
        .write(reinterpret_cast<const char*>(model.weights.data()),
               static_cast<std::streamsize>(model.weights.size() * 4));
    auto manifest = assemble(request);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    manifest_ = new v1::Manifest(*manifest);
    request_ = new AssembleRequest(request);
  }
  static void TearDownTestSuite() {
    delete std::exchange(manifest_, nullptr);
    delete std::exchange(request_, nullptr);
  }
  void SetUp() override {
    tessera_artifact* artifact = nullptr;
    ASSERT_EQ(tessera_artifact_load(request_->artifact_path.c_str(), TESSERA_VERIFY_WEIGHTS, &artifact), TESSERA_OK)
        << tessera_last_error();
    artifact_.reset(artifact);
  }

  std::unique_ptr<tessera_session, Deleter> sessionOf(int threads) {
    tessera_session* session = nullptr;
    EXPECT_EQ(tessera_session_create(artifact_.get(), threads, &session), TESSERA_OK) << tessera_last_error();
    return std::unique_ptr<tessera_session, Deleter>(session);
  }
  static tessera_status choose(tessera_session* session, int64_t n) {
    const tessera_shape shape = {&n, 1};
    return tessera_session_set_input_shapes(session, &shape, 1);
  }
  static tessera_status run(tessera_session* session, const std::vector<float>& x, std::vector<float>& y) {
    const tessera_const_buffer input = {x.data(), x.size() * 4};
    const tessera_buffer output = {y.data(), y.size() * 4};
    return tessera_session_run(session, &input, 1, &output, 1);
  }
  static std::vector<float> inputOf(int64_t n, int seed) {
    std::vector<float> x(static_cast<size_t>(n));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 7 + static_cast<size_t>(seed)) % 1000);
    return x;
  }
  /// y[i] = 2 (x[n-1-i] + w[n-1-i]), w[i] = i / 2
  static std::vector<float> expected(const std::vector<float>& x) {
    std::vector<float> y(x.size());
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t j = y.size() - 1 - i;
      y[i] = 2 * (x[j] + static_cast<float>(j) / 2);
    }
    return y;
  }

  static inline v1::Manifest* manifest_ = nullptr;
  static inline AssembleRequest* request_ = nullptr;
  std::unique_ptr<tessera_artifact, Deleter> artifact_;
};

TEST_F(VariantsTest, EachRunsItsOwnShapesInOneSession) {
  for (int threads : {1, 3}) {
    const auto session = sessionOf(threads);
    for (int round = 0; round < 12; ++round) {
      const int64_t n = kSizes[(round * 2 + round / 3) % 3];
      ASSERT_EQ(choose(session.get(), n), TESSERA_OK) << tessera_last_error();
      const std::vector<float> x = inputOf(n, round);
      std::vector<float> y(x.size(), std::nanf(""));
      ASSERT_EQ(run(session.get(), x, y), TESSERA_OK) << tessera_last_error();
      ASSERT_EQ(y, expected(x)) << n << ", " << threads << " threads";
    }
  }
}

TEST_F(VariantsTest, AreDescribed) {
  ASSERT_EQ(tessera_artifact_num_variants(artifact_.get()), 3u);
  for (size_t v = 0; v < 3; ++v) {
    tessera_variant_info info{};
    ASSERT_EQ(tessera_artifact_variant(artifact_.get(), v, &info), TESSERA_OK);
    EXPECT_EQ(info.num_dimensions, 1u);
    EXPECT_EQ(info.num_steps, 2u);
    EXPECT_EQ(info.flops, 2 * kSizes[v]);
    EXPECT_GE(info.arena_bytes, kSizes[v] * 4);
    tessera_dimension dimension{};
    ASSERT_EQ(tessera_artifact_variant_dimension(artifact_.get(), v, 0, &dimension), TESSERA_OK);
    EXPECT_STREQ(dimension.name, "n");
    EXPECT_EQ(dimension.size, kSizes[v]);
    tessera_tensor_info tensor{};
    ASSERT_EQ(tessera_artifact_variant_input(artifact_.get(), v, 0, &tensor), TESSERA_OK);
    EXPECT_EQ(tensor.shape[0], kSizes[v]);
    ASSERT_EQ(tessera_artifact_variant_output(artifact_.get(), v, 0, &tensor), TESSERA_OK);
    EXPECT_EQ(tensor.size_bytes, kSizes[v] * 4);
    tessera_step_info step{};
    ASSERT_EQ(tessera_artifact_variant_step(artifact_.get(), v, 1, &step), TESSERA_OK);
    EXPECT_EQ(step.max_grid, kSizes[v]);
    EXPECT_EQ(tessera_artifact_variant_step(artifact_.get(), v, 2, &step), TESSERA_INVALID_ARGUMENT);
    EXPECT_EQ(manifest_->variants(static_cast<int>(v)).inputs(0).shape(0), kSizes[v]);
    EXPECT_EQ(manifest_->variants(static_cast<int>(v)).dimensions(0).size(), kSizes[v]);
    EXPECT_EQ(manifest_->variants(static_cast<int>(v)).flops(), 2 * kSizes[v]);
  }
  tessera_variant_info info{};
  EXPECT_EQ(tessera_artifact_variant(artifact_.get(), 3, &info), TESSERA_INVALID_ARGUMENT);
  // Functions without a variant argument describe the first one; memory is that of the largest.
  tessera_tensor_info tensor{};
  ASSERT_EQ(tessera_artifact_input(artifact_.get(), 0, &tensor), TESSERA_OK);
  EXPECT_EQ(tensor.shape[0], kSizes[0]);
  EXPECT_EQ(manifest_->inputs(0).shape(0), kSizes[0]);
  tessera_memory_info memory{};
  ASSERT_EQ(tessera_artifact_memory(artifact_.get(), &memory), TESSERA_OK);
  EXPECT_GE(memory.arena_bytes, 10'000 * 4);
}

TEST_F(VariantsTest, AreFoundByShapeOrByDimension) {
  const int64_t n = 10'000;
  const tessera_shape shape = {&n, 1}, unknown = {nullptr, -1};
  const tessera_dimension dimension = {"n", 37};
  size_t variant = 99;
  EXPECT_EQ(tessera_artifact_find_variant(artifact_.get(), &shape, 1, nullptr, 0, &variant), TESSERA_OK);
  EXPECT_EQ(variant, 1u);
  EXPECT_EQ(tessera_artifact_find_variant(artifact_.get(), &unknown, 1, &dimension, 1, &variant), TESSERA_OK);
  EXPECT_EQ(variant, 2u);
  EXPECT_EQ(tessera_artifact_find_variant(artifact_.get(), nullptr, 0, &dimension, 1, &variant), TESSERA_OK);
  EXPECT_EQ(variant, 2u);

  const auto refused = [&](const tessera_shape* shapes, size_t num_shapes, const tessera_dimension* dimensions,
                           size_t num_dimensions, const char* words) {
    EXPECT_EQ(tessera_artifact_find_variant(artifact_.get(), shapes, num_shapes, dimensions, num_dimensions, &variant),
              TESSERA_INVALID_ARGUMENT);
    EXPECT_THAT(tessera_last_error(), HasSubstr(words));
    EXPECT_EQ(variant, 2u) << "changed by a refusal";
  };
  const int64_t other = 38, two[] = {37, 1};
  const tessera_shape odd = {&other, 1}, deep = {two, 2};
  const char* all = "there is n=300 (x=300); n=10000 (x=10000); n=37 (x=37)";
  refused(&odd, 1, nullptr, 0, "no variant for x=38");
  refused(&odd, 1, nullptr, 0, all);
  refused(&deep, 1, nullptr, 0, "no variant for x=37x1");
  refused(&shape, 1, &dimension, 1, "no variant for n=37, x=10000");  // each exists, but not the combination
  const tessera_dimension stranger = {"m", 37};
  refused(nullptr, 0, &stranger, 1, "no variant for m=37");
  refused(&unknown, 1, nullptr, 0, "3 variants, and no shape says which");
  const tessera_shape twice[] = {shape, shape};
  refused(twice, 2, nullptr, 0, "1 inputs, 2 shapes");
  const tessera_shape broken = {nullptr, 1};
  refused(&broken, 1, nullptr, 0, "null");
}

TEST_F(VariantsTest, ShapesThatNoVariantHasLeaveTheChoiceAsItWas) {
  const auto session = sessionOf(1);
  EXPECT_EQ(tessera_session_variant(session.get()), 0u);
  ASSERT_EQ(choose(session.get(), 37), TESSERA_OK);
  EXPECT_EQ(tessera_session_variant(session.get()), 2u);
  EXPECT_EQ(choose(session.get(), 36), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_session_variant(session.get()), 2u);
  tessera_tensor_info info{};
  ASSERT_EQ(tessera_session_output(session.get(), 0, &info), TESSERA_OK);
  EXPECT_EQ(info.shape[0], 37);
  ASSERT_EQ(tessera_session_input(session.get(), 0, &info), TESSERA_OK);
  EXPECT_EQ(info.shape[0], 37);
  EXPECT_EQ(tessera_session_output(session.get(), 1, &info), TESSERA_INVALID_ARGUMENT);
  // Buffers of another variant are refused, and the error names the selected one.
  const std::vector<float> x = inputOf(300, 0);
  std::vector<float> y(300);
  EXPECT_EQ(run(session.get(), x, y), TESSERA_INVALID_ARGUMENT);
  EXPECT_THAT(tessera_last_error(), HasSubstr("takes 148 bytes in the chosen variant (n=37), 1200 were given"));
  ASSERT_EQ(tessera_session_set_variant(session.get(), 0), TESSERA_OK);
  EXPECT_EQ(run(session.get(), x, y), TESSERA_OK);
  EXPECT_EQ(y, expected(x));
  EXPECT_EQ(tessera_session_set_variant(session.get(), 3), TESSERA_INVALID_ARGUMENT);
}

TEST_F(VariantsTest, ChoosingDuringARunIsRefusedNotMixed) {
  const auto session = sessionOf(2);
  ASSERT_EQ(choose(session.get(), 10'000), TESSERA_OK);
  const std::vector<float> x = inputOf(10'000, 5), y_expected = expected(x);
  std::atomic<bool> stop = false;
  std::atomic<int> chosen = 0;
  std::thread chooser([&] {
    while (!stop) {
      const tessera_status status = choose(session.get(), 10'000);
      EXPECT_TRUE(status == TESSERA_OK || status == TESSERA_BUSY);
      chosen += status == TESSERA_OK;
    }
  });
  int wrong = 0;
  for (int i = 0; i < 100 || chosen == 0; ++i) {
    std::vector<float> y(x.size());
    const tessera_status status = run(session.get(), x, y);
    wrong += status != TESSERA_OK && status != TESSERA_BUSY;
    wrong += status == TESSERA_OK && y != y_expected;
  }
  stop = true;
  chooser.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(VariantsTest, AssembleNamesWhatDoesNotFit) {
  const auto message = [&](const AssembleRequest& request) {
    return std::string(assemble(request).status().message());
  };
  AssembleRequest request = *request_;
  request.artifact_path = testing::TempDir() + "variants_refused.tsra";
  request.plan.mutable_variants(1)->mutable_steps(0)->set_operands(0, 99);
  EXPECT_THAT(message(request), HasSubstr("variants[1].steps[0] refers to buffer 99 of 4"));
  request.plan = request_->plan;
  request.plan.mutable_variants(0)->mutable_steps(1)->set_workload(6);
  EXPECT_THAT(message(request), HasSubstr("variants[0].steps[1].workload is 6 of 6"));
  request.plan = request_->plan;
  request.plan.mutable_variants(0)->clear_outputs();
  EXPECT_THAT(message(request), HasSubstr("variants[0].inputs or outputs"));
  request.plan = request_->plan;
  while (request.plan.variants_size() < TESSERA_MAX_VARIANTS) *request.plan.add_variants() = request.plan.variants(0);
  EXPECT_THAT(message(request), HasSubstr("65 variants; at most 64"));
}

}  // namespace
}  // namespace tessera::compiler
