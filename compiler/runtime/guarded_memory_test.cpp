#include "compiler/runtime/guarded_memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "compiler/runtime/faults.h"

namespace tessera::compiler {
namespace {

using End = GuardedMemory::End;

bool faults(const volatile uint8_t* at) {
  return catchFault([&] { (void)*at; }).has_value();
}

GuardedMemory make(size_t bytes, size_t alignment, End end) {
  GuardedMemory memory;
  EXPECT_TRUE(memory.allocate(bytes, alignment));
  memory.place(end);
  return memory;
}

TEST(GuardedMemory, StandsAtEitherEndOfWholePages) {
  for (size_t bytes : {1, 3, 4, 60, 64, 4095, 4096, 4097, 100'003}) {
    const GuardedMemory front = make(bytes, 1, End::kFront), back = make(bytes, 1, End::kBack);
    EXPECT_TRUE(faults(front.data() - 1)) << bytes;
    EXPECT_TRUE(faults(back.data() + bytes)) << bytes;
    EXPECT_FALSE(faults(front.data())) << bytes;
    EXPECT_FALSE(faults(back.data() + bytes - 1)) << bytes;
    // An access far outside faults at either end.
    EXPECT_TRUE(faults(front.data() + bytes + 8192)) << bytes;
    EXPECT_TRUE(faults(back.data() - 8192)) << bytes;
  }
}

TEST(GuardedMemory, NoBytesAreNeverThere) {
  for (End end : {End::kFront, End::kBack}) {
    const GuardedMemory memory = make(0, 64, end);
    EXPECT_TRUE(faults(memory.data()));
    EXPECT_TRUE(faults(memory.data() - 1));
    EXPECT_EQ(memory.findOutOfBoundsWrite(), 0);
  }
}

TEST(GuardedMemory, AlignmentLeavesLessThanItself) {
  for (size_t bytes : {1, 4, 63, 64, 65, 4100}) {
    GuardedMemory memory = make(bytes, 64, End::kBack);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 64, 0u);
    EXPECT_TRUE(faults(memory.data() + (bytes + 63) / 64 * 64));
    for (size_t slack = bytes; slack < (bytes + 63) / 64 * 64; ++slack) {
      memory.place(End::kBack);
      EXPECT_EQ(memory.findOutOfBoundsWrite(), 0);
      memory.data()[slack] = GuardedMemory::kPoison - 1;
      EXPECT_EQ(memory.findOutOfBoundsWrite(), static_cast<ptrdiff_t>(slack - bytes + 1));
    }
  }
}

TEST(GuardedMemory, FindsWritesIntoTheRestOfThePage) {
  GuardedMemory memory = make(100, 4, End::kBack);
  memory.data()[-3] = 0;
  EXPECT_EQ(memory.findOutOfBoundsWrite(), -3);
  memory.place(End::kFront);
  EXPECT_EQ(memory.findOutOfBoundsWrite(), 0);
  memory.data()[100] = 0;
  EXPECT_EQ(memory.findOutOfBoundsWrite(), 1);
}

TEST(GuardedMemory, AllOfItIsNaNBeforeUse) {
  for (End end : {End::kFront, End::kBack}) {
    GuardedMemory memory = make(8, 8, end);
    // After the block, before it, and the block itself.
    for (ptrdiff_t at : {ptrdiff_t{0}, end == End::kFront ? ptrdiff_t{8} : ptrdiff_t{-8}}) {
      double wide;
      float single[2];
      std::memcpy(&wide, memory.data() + at, 8);
      std::memcpy(single, memory.data() + at, 8);
      EXPECT_TRUE(std::isnan(wide) && std::isnan(single[0]) && std::isnan(single[1])) << at;
      uint16_t half;
      std::memcpy(&half, memory.data() + at, 2);
      EXPECT_EQ(half & 0x7f80, 0x7f80);                         // bf16: not finite
      EXPECT_TRUE((half & 0x7c00) == 0x7c00 && (half & 0x7f));  // f16 and bf16: not infinite
    }
  }
}

TEST(GuardedMemory, ReadOnlyRefusesWrites) {
  GuardedMemory memory = make(16, 4, End::kBack);
  memory.setWritable(false);
  EXPECT_TRUE(catchFault([&] { *static_cast<volatile uint8_t*>(memory.data()) = 1; }));
  EXPECT_FALSE(faults(memory.data()));
  memory.setWritable(true);
  EXPECT_FALSE(catchFault([&] { *static_cast<volatile uint8_t*>(memory.data()) = 1; }));
}

TEST(GuardedMemory, MeasuresDistance) {
  const GuardedMemory memory = make(100, 4, End::kFront);
  EXPECT_EQ(memory.distance(memory.data() - 5), -5);
  EXPECT_EQ(memory.distance(memory.data() + 99), 0);
  EXPECT_EQ(memory.distance(memory.data() + 100), 1);
  EXPECT_TRUE(memory.isNear(memory.data() - 5));
  EXPECT_FALSE(memory.isNear(&memory));
}

}  // namespace
}  // namespace tessera::compiler
