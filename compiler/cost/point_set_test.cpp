#include "compiler/cost/point_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tessera::compiler::cost {
namespace {

using Points = std::set<int64_t>;

Points sums(const std::vector<Translation>& translations, const Points& begin = {0}) {
  Points all = begin;
  for (const Translation& each : translations) {
    Points next;
    for (const int64_t point : all)
      for (int64_t i = 0; i < each.count; ++i) next.insert(point + i * each.stride);
    all = std::move(next);
  }
  return all;
}

int64_t common(const Points& points, int64_t distance) {
  int64_t count = 0;
  for (const int64_t point : points) count += static_cast<int64_t>(points.count(point - distance));
  return count;
}

TEST(PointSet, WindowsAreIntervalsAndStridesLeaveHoles) {
  const std::vector<Translation> window = {{1, 3}, {2, 4}};
  EXPECT_EQ(PointSet::sumsOf(window).size(), 9);  // 2 * p + r
  const std::vector<Translation> strided = {{3, 4}};
  EXPECT_EQ(PointSet::sumsOf(strided).size(), 4);
  EXPECT_EQ(PointSet::sumsOf(strided).overlap(3), 3);
  EXPECT_EQ(PointSet::sumsOf(strided).overlap(2), 0);
  EXPECT_EQ(PointSet::sumsOf({}).size(), 1);
}

TEST(PointSet, EqualsSetsOfNumbers) {
  std::mt19937_64 random(3);
  const auto draw = [&](size_t most) {
    std::vector<Translation> translations(random() % (most + 1));
    for (Translation& each : translations)
      each = {static_cast<int64_t>(random() % 13) - 6, 1 + static_cast<int64_t>(random() % 4)};
    return translations;
  };
  for (int round = 0; round < 3000; ++round) {
    const auto within = draw(3), copies = draw(2);
    const PointSet set = PointSet::sumsOf(within);
    const Points points = sums(within);
    ASSERT_EQ(set.size(), static_cast<int64_t>(points.size())) << round;
    const int64_t distance = static_cast<int64_t>(random() % 21) - 10;
    ASSERT_EQ(set.overlap(distance), common(points, distance)) << round;
    const PointSet fresh = set.without(distance);
    ASSERT_EQ(fresh.size(), set.size() - set.overlap(distance)) << round;
    Points rest;
    for (const int64_t point : points)
      if (!points.contains(point - distance)) rest.insert(point);
    const auto others = draw(3);
    Points left = points, either = points;
    for (const int64_t point : sums(others)) {
      left.erase(point + distance);
      either.insert(point + distance);
    }
    const PointSet other = PointSet::sumsOf(others).moved(distance);
    ASSERT_EQ(set.minus(other).size(), static_cast<int64_t>(left.size())) << round;
    ASSERT_EQ(set.unionWith(other).size(), static_cast<int64_t>(either.size())) << round;
    ASSERT_EQ(set.minus(other).unionWith(other), set.unionWith(other)) << round;
    ASSERT_EQ(fresh.spreadSize(copies), static_cast<int64_t>(rest.empty() ? 0 : sums(copies, rest).size())) << round;
    ASSERT_EQ(set.spreadSize(copies), static_cast<int64_t>(sums(copies, points).size())) << round;
    ASSERT_EQ(set.spread(copies).size(), set.spreadSize(copies)) << round;
    Points both = points;
    for (const int64_t point : points) both.insert(point + distance);
    ASSERT_EQ(set.unionWith(set.moved(distance)).size(), static_cast<int64_t>(both.size())) << round;
    ASSERT_EQ(set.contains(set.moved(distance)), distance == 0) << round;
  }
}

}  // namespace
}  // namespace tessera::compiler::cost
