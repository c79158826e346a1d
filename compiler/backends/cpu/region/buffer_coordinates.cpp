#include "compiler/backends/cpu/region/buffer_coordinates.h"

#include <algorithm>

namespace tessera::compiler::codegen {
namespace {

Coordinates coordinatesOf(mlir::MemRefType type) {
  Coordinates result;
  int64_t stride = 1;
  for (int dim = static_cast<int>(type.getRank()) - 1; dim >= 0; --dim) {
    const int64_t extent = type.getDimSize(dim);
    // A dimension of extent 1 would have the same stride as a neighbour, and no loop moves along it.
    if (extent == 1) continue;
    result.extents.insert(result.extents.begin(), extent);
    result.strides.insert(result.strides.begin(), stride);
    result.dims.insert(result.dims.begin(), dim);
    stride *= extent;
  }
  return result;
}

/// The coordinate along which a step of `stride` elements moves: the slowest one whose own stride is not larger.
int coordinateOf(const Coordinates& coordinates, int64_t stride) {
  for (int c = 0; c < coordinates.size(); ++c)
    if (coordinates.strides[c] <= stride) return c;
  return -1;
}

template <typename Fn>
void forEachAccess(const Nest& nest, Fn fn) {
  for (const Statement& statement : nest.statements) {
    for (const Operand& input : statement.inputs)
      if (input.access.root) fn(input.access);
    for (const Operand& output : statement.outputs) fn(output.access);
  }
}

/// The strides by which `access` splits coordinate `c`: its loops walk it as a mixed-radix number.
llvm::SmallVector<int64_t> partsOf(const Access& access, llvm::ArrayRef<int64_t> extents,
                                   const Coordinates& coordinates, int c) {
  llvm::SmallVector<std::pair<int64_t, int64_t>> walked;  // stride, extent
  for (auto [stride, extent] : llvm::zip_equal(access.strides, extents))
    if (stride > 0 && extent > 1 && coordinateOf(coordinates, stride) == c) walked.emplace_back(stride, extent);
  // One loop walks the coordinate as it is.
  if (walked.size() < 2) return {};
  llvm::sort(walked);
  llvm::SmallVector<int64_t> parts;
  int64_t stride = coordinates.strides[c];
  for (auto [mine, extent] : walked) {
    // The loops must follow each other without gap or overlap, as the digits of a number do.
    if (mine != stride) return {};
    parts.push_back(mine);
    stride *= extent;
  }
  parts.erase(parts.begin());
  if (stride != coordinates.strides[c] * coordinates.extents[c]) return {};
  return parts;
}

/// Whether a loop of `access` runs through coordinate `c` across parts and ends within a part, as for a buffer that
/// another nest pads to whole parts.
bool endsWithinPart(const Access& access, llvm::ArrayRef<int64_t> extents, const Coordinates& coordinates, int c,
                    llvm::ArrayRef<int64_t> parts) {
  for (auto [stride, extent] : llvm::zip_equal(access.strides, extents))
    for (const int64_t part : parts) {
      const int64_t within = part / coordinates.strides[c];
      if (stride == coordinates.strides[c] && extent > within && extent % within != 0) return true;
    }
  return false;
}

/// Splits coordinate `c` at the strides of `parts` if each divides the next; otherwise leaves it unchanged.
void splitCoordinate(Coordinates& coordinates, int c, llvm::SmallVector<int64_t> parts) {
  parts.push_back(coordinates.strides[c]);
  parts.push_back(coordinates.strides[c] * coordinates.extents[c]);
  llvm::sort(parts);
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  for (size_t i = 1; i < parts.size(); ++i)
    // Two accesses may split the coordinate in ways that do not nest.
    if (parts[i] % parts[i - 1] != 0) return;
  const int dim = coordinates.dims[c];
  auto erase = [c](auto& values) { values.erase(values.begin() + c); };
  erase(coordinates.extents);
  erase(coordinates.strides);
  erase(coordinates.dims);
  for (size_t i = 1; i < parts.size(); ++i) {  // the fastest first, each inserted before the previous ones
    coordinates.extents.insert(coordinates.extents.begin() + c, parts[i] / parts[i - 1]);
    coordinates.strides.insert(coordinates.strides.begin() + c, parts[i - 1]);
    coordinates.dims.insert(coordinates.dims.begin() + c, dim);
  }
}

/// The iterations of `loop` that stay within the coordinate it starts in, if it covers several: the point at which to
/// split it.
int64_t splitPoint(const Access& access, llvm::ArrayRef<int64_t> extents, int loop, const Coordinates& coordinates) {
  const int64_t stride = access.strides[loop], extent = extents[loop];
  if (stride <= 0 || extent == 1) return 0;
  const int c = coordinateOf(coordinates, stride);
  if (c < 0 || coordinates.strides[c] != stride) return 0;
  const int64_t within = coordinates.extents[c];
  return extent > within && extent % within == 0 ? within : 0;
}

}  // namespace

std::optional<Walks> walksOf(const Access& access, llvm::ArrayRef<int64_t> extents, const Coordinates& coordinates) {
  Walks walks(coordinates.size());
  int64_t rest = access.offset;
  for (int c = 0; c < coordinates.size(); ++c) {
    walks[c].start = rest / coordinates.strides[c];
    rest %= coordinates.strides[c];
  }
  if (access.offset < 0 || rest != 0) return std::nullopt;
  for (auto [loop, stride] : llvm::enumerate(access.strides)) {
    if (stride == 0 || extents[loop] == 1) continue;
    const int c = stride > 0 ? coordinateOf(coordinates, stride) : -1;
    if (c < 0 || stride % coordinates.strides[c] != 0) return std::nullopt;
    walks[c].loops.emplace_back(static_cast<int>(loop), stride / coordinates.strides[c]);
  }
  for (auto [walk, extent] : llvm::zip_equal(walks, coordinates.extents)) {
    int64_t last = walk.start;
    for (auto [loop, coefficient] : walk.loops) last += coefficient * (extents[loop] - 1);
    // A loop that leaves its coordinate carries into the next one, which separate walks cannot express.
    if (last >= extent) return std::nullopt;
  }
  return walks;
}

llvm::DenseMap<mlir::Value, Coordinates> commonCoordinates(std::vector<Nest>& nests) {
  llvm::DenseMap<mlir::Value, Coordinates> all;
  llvm::SmallVector<mlir::Value> roots;
  for (const Nest& nest : nests)
    forEachAccess(nest, [&](const Access& access) {
      if (all.try_emplace(access.root, coordinatesOf(llvm::cast<mlir::MemRefType>(access.root.getType()))).second)
        roots.push_back(access.root);
    });
  for (mlir::Value root : roots) {
    Coordinates& coordinates = all[root];
    for (int c = coordinates.size() - 1; c >= 0; --c) {
      llvm::SmallVector<int64_t> parts;
      for (const Nest& nest : nests)
        forEachAccess(nest, [&](const Access& access) {
          if (access.root == root) parts.append(partsOf(access, nest.extents, coordinates, c));
        });
      bool across = false;  // then it stays one coordinate, which views walk with several loops
      for (const Nest& nest : nests)
        forEachAccess(nest, [&](const Access& access) {
          across |= access.root == root && endsWithinPart(access, nest.extents, coordinates, c, parts);
        });
      if (!parts.empty() && !across) splitCoordinate(coordinates, c, parts);
    }
  }
  for (Nest& nest : nests)
    // Splitting changes the loop numbers, and a part may need another split, so the search starts again after each
    // one.
    for (bool changed = true; changed;) {
      changed = false;
      for (int loop = 0; loop < nest.loops() && !changed; ++loop) {
        int64_t inner = 0;
        forEachAccess(nest, [&](const Access& access) {
          if (inner == 0) inner = splitPoint(access, nest.extents, loop, all[access.root]);
        });
        if (inner == 0) continue;
        splitLoop(nest, loop, inner);
        changed = true;
      }
    }
  return all;
}

}  // namespace tessera::compiler::codegen
