#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tessera::compiler {

enum class Interpolation { kNearest, kLinear, kCubic };

/// How a coordinate of the result maps to the input; names as in ONNX's coordinate_transformation_mode.
enum class Coordinates {
  kHalfPixel,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfHalfPixelForNn,
  kTfCropAndResize,
  kHalfPixelSymmetric
};
inline constexpr const char* kCoordinatesNames[] = {"half_pixel",          "pytorch_half_pixel",   "align_corners",
                                                    "asymmetric",          "tf_half_pixel_for_nn", "tf_crop_and_resize",
                                                    "half_pixel_symmetric"};

/// How kNearest rounds; names as in ONNX's nearest_mode.
enum class Rounding { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };
inline constexpr const char* kRoundingNames[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};

struct ResizeMode {
  Interpolation interpolation = Interpolation::kNearest;
  Coordinates coordinates = Coordinates::kHalfPixel;
  Rounding rounding = Rounding::kRoundPreferFloor;
  double cubic_a = -0.75;
  bool exclude_outside = false;     ///< cubic: taps outside the input have weight 0
  double extrapolation = 0;         ///< kTfCropAndResize: value outside the input
  bool antialias = false;           ///< a dimension that shrinks is filtered: the kernel is as wide as the scale
  std::vector<double> region = {};  ///< kTfCropAndResize: starts and ends, in [0, 1], of all dimensions
};

struct ResizePlan {
  std::vector<int64_t> sizes;  ///< of the result
  std::vector<double> scales;  ///< result over input
  double kept_scale = 0;       ///< the common scale of all resized dimensions if the aspect ratio is kept
};

/// The weighted sum for each element of the result along one dimension: index[tap][output] and weight[tap][output].
struct Taps {
  std::vector<std::vector<int64_t>> index;  ///< inside the input; taps of weight 0 use the index of one with weight
  std::vector<std::vector<double>> weight;
  std::optional<std::vector<double>> outside;  ///< added to the sum, where coordinates may leave the input

  size_t width() const { return index.size(); }
  int64_t outputs() const { return static_cast<int64_t>(index[0].size()); }
  /// Returns k if the result is each of `input` elements k times in a row; otherwise 0.
  int64_t repetition(int64_t input) const;
};

/// Returns the decimal number with the fewest digits that rounds to this scale in single precision. With 1.7, element
/// 17 maps to element 10; with the rounded float it maps slightly before it.
double shortestDecimal(double scale);

/// Returns the taps of dimension `dim` of `input` (at least 1) elements resized to `output` ones.
Taps resizeTaps(const ResizeMode& mode, int64_t input, int64_t output, double scale, size_t dim);

}  // namespace tessera::compiler
