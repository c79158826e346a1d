#include "compiler/graph/layout/channel_layout.h"

#include <numeric>

#include "compiler/graph/analysis/channel_block.h"
#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"

namespace tessera::compiler {

using mlir::Location;
using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::Value;

namespace {

/// Returns the block size; channels last is one block of all channels.
int64_t blockSize(ChannelLayout layout, int64_t channels) { return layout == kChannelsLast ? channels : layout.block; }

llvm::SmallVector<int64_t> spaceOf(RankedTensorType type, Channels channels) {
  llvm::SmallVector<int64_t> space;
  for (unsigned d = 1; d < type.getRank(); ++d) {
    if (d < channels.first || d >= channels.first + channels.count) space.push_back(type.getDimSize(d));
  }
  return space;
}

llvm::SmallVector<int64_t> arrange(int64_t batch, llvm::ArrayRef<int64_t> space, int64_t channels,
                                   ChannelLayout layout) {
  llvm::SmallVector<int64_t> shape = {batch};
  if (layout.block != kChannelsLast.block) shape.push_back(channels / layout.block);
  shape.append(space.begin(), space.end());
  if (layout.block != kChannelsFirst.block) shape.push_back(blockSize(layout, channels));
  return shape;
}

/// Converts by one transpose between layouts whose blocks divide each other and the channels.
Value convertDivisible(OpBuilder& builder, Location location, Value value, int64_t batch, llvm::ArrayRef<int64_t> space,
                       int64_t channels, ChannelLayout from, ChannelLayout to) {
  const int64_t a = blockSize(from, channels), b = blockSize(to, channels);
  const int64_t large = std::max(a, b), small = std::min(a, b);
  // The channel number in digits; a layout has some of them before the spatial dimensions and the others after.
  const std::array<int64_t, 3> extents = {channels / large, large / small, small};
  auto outerDigits = [&](ChannelLayout layout) -> size_t {
    if (layout == kChannelsFirst) return 3;
    if (layout == kChannelsLast) return 0;
    return layout.block == large ? 1 : 2;
  };
  struct Axis {
    int64_t extent;
    int digit;  // -1 - d: space dimension d
  };
  auto axes = [&](ChannelLayout layout) {
    llvm::SmallVector<Axis> result = {{batch, -1}};
    const size_t outer = outerDigits(layout);
    for (size_t digit = 0; digit < 3; ++digit) {
      if (digit < outer && extents[digit] > 1) result.push_back({extents[digit], static_cast<int>(digit)});
    }
    for (size_t d = 0; d < space.size(); ++d) result.push_back({space[d], -2 - static_cast<int>(d)});
    for (size_t digit = outer; digit < 3; ++digit) {
      if (extents[digit] > 1) result.push_back({extents[digit], static_cast<int>(digit)});
    }
    return result;
  };
  llvm::SmallVector<Axis> source = axes(from), target = axes(to);
  llvm::SmallVector<int64_t> shape, permutation;
  for (const Axis& axis : source) shape.push_back(axis.extent);
  for (const Axis& axis : target) {
    const auto* found = llvm::find_if(source, [&](const Axis& other) { return other.digit == axis.digit; });
    permutation.push_back(found - source.begin());
  }
  value = transposeActivation(builder, location, reshapeView(builder, location, value, shape), permutation);
  return reshapeView(builder, location, value, arrange(batch, space, channels, to));
}

bool divides(ChannelLayout layout, int64_t channels) { return !layout.blocked() || channels % layout.block == 0; }

bool nested(int64_t a, int64_t b) { return a % b == 0 || b % a == 0; }

}  // namespace

int64_t channelCount(RankedTensorType type, Channels channels) {
  int64_t count = 1;
  for (unsigned d = 0; d < channels.count; ++d) count *= type.getDimSize(channels.first + d);
  return count;
}

ChannelLayout plainLayout(RankedTensorType type, Channels channels) {
  const bool last = channels.first != 1 && channels.first + channels.count == type.getRank();
  return last ? kChannelsLast : kChannelsFirst;
}

std::string layoutName(ChannelLayout layout, int64_t rank) {
  const int64_t space = rank - 2;
  const std::string axes = space == 1 ? "W" : space == 2 ? "HW" : space == 3 ? "DHW" : "...";
  if (layout == kChannelsLast) return "N" + axes + "C";
  return "NC" + axes + (layout.blocked() ? std::to_string(layout.block) + "c" : "");
}

int64_t filledChannels(ChannelLayout layout, int64_t channels) {
  return layout.blocked() ? (channels + layout.block - 1) / layout.block * layout.block : channels;
}

llvm::SmallVector<int64_t> physicalShape(RankedTensorType type, Channels channels, ChannelLayout layout) {
  return arrange(type.getDimSize(0), spaceOf(type, channels), filledChannels(layout, channelCount(type, channels)),
                 layout);
}

bool samePlaces(RankedTensorType type, Channels channels, ChannelLayout a, ChannelLayout b) {
  if (a == b) return true;
  const int64_t count = channelCount(type, channels);
  if (filledChannels(a, count) != filledChannels(b, count)) return false;
  // Without spatial dimensions every order of the digits is the same.
  if (llvm::all_of(spaceOf(type, channels), [](int64_t extent) { return extent == 1; })) return true;
  return blockSize(a, count) == blockSize(b, count);
}

int conversionPasses(RankedTensorType type, Channels channels, ChannelLayout from, ChannelLayout to) {
  if (samePlaces(type, channels, from, to)) return 0;
  const int64_t count = channelCount(type, channels);
  if (!divides(from, count)) return 2 + conversionPasses(type, channels, kChannelsFirst, to);
  if (!divides(to, count)) return 2 + conversionPasses(type, channels, from, kChannelsFirst);
  return nested(blockSize(from, count), blockSize(to, count)) ? 1 : 2;
}

Value convertLayout(OpBuilder& builder, Location location, Value value, RankedTensorType type, Channels channels,
                    ChannelLayout from, ChannelLayout to) {
  if (from == to) return value;
  const int64_t count = channelCount(type, channels), batch = type.getDimSize(0);
  const llvm::SmallVector<int64_t> space = spaceOf(type, channels);
  // The last block of the old layout is filled up, so converting goes through channels first, without the fill.
  if (!divides(from, count)) {
    const int64_t filled = filledChannels(from, count);
    Value first = convertDivisible(builder, location, value, batch, space, filled, from, kChannelsFirst);
    const llvm::SmallVector<int64_t> shape = arrange(batch, space, count, kChannelsFirst);
    llvm::SmallVector<mlir::OpFoldResult> offsets(shape.size(), builder.getIndexAttr(0)), sizes,
        strides(shape.size(), builder.getIndexAttr(1));
    for (int64_t extent : shape) sizes.push_back(builder.getIndexAttr(extent));
    Value cut = mlir::tensor::ExtractSliceOp::create(builder, location, first, offsets, sizes, strides);
    return convertLayout(builder, location, cut, type, channels, kChannelsFirst, to);
  }
  // The new layout needs a fill: first channels first, then zeros behind the channels.
  if (!divides(to, count)) {
    Value first = convertLayout(builder, location, value, type, channels, from, kChannelsFirst);
    const int64_t filled = filledChannels(to, count);
    return convertDivisible(builder, location, padDimension(builder, location, first, 1, filled), batch, space, filled,
                            kChannelsFirst, to);
  }
  // Blocks that do not divide each other cannot be exchanged by one transpose.
  if (!nested(blockSize(from, count), blockSize(to, count))) {
    value = convertDivisible(builder, location, value, batch, space, count, from, kChannelsFirst);
    from = kChannelsFirst;
  }
  return convertDivisible(builder, location, value, batch, space, count, from, to);
}

Value reshapeView(OpBuilder& builder, Location location, Value value, llvm::ArrayRef<int64_t> shape) {
  auto type = mlir::cast<RankedTensorType>(value.getType());
  auto target = RankedTensorType::get(shape, type.getElementType());
  if (type == target) return value;
  // MLIR can regroup dimensions directly if one shape refines the other.
  if (auto groups = mlir::getReassociationIndicesForReshape(type, target)) {
    if (type.getRank() > target.getRank()) {
      return mlir::tensor::CollapseShapeOp::create(builder, location, target, value, *groups);
    }
    return mlir::tensor::ExpandShapeOp::create(builder, location, target, value, *groups);
  }
  // Otherwise through one dimension.
  mlir::ReassociationIndices all(type.getRank());
  std::iota(all.begin(), all.end(), 0);
  Value flat =
      mlir::tensor::CollapseShapeOp::create(builder, location, value, llvm::ArrayRef<mlir::ReassociationIndices>{all});
  all.resize(target.getRank());
  std::iota(all.begin(), all.end(), 0);
  return mlir::tensor::ExpandShapeOp::create(builder, location, target, flat,
                                             llvm::ArrayRef<mlir::ReassociationIndices>{all});
}

}  // namespace tessera::compiler
