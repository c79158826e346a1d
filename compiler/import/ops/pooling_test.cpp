// Pooling: the position of a window's maximum, and windows of padding only.
#include <limits>

#include "compiler/import/import.h"
#include "compiler/import/testing/model_builder.h"
#include "compiler/import/testing/reference_run.h"
#include "gmock/gmock.h"

namespace tessera::compiler {
namespace {

using testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Positions of the maxima of 2x2 windows over a plane of 3x3.
std::vector<int64_t> positions(const std::vector<float>& plane, int64_t storage_order) {
  ModelBuilder b(12);
  b.input("x", {1, 1, 3, 3}).output("y").output("at");
  auto& node = b.node("MaxPool", {"x"}, {"y", "at"});
  setAttribute(node, "kernel_shape", std::vector<int64_t>{2, 2});
  setAttribute(node, "storage_order", storage_order);
  mlir::MLIRContext context;
  auto imported = importBytes(context, b.model.SerializeAsString());
  EXPECT_TRUE(imported.ok()) << imported.status();
  if (!imported.ok()) return {};
  auto results = referenceRun(*std::move(imported), {bytesOf<float>(plane)});
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? valuesOf<int64_t>((*results)[1]) : std::vector<int64_t>{};
}

// In row order for either way of counting positions: the first window takes the upper 5, which is number 3 in column
// order.
TEST(MaxPool, OfEqualElementsTheFirstInItsWindowIsMeant) {
  const std::vector<float> plane = {0, 5, 0,  //
                                    5, 0, 7,  //
                                    0, 7, 0};
  EXPECT_THAT(positions(plane, 0), ElementsAre(1, 5, 7, 5));
  EXPECT_THAT(positions(plane, 1), ElementsAre(3, 7, 5, 7));
}

TEST(MaxPool, NanIsWhereItIs) {
  const std::vector<float> plane = {9, 1,    1,  //
                                    1, kNan, 1,  //
                                    1, 1,    9};
  EXPECT_THAT(positions(plane, 0), ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(positions(plane, 1), ElementsAre(4, 4, 4, 4));
}

// Taps on both sides of the only element.
TEST(AveragePool, AWindowOfPaddingAloneIsZero) {
  for (const int64_t include : {0, 1}) {
    ModelBuilder b(19);
    b.input("x", {1, 1, 1}).output("y");
    auto& node = b.node("AveragePool", {"x"}, {"y"});
    setAttribute(node, "kernel_shape", std::vector<int64_t>{2});
    setAttribute(node, "dilations", std::vector<int64_t>{2});
    setAttribute(node, "pads", std::vector<int64_t>{1, 1});
    setAttribute(node, "count_include_pad", include);
    mlir::MLIRContext context;
    auto imported = importBytes(context, b.model.SerializeAsString());
    ASSERT_TRUE(imported.ok()) << imported.status();
    auto results = referenceRun(*std::move(imported), {bytesOf<float>({3})});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_THAT(valuesOf<float>((*results)[0]), ElementsAre(0));
  }
}

}  // namespace
}  // namespace tessera::compiler
