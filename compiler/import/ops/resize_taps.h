#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tessera::compiler {

enum class Interpolation { kNearest, kLinear, kCubic };

/// How a coordinate of the result becomes one of the input; names as ONNX's coordinate_transformation_mode.
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

/// How kNearest rounds; names as ONNX's nearest_mode.
enum class Rounding { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };
inline constexpr const char* kRoundingNames[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};

struct ResizeMode {
  Interpolation interpolation = Interpolation::kNearest;
  Coordinates coordinates = Coordinates::kHalfPixel;
  Rounding rounding = Rounding::kRoundPreferFloor;
  double cubic_a = -0.75;
  bool exclude_outside = false;     ///< cubic: taps outside the input weigh nothing
  double extrapolation = 0;         ///< kTfCropAndResize: value outside the input
  bool antialias = false;           ///< a dimension that shrinks is filtered: the kernel is as wide as the step
  std::vector<double> region = {};  ///< kTfCropAndResize: starts and ends, in [0, 1], of all dimensions
};

struct ResizePlan {
  std::vector<int64_t> sizes;  ///< of the result
  std::vector<double> scales;  ///< result over input
  double kept_scale = 0;       ///< the one of all resized dimensions, where the aspect ratio is kept
};

/// Along one dimension, what each element of the result is made of: index[tap][output] and weight[tap][output].
struct Taps {
  std::vector<std::vector<int64_t>> index;  ///< inside the input; where the weight is 0, that of a tap with weight
  std::vector<std::vector<double>> weight;
  std::optional<std::vector<double>> outside;  ///< added to the sum, where coordinates may leave the input

  size_t width() const { return index.size(); }
  int64_t outputs() const { return static_cast<int64_t>(index[0].size()); }
  /// k when the result is each of `input` elements k times in a row; 0 when it is not.
  int64_t repetition(int64_t input) const;
};

/// What a scale in single precision was before it was rounded, as far as it tells: the number of fewest digits that is
/// rounded to it. By 1.7, element 17 is element 10; by the float it is almost that.
double meantScale(double scale);

/// The taps of a dimension of `input` (at least 1) elements resized to `output` ones; `dim` of the region.
Taps resizeTaps(const ResizeMode& mode, int64_t input, int64_t output, double scale, size_t dim);

}  // namespace tessera::compiler
