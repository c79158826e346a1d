// Transposed convolutions against their definition: every element of the input spreads over a window of the result.
#include <cmath>

#include "compiler/import/import.h"
#include "compiler/import/testing/model_builder.h"
#include "compiler/import/testing/reference_run.h"
#include "gmock/gmock.h"

namespace tessera::compiler {
namespace {

constexpr int64_t kLength = 5, kChannels = 2, kOutputs = 3;

struct Geometry {
  int64_t kernel, stride, dilation, low, extra;
  int64_t output() const { return (kLength - 1) * stride + (kernel - 1) * dilation + 1 + extra - low; }
};

/// x [kChannels, kLength], w [kChannels, kOutputs, kernel].
std::vector<float> spread(const Geometry& g, const std::vector<float>& x, const std::vector<float>& w) {
  std::vector<float> y(kOutputs * g.output(), 0);
  for (int64_t c = 0; c < kChannels; ++c) {
    for (int64_t f = 0; f < kOutputs; ++f) {
      for (int64_t i = 0; i < kLength; ++i) {
        for (int64_t k = 0; k < g.kernel; ++k) {
          const int64_t o = i * g.stride + k * g.dilation - g.low;
          if (o < 0 || o >= g.output()) continue;
          y[f * g.output() + o] += x[c * kLength + i] * w[(c * kOutputs + f) * g.kernel + k];
        }
      }
    }
  }
  return y;
}

// An element that is no number, or infinite, is found in its own window and nowhere else.
TEST(TransposedConvolution, SpreadsEachElementOverItsWindowOnly) {
  const std::vector<float> x = {1, -2, NAN, 0.5F, 3, 2, 1, -1, 4, INFINITY};
  ModelBuilder b;
  b.input("x", {1, kChannels, kLength});
  std::vector<Geometry> geometries;
  std::vector<std::vector<float>> weights;
  for (int64_t kernel : {1, 2, 3, 5}) {
    for (int64_t stride : {1, 2, 3, 4}) {
      for (int64_t dilation : {1, 2}) {
        const int64_t number = static_cast<int64_t>(geometries.size());
        const Geometry& g = geometries.emplace_back(
            Geometry{kernel, stride, dilation, number % std::min<int64_t>(kernel, 3), number % stride});
        std::vector<float>& w = weights.emplace_back();
        for (int64_t i = 0; i < kChannels * kOutputs * kernel; ++i) w.push_back(static_cast<float>(i % 7 + 1) / 4);
        const std::string name = std::to_string(number);
        b.initializer("w" + name, {kChannels, kOutputs, kernel}, w);
        auto& node = b.node("ConvTranspose", {"x", "w" + name}, {"y" + name});
        setAttribute(node, "strides", std::vector<int64_t>{stride});
        setAttribute(node, "dilations", std::vector<int64_t>{dilation});
        setAttribute(node, "pads", std::vector<int64_t>{g.low, 0});
        setAttribute(node, "output_padding", std::vector<int64_t>{g.extra});
        b.output("y" + name);
      }
    }
  }
  mlir::MLIRContext context;
  auto imported = importBytes(context, b.model.SerializeAsString());
  ASSERT_TRUE(imported.ok()) << imported.status();
  auto results = referenceRun(*std::move(imported), {bytesOf<float>(x)});
  ASSERT_TRUE(results.ok()) << results.status();
  for (size_t i = 0; i < geometries.size(); ++i) {
    const Geometry& g = geometries[i];
    EXPECT_THAT(valuesOf<float>((*results)[i]),
                testing::Pointwise(testing::NanSensitiveFloatNear(1e-5F), spread(g, x, weights[i])))
        << "kernel " << g.kernel << ", stride " << g.stride << ", dilation " << g.dilation << ", padding " << g.low
        << ", output padding " << g.extra;
  }
}

}  // namespace
}  // namespace tessera::compiler
