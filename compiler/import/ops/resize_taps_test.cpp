#include "compiler/import/ops/resize_taps.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace tessera::compiler {
namespace {

/// floor(a / b) for b > 0.
int64_t floorDivide(int64_t a, int64_t b) { return (a >= 0 ? a : a - b + 1) / b; }

/// Returns the element that integer arithmetic finds for output `o`: its coordinate is `numerator` over `denominator`.
int64_t exactNearest(Coordinates coordinates, Rounding rounding, int64_t input, int64_t output, int64_t o) {
  int64_t numerator = (2 * o + 1) * input - output, denominator = 2 * output;  // (o + 1/2) input / output - 1/2
  if (coordinates == Coordinates::kAsymmetric) numerator = 2 * o * input;
  if (coordinates == Coordinates::kPytorchHalfPixel && output == 1) numerator = 0;
  if (coordinates == Coordinates::kTfHalfPixelForNn) numerator = (2 * o + 1) * input;
  if (coordinates == Coordinates::kAlignCorners) {
    numerator = output == 1 ? 0 : o * (input - 1);
    denominator = std::max<int64_t>(output - 1, 1);
  }
  const int64_t doubled = 2 * numerator;
  int64_t nearest = 0;
  switch (rounding) {
    case Rounding::kFloor:
      nearest = floorDivide(numerator, denominator);
      break;
    case Rounding::kCeil:
      nearest = -floorDivide(-numerator, denominator);
      break;
    case Rounding::kRoundPreferFloor:
      nearest = -floorDivide(-(doubled - denominator), 2 * denominator);
      break;
    case Rounding::kRoundPreferCeil:
      nearest = floorDivide(doubled + denominator, 2 * denominator);
      break;
  }
  return std::clamp<int64_t>(nearest, 0, input - 1);
}

// Lengths whose quotient no floating-point number represents, with coordinates that are integers or halves
// nevertheless. The scale comes from the lengths, or in single precision from a model.
TEST(ResizeTaps, TakeTheNearestElementAsExactArithmeticDoes) {
  for (auto coordinates : {Coordinates::kHalfPixel, Coordinates::kPytorchHalfPixel, Coordinates::kAlignCorners,
                           Coordinates::kAsymmetric, Coordinates::kTfHalfPixelForNn}) {
    for (auto rounding : {Rounding::kRoundPreferFloor, Rounding::kRoundPreferCeil, Rounding::kFloor, Rounding::kCeil}) {
      const ResizeMode mode{.coordinates = coordinates, .rounding = rounding};
      for (int64_t input = 1; input <= 50; ++input) {
        for (int64_t output = 1; output <= 50; ++output) {
          const double scale = static_cast<double>(output) / static_cast<double>(input);
          std::vector<int64_t> exact;
          for (int64_t o = 0; o < output; ++o) {
            exact.push_back(exactNearest(coordinates, rounding, input, output, o));
          }
          for (double given : {scale, static_cast<double>(static_cast<float>(scale))}) {
            const Taps taps = resizeTaps(mode, input, output, given, 0);
            ASSERT_EQ(taps.index[0], exact)
                << input << " to " << output << ", " << kCoordinatesNames[static_cast<int>(coordinates)] << ", "
                << kRoundingNames[static_cast<int>(rounding)];
          }
        }
      }
    }
  }
}

// In single precision a model's scale of 1.7 is slightly off: coordinates that are integers for 1.7 must stay integers.
TEST(ResizeTaps, TakeTheElementThatADecimalScaleMeans) {
  for (auto coordinates : {Coordinates::kAsymmetric, Coordinates::kHalfPixel}) {
    const ResizeMode mode{.coordinates = coordinates, .rounding = Rounding::kFloor};
    for (int64_t tenths : {3, 7, 11, 13, 17, 23, 37}) {
      for (int64_t input = 3; input <= 61; ++input) {
        const int64_t output = input * tenths / 10;
        const auto given = static_cast<double>(static_cast<float>(tenths) / 10.0F);
        if (output == 0 || output * 10 == input * tenths) continue;  // both lengths are more exact than the scale
        const Taps taps = resizeTaps(mode, input, output, given, 0);
        for (int64_t o = 0; o < output; ++o) {
          // o 10 / tenths, or (o + 1/2) 10 / tenths - 1/2
          const int64_t exact = coordinates == Coordinates::kAsymmetric ? floorDivide(10 * o, tenths)
                                                                        : floorDivide(20 * o + 10 - tenths, 2 * tenths);
          ASSERT_EQ(taps.index[0][o], std::clamp<int64_t>(exact, 0, input - 1))
              << "element " << o << " of " << input << " by " << given;
        }
      }
    }
  }
}

TEST(ResizeTaps, NeighboursWithoutWeightAreNotRead) {
  for (auto interpolation : {Interpolation::kLinear, Interpolation::kCubic}) {
    const ResizeMode mode{.interpolation = interpolation, .coordinates = Coordinates::kHalfPixel};
    for (int64_t factor : {1, 3, 5}) {  // every factor-th coordinate is that of an element
      const int64_t input = 7;
      const Taps taps = resizeTaps(mode, input, input * factor, static_cast<double>(factor), 0);
      for (int64_t i = 0; i < input; ++i) {
        for (size_t t = 0; t < taps.width(); ++t) {
          EXPECT_EQ(taps.index[t][i * factor + factor / 2], i) << factor << " times, tap " << t;
        }
      }
    }
  }
}

// A scale whose product with the length is no integer: corners stay corners, as in PyTorch and ONNX Runtime.
TEST(ResizeTaps, AlignCornersWhereTheLengthIsRoundedDown) {
  const ResizeMode mode{.interpolation = Interpolation::kLinear, .coordinates = Coordinates::kAlignCorners};
  for (int64_t input : {2, 3, 5, 7, 13}) {
    for (double scale : {0.6, 1.3, 1.7, 2.9}) {
      const auto output = static_cast<int64_t>(static_cast<double>(input) * scale);
      const Taps taps = resizeTaps(mode, input, output, scale, 0);
      double first = 0, last = 0;  // coordinates of both ends
      for (size_t t = 0; t < taps.width(); ++t) {
        first += static_cast<double>(taps.index[t].front()) * taps.weight[t].front();
        last += static_cast<double>(taps.index[t].back()) * taps.weight[t].back();
      }
      EXPECT_NEAR(first, 0, 1e-12) << input << " by " << scale;
      if (output > 1) {
        EXPECT_NEAR(last, static_cast<double>(input - 1), 1e-12) << input << " by " << scale;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::compiler
