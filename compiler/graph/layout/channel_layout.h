#pragma once

#include <string>

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"

namespace tessera::compiler {

/// Which dimensions of an activation are its channels: dimension 0 is the batch, the channels stand next to it or
/// last, the rest is space. Several dimensions are digits of one channel number, the first the most significant:
/// (group, channel of the group).
struct Channels {
  unsigned first = 1;
  unsigned count = 1;
  bool operator==(const Channels& other) const { return first == other.first && count == other.count; }
};

/// How the channels of an activation lie in memory.
///
/// block 1: [n, C, space...], NCHW. kChannelsLast: [n, space..., C], NHWC. Any other: [n, C/block, space..., block],
/// NCHWc; where the block does not divide C, the last block is filled up (NC1HWC0), with values that are finite and
/// never read by anything but zero weights.
struct ChannelLayout {
  int64_t block = 1;
  bool operator==(const ChannelLayout&) const = default;
  bool blocked() const { return block > 1; }
};
constexpr ChannelLayout kChannelsFirst{1};
constexpr ChannelLayout kChannelsLast{0};

/// Number of channels of a tensor.
int64_t channelCount(mlir::RankedTensorType type, Channels channels);

/// The layout in which a tensor of this type lies as it is written: channels first or last.
ChannelLayout plainLayout(mlir::RankedTensorType type, Channels channels);

/// "NCHW", "NHWC", "NCHW16c", for two spatial dimensions; "NCDHW" and so on for others.
std::string layoutName(ChannelLayout layout, int64_t rank);

/// What the channels become with the filling: C rounded up to whole blocks.
int64_t filledChannels(ChannelLayout layout, int64_t channels);

/// The shape in memory.
llvm::SmallVector<int64_t> physicalShape(mlir::RankedTensorType type, Channels channels, ChannelLayout layout);

/// Whether both layouts put every element of such a tensor at the same place.
bool samePlaces(mlir::RankedTensorType type, Channels channels, ChannelLayout a, ChannelLayout b);

/// Passes over memory that convertLayout makes: 0 to 4.
int conversionPasses(mlir::RankedTensorType type, Channels channels, ChannelLayout from, ChannelLayout to);

/// From one layout to another: `value` has the physical shape of `from`, the result that of `to`. Transposes that
/// move anything carry kLayoutTransform. `type` is the tensor as the graph sees it.
mlir::Value convertLayout(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value,
                          mlir::RankedTensorType type, Channels channels, ChannelLayout from, ChannelLayout to);

/// Another view of the same elements in the same order: consecutive dimensions merged or split. Shapes must agree up
/// to that.
mlir::Value reshapeView(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value,
                        llvm::ArrayRef<int64_t> shape);

}  // namespace tessera::compiler
