#include "compiler/import/ops/bounded_concat.h"

#include "compiler/import/ops/coordinates.h"

namespace tessera::compiler {
namespace {

/// If a part's length along the axis is known at run time, later parts begin at its end, and each element is looked up.
Tensor joinedAtRunTime(Emitter& e, llvm::ArrayRef<Tensor> parts, int64_t axis, const Shape& shape) {
  std::vector<Tensor> begins = {scalarI64(0)};
  const auto plus = [](const Scalars& s, mlir::ValueRange v) { return s.add(v[0], v[1]); };
  for (const Tensor& part : parts)
    begins.push_back(e.elementwise(v1::DATA_TYPE_I64, {begins.back(), extentOf(part, axis)}, plus));
  llvm::SmallVector<mlir::Value> sources, starts, sizes;
  for (size_t p = 0; p < parts.size(); ++p) {
    sources.push_back(e.value(parts[p]));
    starts.push_back(e.value(begins[p]));
    sizes.push_back(e.value(extentOf(parts[p], axis)));
  }
  Tensor result = e.generate(parts[0].dtype, shape, [&](const Scalars& s, mlir::ValueRange at) {
    const Scalars wide = s.as(v1::DATA_TYPE_I64);
    const mlir::Value place = position(s, at[axis]);
    mlir::Value element;
    for (size_t p = 0; p < parts.size(); ++p) {
      const mlir::Value begin = e.extract(wide, starts[p], {});
      llvm::SmallVector<mlir::Value> from(at.begin(), at.end());
      // Does not change used elements, but tells later analyses how many elements of a part are read.
      const mlir::Value last = wide.sub(wide.max(e.extract(wide, sizes[p], {}), wide.integer(1)), wide.integer(1));
      from[axis] = clampedCoordinate(s, wide.min(wide.sub(place, begin), last), parts[p].shape[axis]);
      const mlir::Value own = e.extract(s, sources[p], from);
      element = element ? s.select(wide.compare(Relation::kLess, place, begin), element, own) : own;
    }
    return element;
  });
  result.extents[axis] = e.value(begins.back());
  return result;
}

}  // namespace

Tensor joined(Emitter& e, llvm::ArrayRef<Tensor> parts, int64_t axis) {
  const auto moves = [axis](const Tensor& part) { return part.extents.contains(axis); };
  Shape shape = parts[0].shape;
  shape[axis] = 0;
  for (const Tensor& part : parts) shape[axis] += part.shape[axis];
  if (std::any_of(parts.begin(), parts.end() - 1, moves)) {
    std::vector<Tensor> some;
    for (const Tensor& part : parts)
      if (part.shape[axis] > 0) some.push_back(part);
    return joinedAtRunTime(e, some, axis, shape);
  }
  const Tensor& last = parts.back();
  Tensor result = e.concat(parts, axis);
  result.extents.clear();
  if (moves(last)) setExtent(result, axis, scaledExtent(e, extentOf(last, axis), 1, shape[axis] - last.shape[axis]));
  return result;
}

}  // namespace tessera::compiler
