#include "compiler/backends/cpu/math/trig_range_reduction.h"

#include <cmath>

namespace tessera::compiler::codegen {
namespace {

/// 2 / pi in pieces of 29 bits: each is exact times the 24 bits of a float. The pieces reach 74 bits after the binary
/// point of the largest float's product.
constexpr int kFloatBits = 29;
constexpr uint32_t kFloatPieces[] = {0x145f306d, 0x19391054, 0x14fe13ab, 0x1d1f534d,
                                     0x1b81b6c5, 0x05664f10, 0x1c820ff2};
/// 2 / pi in pieces of 24 bits: their products with one half of a double leave two bits for sums of overlapping parts.
/// They reach 128 bits after the binary point, since a double can be as near to a multiple of pi / 2 as 2^-61.
constexpr int kDoubleBits = 24;
constexpr uint32_t kDoublePieces[] = {0xa2f983, 0x6e4e44, 0x1529fc, 0x2757d1, 0xf534dd, 0xc0db62, 0x95993c, 0x439041,
                                      0xfe5163, 0xabdebb, 0xc561b7, 0x246e3a, 0x424dd2, 0xe00649, 0x2eea09, 0xd1921c,
                                      0xfe1deb, 0x1cb129, 0xa73ee8, 0x8235f5, 0x2ebb44, 0x84e99c, 0x7026b4, 0x5f7e41,
                                      0x3991d6, 0x398353, 0x39f49c, 0x845f8b, 0xbdf928, 0x3b1ff8, 0x97ffde, 0x05980f,
                                      0xef2f11, 0x8b5a0a, 0x6d1f6d, 0x367ecf, 0x27cb09, 0xb74f46, 0x3f669e, 0x5fea2d,
                                      0x7527ba, 0xc7ebe5, 0xf17b3d, 0x0739f7, 0x8a5292, 0xea6bfb, 0x5fb11f, 0x8d5d08};

/// An exact product modulo four. Exact, since both operands are multiples of its last bit.
Real withinFour(Real product) { return product - (product * 0.25).rounded() * 4.0; }

/// Sums `parts`, given in descending size. Subtracts the nearest integer of their sum first, so that adding the small
/// parts to the remainder of the large ones is not rounded away. The rounding errors of the sums (Knuth's two-sum) are
/// added at the end.
TrigReduction turnsOf(llvm::ArrayRef<Real> parts) {
  Real sum = parts.back();
  for (const Real& part : llvm::reverse(parts.drop_back())) sum = sum + part;
  const Real whole = sum.rounded();
  Real rest = -whole, lost = rest.constant(0);
  for (const Real& part : parts) {
    const Real next = rest + part, added = next - rest;
    lost = lost + ((rest - (next - added)) + (part - added));
    rest = next;
  }
  return {withinFour(whole), (rest + lost) * 1.57079632679489661923};
}

}  // namespace

TrigReduction reduceFloatByPayneHanek(Real x) {
  llvm::SmallVector<Real> parts;
  int bits = 0;
  for (const uint32_t piece : kFloatPieces) parts.push_back(withinFour(x * std::ldexp(piece, -(bits += kFloatBits))));
  return turnsOf(parts);
}

TrigReduction reduceDoubleByPayneHanek(Real x) {
  // The last pieces would be denormal; scaling the double down avoids that.
  constexpr int kScale = 500;
  x = x * std::ldexp(1, -kScale);
  const Real high = realOf(x.bits() & ~int64_t{0x7ffffff}), low = x - high;
  llvm::SmallVector<Real> parts;
  int bits = -kScale;
  for (const uint32_t piece : kDoublePieces) {
    const double number = std::ldexp(piece, -(bits += kDoubleBits));
    parts.push_back(withinFour(high * number));
    parts.push_back(withinFour(low * number));
  }
  return turnsOf(parts);
}

}  // namespace tessera::compiler::codegen
