// TopK compared with a sort: rows of every length and count, with equal values, infinities and NaN.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "compiler/import/import.h"
#include "compiler/import/testing/model_builder.h"
#include "compiler/import/testing/reference_run.h"
#include "gmock/gmock.h"

namespace tessera::compiler {
namespace {

/// NaN is the greatest, as NumPy sorts it.
bool isLess(float x, float y) { return std::isnan(y) ? !std::isnan(x) : x < y; }

struct Best {
  std::vector<float> values;
  std::vector<int64_t> places;
};

/// The k best of each column of x[rows][columns], row by row.
Best bestOf(const std::vector<float>& x, int64_t rows, int64_t columns, int64_t k, bool largest) {
  Best best{std::vector<float>(k * columns), std::vector<int64_t>(k * columns)};
  for (int64_t column = 0; column < columns; ++column) {
    std::vector<int64_t> order(rows);
    std::iota(order.begin(), order.end(), 0);
    const auto value = [&](int64_t row) { return x[(row * columns) + column]; };
    std::ranges::sort(order, [&](int64_t a, int64_t b) {
      const bool less = isLess(value(a), value(b)), more = isLess(value(b), value(a));
      if (less == more) return a < b;
      return largest ? more : less;
    });
    for (int64_t i = 0; i < k; ++i) {
      best.values[(i * columns) + column] = value(order[i]);
      best.places[(i * columns) + column] = order[i];
    }
  }
  return best;
}

class TopK : public testing::TestWithParam<bool> {};

TEST_P(TopK, IsTheBeginningOfASort) {
  const bool largest = GetParam();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> few = {0, 1, 1, 2, -3, 2.5F, kInfinity, -kInfinity, std::nanf("")};
  std::mt19937 random(7);
  constexpr int64_t kColumns = 3;
  for (const int64_t rows : {1, 2, 3, 8, 17, 40}) {
    std::vector<float> x(rows * kColumns);
    for (float& each : x) each = few[random() % few.size()];
    for (int64_t k = 1; k <= rows; k += 1 + (k / 4)) {
      ModelBuilder b;
      b.input("x", {rows, kColumns}).output("v").output("i");
      b.initializer("k", {k});
      auto& node = b.node("TopK", {"x", "k"}, {"v", "i"});
      setAttribute(node, "axis", int64_t{0});
      setAttribute(node, "largest", int64_t{largest});
      mlir::MLIRContext context;
      auto imported = importBytes(context, b.model.SerializeAsString());
      ASSERT_TRUE(imported.ok()) << imported.status();
      auto results = referenceRun(*std::move(imported), {bytesOf<float>(x)});
      ASSERT_TRUE(results.ok()) << results.status();
      const Best best = bestOf(x, rows, kColumns, k, largest);
      EXPECT_THAT(valuesOf<float>((*results)[0]), testing::Pointwise(testing::NanSensitiveFloatEq(), best.values))
          << k << " of " << rows;
      EXPECT_EQ(valuesOf<int64_t>((*results)[1]), best.places) << k << " of " << rows;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Both, TopK, testing::Bool());

}  // namespace
}  // namespace tessera::compiler
