// Operators that interpolate: results for positions outside the image.
#include <cmath>

#include "compiler/import/import.h"
#include "compiler/import/testing/model_builder.h"
#include "compiler/import/testing/reference_run.h"
#include "gmock/gmock.h"

namespace tessera::compiler {
namespace {

using testing::FloatNear;
using testing::Pointwise;

class Sampling : public testing::Test {
 protected:
  std::vector<float> run(const ModelBuilder& builder, const std::vector<std::string>& inputs) {
    auto imported = importBytes(context, builder.model.SerializeAsString());
    EXPECT_TRUE(imported.ok()) << imported.status();
    if (!imported.ok()) return {};
    auto results = referenceRun(*std::move(imported), inputs);
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? valuesOf<float>(results->front()) : std::vector<float>{};
  }

  /// A row of elements, sampled at `places` (0 is the centre of the first one).
  std::vector<float> sample(const std::vector<float>& row, const std::vector<float>& places, const std::string& order,
                            const std::string& padding, bool align_corners) {
    const auto length = static_cast<float>(row.size());
    std::vector<float> grid;
    for (float place : places) {
      grid.push_back(align_corners ? 2 * place / (length - 1) - 1 : (2 * place + 1) / length - 1);
      grid.push_back(0);
    }
    ModelBuilder b(16);
    b.input("x", {1, 1, 1, static_cast<int64_t>(row.size())});
    b.input("g", {1, 1, static_cast<int64_t>(places.size()), 2}).output("y");
    auto& node = b.node("GridSample", {"x", "g"}, {"y"});
    setAttribute(node, "mode", order);
    setAttribute(node, "padding_mode", padding);
    setAttribute(node, "align_corners", int64_t{align_corners});
    return run(b, {bytesOf<float>(row), bytesOf<float>(grid)});
  }

  mlir::MLIRContext context;
};

constexpr int kAround = 5;

/// Returns the element at `place` of a row that continues according to `padding`.
float elementAt(const std::vector<float>& row, int place, const std::string& padding, bool align_corners) {
  const int last = static_cast<int>(row.size()) - 1;
  if (place >= 0 && place <= last) return row[place];
  if (padding == "zeros") return 0;
  if (padding == "border") return row[place < 0 ? 0 : last];
  // The mirror is at the centre of the last element, or at its edge.
  if (place < 0) return row[align_corners ? -place : -place - 1];
  return row[align_corners ? 2 * last - place : 2 * last + 1 - place];
}

// A sample outside the image equals a sample inside a larger image with the padding written out.
TEST_F(Sampling, GridSampleOutsideIsGridSampleOfTheImageWithItsPaddingWrittenOut) {
  const std::vector<float> row = {0.5F, -2, 3, 1, -1.5F, 4, 2};
  const std::vector<float> places = {-2.5F, -1.3F, -0.9F, -0.5F, -0.2F, 0.4F, 3, 5.6F, 6.1F, 6.5F, 7.2F, 8.7F};
  for (const std::string padding : {"zeros", "border", "reflection"}) {
    for (const bool align_corners : {false, true}) {
      std::vector<float> wide, inside;
      for (int at = -kAround; at < static_cast<int>(row.size()) + kAround; ++at) {
        wide.push_back(elementAt(row, at, padding, align_corners));
      }
      for (float place : places) inside.push_back(place + kAround);
      for (const std::string order : {"bilinear", "bicubic"}) {
        SCOPED_TRACE(order + ", " + padding + (align_corners ? ", corners aligned" : ""));
        EXPECT_THAT(sample(row, places, order, padding, align_corners),
                    Pointwise(FloatNear(1e-4F), sample(wide, inside, order, "zeros", align_corners)));
      }
    }
  }
}

TEST_F(Sampling, BicubicGridSampleAtInfinityReadsTheBorder) {
  const std::vector<float> row = {3, 5, 9};
  EXPECT_THAT(sample(row, {-1e30F, 1e30F, -INFINITY, INFINITY}, "bicubic", "border", false),
              Pointwise(FloatNear(1e-5F), std::vector<float>{3, 9, 3, 9}));
}

// As in ONNX's own case: a sample in mode max is the largest of its four neighbours times their weights, without
// interpolation, and so is at least zero if a neighbour has weight 0.
TEST_F(Sampling, RoiAlignTakesTheLargestWeightedNeighbour) {
  ModelBuilder b(16);
  b.input("x", {1, 1, 2, 2}).input("r", {3, 4}).input("i", {3}, onnx::TensorProto::INT64).output("y");
  auto& node = b.node("RoiAlign", {"x", "r", "i"}, {"y"});
  setAttribute(node, "mode", std::string("max"));
  setAttribute(node, "sampling_ratio", int64_t{1});
  setAttribute(node, "coordinate_transformation_mode", std::string("output_half_pixel"));
  // Regions of one element around (0.25, 0.5), (1, 1) and far outside.
  const std::vector<float> regions = {-0.25F, 0, 0.75F, 1, 0.5F, 0.5F, 1.5F, 1.5F, 50, 50, 51, 51};
  EXPECT_THAT(run(b, {bytesOf<float>({8, 4, -2, 12}), bytesOf<float>(regions), bytesOf<int64_t>({0, 0, 0})}),
              Pointwise(FloatNear(1e-6F), std::vector<float>{3, 12, 0}));
  EXPECT_THAT(run(b, {bytesOf<float>({-8, -4, -2, -12}), bytesOf<float>(regions), bytesOf<int64_t>({0, 0, 0})}),
              Pointwise(FloatNear(1e-6F), std::vector<float>{-0.5F, 0, 0}));
}

}  // namespace
}  // namespace tessera::compiler
