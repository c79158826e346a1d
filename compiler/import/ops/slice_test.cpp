// Slices with every start, end and step around a dimension, and cropping paddings, compared with ONNX's specification.
#include "absl/strings/str_cat.h"
#include "compiler/import/import.h"
#include "compiler/import/testing/model_builder.h"
#include "compiler/import/testing/reference_run.h"
#include "gmock/gmock.h"

namespace tessera::compiler {
namespace {

/// "Negative values count from the end; the start is clamped into [0, extent] for positive and [0, extent - 1] for
/// negative stepping, the end into [0, extent] and [-1, extent - 1]": element by element.
std::vector<float> sliced(const std::vector<float>& from, int64_t start, int64_t end, int64_t step) {
  const auto extent = static_cast<int64_t>(from.size());
  std::vector<float> result;
  if (extent == 0) return result;
  if (start < 0) start += extent;
  if (end < 0) end += extent;
  start = std::max<int64_t>(start, 0);
  if (step < 0 && start >= extent) start = extent - 1;
  for (int64_t at = start; at >= 0 && at < extent && (step > 0 ? at < end : at > end); at += step)
    result.push_back(from[at]);
  return result;
}

TEST(Slice, FollowsTheStandardWhateverTheBounds) {
  for (int64_t extent = 0; extent < 4; ++extent) {
    ModelBuilder b;
    b.input("x", {extent});
    std::vector<float> x;
    for (int64_t i = 0; i < extent; ++i) x.push_back(static_cast<float>(i + 1));
    std::vector<std::vector<float>> expected;
    std::vector<std::string> names;
    b.initializer("axis", std::vector<int64_t>{0});
    for (int64_t start = -extent - 2; start <= extent + 2; ++start)
      for (int64_t end = -extent - 2; end <= extent + 2; ++end)
        for (const int64_t step : {1, 2, -1, -2, -3}) {
          const std::string name = absl::StrCat("of ", extent, " from ", start, " to ", end, " by ", step);
          b.initializer(name + " start", std::vector<int64_t>{start});
          b.initializer(name + " end", std::vector<int64_t>{end});
          b.initializer(name + " step", std::vector<int64_t>{step});
          b.node("Slice", {"x", name + " start", name + " end", "axis", name + " step"}, {name});
          b.output(name);
          names.push_back(name);
          expected.push_back(sliced(x, start, end, step));
        }
    mlir::MLIRContext context;
    auto imported = importBytes(context, b.model.SerializeAsString());
    ASSERT_TRUE(imported.ok()) << imported.status();
    auto results = referenceRun(*std::move(imported), {bytesOf(x)});
    ASSERT_TRUE(results.ok()) << results.status();
    ASSERT_EQ(results->size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(valuesOf<float>((*results)[i]), expected[i]) << names[i];
  }
}

TEST(Slice, FollowsTheStandardWhereTheDataDecideTheBounds) {
  for (int64_t extent = 0; extent < 4; ++extent)
    for (const int64_t step : {1, 2, 3}) {
      ModelBuilder b;
      b.input("x", {extent}).input("start", {1}, onnx::TensorProto::INT64).input("end", {1}, onnx::TensorProto::INT64);
      b.initializer("axis", std::vector<int64_t>{0});
      b.initializer("step", std::vector<int64_t>{step});
      b.node("Slice", {"x", "start", "end", "axis", "step"}, {"y"});
      b.output("y");
      mlir::MLIRContext context;
      const auto imported = importBytes(context, b.model.SerializeAsString());
      ASSERT_TRUE(imported.ok()) << imported.status();
      const std::vector<float> x = std::vector<float>{1, 2, 3}, some(x.begin(), x.begin() + extent);
      for (int64_t start = -extent - 2; start <= extent + 2; ++start)
        for (int64_t end = -extent - 2; end <= extent + 2; ++end) {
          const auto results = referenceRun(
              *imported, {bytesOf(some), bytesOf(std::vector<int64_t>{start}), bytesOf(std::vector<int64_t>{end})});
          ASSERT_TRUE(results.ok()) << results.status();
          EXPECT_EQ(valuesOf<float>((*results)[0]), sliced(some, start, end, step))
              << extent << " from " << start << " to " << end << " by " << step;
        }
    }
}

TEST(Slice, BackwardsNeedsBoundsThatAreKnown) {
  ModelBuilder b;
  b.input("x", {5}).input("start", {1}, onnx::TensorProto::INT64);
  b.initializer("end", std::vector<int64_t>{-6});
  b.initializer("axis", std::vector<int64_t>{0});
  b.initializer("step", std::vector<int64_t>{-1});
  b.node("Slice", {"x", "start", "end", "axis", "step"}, {"y"});
  b.output("y");
  mlir::MLIRContext context;
  const auto imported = importBytes(context, b.model.SerializeAsString());
  ASSERT_FALSE(imported.ok());
  EXPECT_THAT(imported.status().message(), testing::HasSubstr("input 'starts' is computed at run time"));
}

/// Pads first, then crops: the part removed on one side may be padding of the other.
TEST(Pad, CutsOffAsMuchAsThereIsWithThePadding) {
  for (int64_t extent = 0; extent < 4; ++extent) {
    ModelBuilder b;
    b.input("x", {extent});
    std::vector<float> x;
    for (int64_t i = 0; i < extent; ++i) x.push_back(static_cast<float>(i + 1));
    b.initializer("value", {}, {9.0F});
    std::vector<std::vector<float>> expected;
    std::vector<std::string> names;
    for (int64_t low = -5; low <= 5; ++low)
      for (int64_t high = -5; high <= 5; ++high) {
        if (extent + low + high < 0) continue;
        const std::string name = absl::StrCat("of ", extent, " by ", low, " and ", high);
        b.initializer(name + " pads", std::vector<int64_t>{low, high});
        b.node("Pad", {"x", name + " pads", "value"}, {name});
        b.output(name);
        names.push_back(name);
        std::vector<float> result;
        for (int64_t at = -low; at < extent + high; ++at) result.push_back(at >= 0 && at < extent ? x[at] : 9);
        expected.push_back(std::move(result));
      }
    mlir::MLIRContext context;
    auto imported = importBytes(context, b.model.SerializeAsString());
    ASSERT_TRUE(imported.ok()) << imported.status();
    auto results = referenceRun(*std::move(imported), {bytesOf(x)});
    ASSERT_TRUE(results.ok()) << results.status();
    ASSERT_EQ(results->size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(valuesOf<float>((*results)[i]), expected[i]) << names[i];
  }
}

/// numpy.pad's coordinate of element `at` among `count` elements.
int64_t repeated(int64_t at, int64_t count, std::string_view mode) {
  const auto modulo = [](int64_t x, int64_t period) { return ((x % period) + period) % period; };
  if (mode == "edge" || count == 1) return std::clamp<int64_t>(at, 0, count - 1);
  if (mode == "wrap") return modulo(at, count);
  const int64_t place = modulo(at, 2 * (count - 1));
  return place < count ? place : 2 * (count - 1) - place;
}

/// Crops first, then pads with the remaining elements, back and forth as often as needed.
TEST(Pad, RepeatsElementsAsFarAsThePaddingGoes) {
  for (const char* mode : {"reflect", "edge", "wrap"})
    for (int64_t extent = 1; extent < 5; ++extent) {
      ModelBuilder b(19);
      b.input("x", {extent});
      std::vector<float> x;
      for (int64_t i = 0; i < extent; ++i) x.push_back(static_cast<float>(i + 1));
      std::vector<std::vector<float>> expected;
      std::vector<std::string> names;
      for (int64_t low = -extent; low <= 9; ++low)
        for (int64_t high = -extent; high <= 9; ++high) {
          const int64_t left = extent + std::min<int64_t>(low, 0) + std::min<int64_t>(high, 0);
          if (left < 1) continue;
          const std::string name = absl::StrCat(mode, " of ", extent, " by ", low, " and ", high);
          b.initializer(name + " pads", std::vector<int64_t>{low, high});
          setAttribute(b.node("Pad", {"x", name + " pads"}, {name}), "mode", mode);
          b.output(name);
          names.push_back(name);
          std::vector<float> result;
          for (int64_t at = -std::max<int64_t>(low, 0); at < left + std::max<int64_t>(high, 0); ++at)
            result.push_back(x[static_cast<size_t>(repeated(at, left, mode) - std::min<int64_t>(low, 0))]);
          expected.push_back(std::move(result));
        }
      mlir::MLIRContext context;
      auto imported = importBytes(context, b.model.SerializeAsString());
      ASSERT_TRUE(imported.ok()) << imported.status();
      auto results = referenceRun(*std::move(imported), {bytesOf(x)});
      ASSERT_TRUE(results.ok()) << results.status();
      ASSERT_EQ(results->size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(valuesOf<float>((*results)[i]), expected[i]) << names[i];
    }
}

TEST(Pad, TakesAValueThatIsComputed) {
  ModelBuilder b;
  b.input("x", {2, 3}).input("value", {1});
  std::vector<std::vector<float>> expected;
  for (const std::vector<int64_t>& pads : std::vector<std::vector<int64_t>>{
           {0, 0, 0, 0}, {1, 0, 0, 2}, {0, 1, 1, 0}, {-1, 2, 1, -1}, {-2, 0, 2, 0}, {-3, 1, 4, 0}}) {
    const std::string name = absl::StrCat("result ", expected.size());
    b.initializer(name + " pads", pads);
    b.node("Pad", {"x", name + " pads", "value"}, {name});
    b.output(name);
    std::vector<float>& result = expected.emplace_back();
    for (int64_t row = -pads[0]; row < 2 + pads[2]; ++row)
      for (int64_t column = -pads[1]; column < 3 + pads[3]; ++column) {
        const bool inside = row >= 0 && row < 2 && column >= 0 && column < 3;
        result.push_back(inside ? static_cast<float>(3 * row + column) : -7);
      }
  }
  mlir::MLIRContext context;
  auto imported = importBytes(context, b.model.SerializeAsString());
  ASSERT_TRUE(imported.ok()) << imported.status();
  auto results = referenceRun(*std::move(imported),
                              {bytesOf(std::vector<float>{0, 1, 2, 3, 4, 5}), bytesOf(std::vector<float>{-7})});
  ASSERT_TRUE(results.ok()) << results.status();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(valuesOf<float>((*results)[i]), expected[i]) << i;
}

TEST(Pad, LeavesEmptyDimensionsInEveryMode) {
  for (const char* mode : {"constant", "reflect", "edge", "wrap"}) {
    ModelBuilder b(19);
    b.input("x", {2, 0}).output("y");
    b.initializer("pads", std::vector<int64_t>{1, 0, 0, 0});
    setAttribute(b.node("Pad", {"x", "pads"}, {"y"}), "mode", mode);
    mlir::MLIRContext context;
    auto imported = importBytes(context, b.model.SerializeAsString());
    ASSERT_TRUE(imported.ok()) << mode << ": " << imported.status();
    auto results = referenceRun(*std::move(imported), {""});
    ASSERT_TRUE(results.ok()) << mode << ": " << results.status();
    EXPECT_TRUE(valuesOf<float>((*results)[0]).empty());
  }
}

TEST(Pad, CutsOffNoMoreThanThereIs) {
  ModelBuilder b;
  b.input("x", {2}).output("y");
  b.initializer("pads", std::vector<int64_t>{-4, 1});
  b.node("Pad", {"x", "pads"}, {"y"});
  mlir::MLIRContext context;
  const absl::Status status = importBytes(context, b.model.SerializeAsString()).status();
  EXPECT_THAT(status.message(), testing::HasSubstr("padding of dimension 0 is out of range")) << status;
}

}  // namespace
}  // namespace tessera::compiler
