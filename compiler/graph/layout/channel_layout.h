#pragma once

#include <string>

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"

namespace tessera::compiler {

/// The channel dimensions of an activation. Dimension 0 is the batch; the channels are next to it or last; the other
/// dimensions are spatial. Several dimensions are digits of one channel number, most significant first: (group, channel
/// of the group).
struct Channels {
  unsigned first = 1;
  unsigned count = 1;
  bool operator==(const Channels& other) const { return first == other.first && count == other.count; }
};

/// The position of channels in memory.
///
/// block 1: [n, C, space...], NCHW. kChannelsLast: [n, space..., C], NHWC. Any other: [n, C/block, space..., block],
/// NCHWc. If the block does not divide C, the last block is filled up (NC1HWC0) with finite values that only zero
/// weights read.
struct ChannelLayout {
  int64_t block = 1;
  bool operator==(const ChannelLayout&) const = default;
  bool blocked() const { return block > 1; }
};
constexpr ChannelLayout kChannelsFirst{1};
constexpr ChannelLayout kChannelsLast{0};

/// Returns the number of channels of a tensor.
int64_t channelCount(mlir::RankedTensorType type, Channels channels);

/// Returns the layout of a tensor whose dimensions are in memory order: channels first or last.
ChannelLayout plainLayout(mlir::RankedTensorType type, Channels channels);

/// Returns "NCHW", "NHWC" or "NCHW16c" for two spatial dimensions; "NCDHW" and so on for others.
std::string layoutName(ChannelLayout layout, int64_t rank);

/// Returns the number of channels including the fill: C rounded up to whole blocks.
int64_t filledChannels(ChannelLayout layout, int64_t channels);

/// Returns the shape in memory.
llvm::SmallVector<int64_t> physicalShape(mlir::RankedTensorType type, Channels channels, ChannelLayout layout);

/// Whether both layouts place every element of such a tensor at the same address.
bool samePlaces(mlir::RankedTensorType type, Channels channels, ChannelLayout a, ChannelLayout b);

/// Returns the number of passes over memory that convertLayout makes: 0 to 4.
int conversionPasses(mlir::RankedTensorType type, Channels channels, ChannelLayout from, ChannelLayout to);

/// Converts between layouts: `value` has the physical shape of `from`, the result that of `to`. `type` is the logical
/// type. Transposes that move any element carry kLayoutTransform.
mlir::Value convertLayout(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value,
                          mlir::RankedTensorType type, Channels channels, ChannelLayout from, ChannelLayout to);

/// Returns a view of the same elements in the same order, with consecutive dimensions merged or split. The shapes must
/// agree up to that.
mlir::Value reshapeView(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value,
                        llvm::ArrayRef<int64_t> shape);

}  // namespace tessera::compiler
