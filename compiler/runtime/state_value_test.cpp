#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "compiler/runtime/state.h"

namespace tessera::compiler {
namespace {

/// A cache of f32 with shape [batch, 2, rows, 3]; up to 3 batches, up to 5 rows before a run and 7 after it.
struct CacheTables {
  int64_t shape[4] = {3, 2, 5, 3}, whole[4] = {3, 2, 7, 3};
  int32_t ranges[4] = {0, -1, 1, -1};
  tessera_module_tensor input = {"cache", TESSERA_F32, 4, shape, 360, ranges};
  tessera_module_tensor output = {"next", TESSERA_F32, 4, whole, 504, nullptr};
  tessera_module_state state = {0, 0, 2, -1, -1, 0, nullptr};
  tessera_module_variant variant = {};
  tessera_module module = {};

  CacheTables() {
    variant.inputs = &input;
    variant.outputs = &output;
    variant.states = &state;
    variant.num_states = 1;
    module.variants = &variant;
    module.num_variants = module.num_inputs = module.num_outputs = 1;
  }
  CacheTables(const CacheTables&) = delete;
  CacheTables& operator=(const CacheTables&) = delete;

  void prepare(StateValue& value) const { ASSERT_TRUE(value.prepare(module, 0, 504).ok()); }
};

std::vector<int64_t> extentsOf(const StateValue& value) { return {value.extents().begin(), value.extents().end()}; }

std::vector<float> copyOf(const StateValue& value) {
  std::vector<float> copy(static_cast<size_t>(value.sizeBytes()) / sizeof(float));
  value.copyTo(copy.data());
  return copy;
}

std::vector<float> ramp(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

/// Number of elements of laid-out memory that are not zero.
int64_t nonZeros(StateValue& value) {
  const auto* const data = reinterpret_cast<const float*>(value.data());
  constexpr int kElements = 126;  // of 504 bytes
  return std::count_if(data, data + kElements, [](float element) { return element != 0; });
}

TEST(StateValue, HasNoRowsAndNoBatchAtFirst) {
  const CacheTables tables;
  StateValue value;
  tables.prepare(value);
  EXPECT_EQ(extentsOf(value), (std::vector<int64_t>{-1, 2, 0, 3}));
  EXPECT_FALSE(value.decided());
  value.decide(std::vector<int64_t>{2, 2, 0, 3});
  EXPECT_EQ(extentsOf(value), (std::vector<int64_t>{2, 2, 0, 3}));
  EXPECT_EQ(value.sizeBytes(), 0);
  value.abandon();  // the run that decided it has failed
  EXPECT_FALSE(value.decided());
}

TEST(StateValue, KeepsItsElementsInEveryLayout) {
  const CacheTables tables;
  StateValue value;
  tables.prepare(value);
  const std::vector<int64_t> extents = {2, 2, 4, 3};
  const std::vector<float> elements = ramp(48);
  value.assign(extents, elements.data());
  EXPECT_EQ(copyOf(value), elements);
  for (const std::vector<int64_t>& bounds :
       {std::vector<int64_t>{3, 2, 7, 3}, {2, 2, 4, 3}, {3, 2, 5, 3}, {3, 2, 7, 3}}) {
    value.layOut(bounds);
    EXPECT_EQ(copyOf(value), elements);
    EXPECT_EQ(nonZeros(value), 48);  // zeros everywhere else
  }
  value.makeDense();
  EXPECT_EQ(copyOf(value), elements);
}

TEST(StateValue, AppendsRowsToEachPartAndForgetsThemAgain) {
  const CacheTables tables;
  StateValue value;
  tables.prepare(value);
  value.decide(std::vector<int64_t>{2, 2, 0, 3});
  value.layOut(tables.whole);
  EXPECT_EQ(value.outer(), 6);
  EXPECT_EQ(value.capacity(), 7);
  const std::vector<float> rows = ramp(6);
  const auto append = [&](int64_t end) {
    for (int64_t part = 0; part < value.outer(); ++part)
      value.writeRows(part, end, reinterpret_cast<const uint8_t*>(rows.data()));
  };
  append(2);
  value.acceptRows(2);
  EXPECT_EQ(nonZeros(value), 2 * 2 * 2 * 3);  // none in the third batch, which the run does not have
  append(3);
  EXPECT_EQ(nonZeros(value), 2 * 2 * 3 * 3);
  value.clearRows(2, 7);  // the run has failed
  EXPECT_EQ(nonZeros(value), 2 * 2 * 2 * 3);
  EXPECT_EQ(copyOf(value),
            (std::vector<float>{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}));
  value.reset();
  EXPECT_EQ(nonZeros(value), 0);
  EXPECT_EQ(extentsOf(value), (std::vector<int64_t>{-1, 2, 0, 3}));
  value.decide(std::vector<int64_t>{3, 2, 0, 3});
  value.layOut(tables.whole);
  append(1);
  value.acceptRows(1);
  EXPECT_EQ(nonZeros(value), 3 * 2 * 3);
}

TEST(StateValue, TakesTheMemoryThatARunWrote) {
  const CacheTables tables;
  StateValue value;
  tables.prepare(value);
  const std::vector<float> elements = ramp(18);
  value.assign(std::vector<int64_t>{1, 2, 1, 3}, elements.data());
  std::copy(elements.begin(), elements.end(), reinterpret_cast<float*>(value.next()));
  EXPECT_EQ(copyOf(value), ramp(6));  // until the run has succeeded
  value.accept(std::vector<int64_t>{1, 2, 3, 3});
  EXPECT_EQ(copyOf(value), elements);
  value.layOut(tables.whole);  // the other memory has had a value: it is cleaned first
  EXPECT_EQ(nonZeros(value), 18);
}

TEST(StateValue, HasNoSizeThatDiffersBetweenVariantsAtFirst) {
  CacheTables tables;
  int64_t one[] = {1, 4}, three[] = {3, 4};
  tables.input = {"cell", TESSERA_F32, 2, one, 16, nullptr};
  const tessera_module_tensor larger = {"cell", TESSERA_F32, 2, three, 48, nullptr};
  tables.state.growing_dim = -1;
  tessera_module_variant variants[] = {tables.variant, tables.variant};
  variants[1].inputs = &larger;
  tables.module.variants = variants;
  tables.module.num_variants = 2;
  StateValue value;
  ASSERT_TRUE(value.prepare(tables.module, 0, 48).ok());
  EXPECT_EQ(extentsOf(value), (std::vector<int64_t>{-1, 4}));
  value.decide(three);
  EXPECT_EQ(copyOf(value), std::vector<float>(12, 0.0F));
}

TEST(StateValue, BeginsWithTheDefaultOfItsInput) {
  CacheTables tables;
  const float initial[] = {3, 4};
  int64_t two[] = {2};
  tables.input = {"cell", TESSERA_F32, 1, two, 8, nullptr};
  tables.output = tables.input;
  tables.state.growing_dim = -1;
  const tessera_module_fixed_input known = {0, 1, initial, 8};
  tables.module.fixed_inputs = &known;
  tables.module.num_fixed_inputs = 1;
  StateValue value;
  ASSERT_TRUE(value.prepare(tables.module, 0, 8).ok());
  EXPECT_EQ(copyOf(value), (std::vector<float>{3, 4}));
  const float other[] = {5, 6};
  value.assign(two, other);
  EXPECT_EQ(copyOf(value), (std::vector<float>{5, 6}));
  value.reset();
  EXPECT_EQ(copyOf(value), (std::vector<float>{3, 4}));
}

}  // namespace
}  // namespace tessera::compiler
