#include "compiler/graph/constants/dense_value.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "compiler/graph/constants/in_parallel.h"

namespace tessera::compiler {
namespace {

std::atomic<int64_t> in_memory = 0;

struct PlaneLoop {
  int64_t extent = 1;
  int64_t read = 0;
  int64_t write = 0;
};

/// Transposes a square with the side of a cache line, contiguous along `outer` in the source and along `inner` in the
/// destination. Each line is touched once, because lines of a large matrix map to the same few cache sets and evict
/// each other.
template <typename T>
void transposeLines(const char* from, char* to, int64_t read, int64_t write) {
  constexpr int64_t kWidth = sizeof(T), kLine = 64 / kWidth;
  T lines[kLine][kLine];
  for (int64_t i = 0; i < kLine; ++i) std::memcpy(lines[i], from + i * read * kWidth, 64);
  for (int64_t o = 0; o < kLine; ++o) {
    T line[kLine];
    for (int64_t i = 0; i < kLine; ++i) line[i] = lines[i][o];
    std::memcpy(to + o * write * kWidth, line, 64);
  }
}

/// Copies a plane: `inner` is contiguous in the destination, `outer` in the source if any loop is. Bytes of a mapped
/// file may be unaligned, hence memcpy instead of typed loads.
template <typename T>
void copyPlane(const char* from, char* to, const PlaneLoop& outer, const PlaneLoop& inner) {
  constexpr int64_t kWidth = sizeof(T);
  // Rows that are contiguous on both sides are copied whole. All else goes in blocks of one cache line by one cache
  // line, so that a line of the strided side is used up before it leaves the cache; a full block whose source is
  // contiguous along the outer loop and whose target along the inner one is transposed in registers.
  if (inner.read == 1 && inner.write == 1) {
    for (int64_t o = 0; o < outer.extent; ++o) {
      std::memcpy(to + o * outer.write * kWidth, from + o * outer.read * kWidth, inner.extent * kWidth);
    }
    return;
  }
  constexpr int64_t kTile = 64 / kWidth;
  const bool transposes = outer.read == 1 && inner.write == 1;
  for (int64_t o0 = 0; o0 < outer.extent; o0 += kTile) {
    const int64_t o1 = std::min(o0 + kTile, outer.extent);
    for (int64_t i0 = 0; i0 < inner.extent; i0 += kTile) {
      const int64_t i1 = std::min(i0 + kTile, inner.extent);
      if (transposes && o1 - o0 == kTile && i1 - i0 == kTile) {
        transposeLines<T>(from + (o0 + i0 * inner.read) * kWidth, to + (o0 * outer.write + i0) * kWidth, inner.read,
                          outer.write);
        continue;
      }
      for (int64_t o = o0; o < o1; ++o) {
        const char* source = from + o * outer.read * kWidth;
        char* target = to + o * outer.write * kWidth;
        for (int64_t i = i0; i < i1; ++i) {
          T element;
          std::memcpy(&element, source + i * inner.read * kWidth, kWidth);
          std::memcpy(target + i * inner.write * kWidth, &element, kWidth);
        }
      }
    }
  }
}

void copyPlane(int64_t width, const char* from, char* to, const PlaneLoop& outer, const PlaneLoop& inner) {
  switch (width) {
    case 1:
      return copyPlane<uint8_t>(from, to, outer, inner);
    case 2:
      return copyPlane<uint16_t>(from, to, outer, inner);
    case 4:
      return copyPlane<uint32_t>(from, to, outer, inner);
    default:
      return copyPlane<uint64_t>(from, to, outer, inner);
  }
}

void copyLoops(llvm::ArrayRef<int64_t> extents, int64_t width, const char* from, const StridedAccess& read, char* to,
               const StridedAccess& write) {
  for (int64_t extent : extents) {
    if (extent == 0) return;
  }
  // Chooses the plane: inside the most contiguous loop of the destination, outside the most contiguous other loop of
  // the source.
  auto smallestStride = [&](const StridedAccess& access, int skip) {
    int best = -1;
    for (int d = 0; d < static_cast<int>(extents.size()); ++d) {
      if (d == skip || extents[d] == 1 || access.strides[d] == 0) continue;
      if (best < 0 || access.strides[d] < access.strides[best]) best = d;
    }
    return best;
  };
  const int inner_loop = smallestStride(write, -1);
  const int outer_loop = smallestStride(read, inner_loop);
  auto plane = [&](int loop) {
    return loop < 0 ? PlaneLoop{} : PlaneLoop{extents[loop], read.strides[loop], write.strides[loop]};
  };
  const PlaneLoop inner = plane(inner_loop);
  const PlaneLoop outer = plane(outer_loop);
  llvm::SmallVector<int64_t> index(extents.size(), 0);
  int64_t read_at = read.offset;
  int64_t write_at = write.offset;
  while (true) {
    copyPlane(width, from + read_at * width, to + write_at * width, outer, inner);
    int d = static_cast<int>(extents.size()) - 1;
    for (; d >= 0; --d) {
      if (d == inner_loop || d == outer_loop) continue;
      read_at += read.strides[d];
      write_at += write.strides[d];
      if (++index[d] < extents[d]) break;
      read_at -= read.strides[d] * extents[d];
      write_at -= write.strides[d] * extents[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace

int64_t DenseValue::elements() const {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

int64_t denseWidth(mlir::Type element) {
  if (element.isIndex()) return 8;
  if (!element.isIntOrFloat()) return 0;
  const unsigned bits = element.getIntOrFloatBitWidth();
  if (bits == 1) return 1;
  return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? bits / 8 : 0;
}

DenseValue makeDense(llvm::ArrayRef<int64_t> shape, int64_t width, char** writable) {
  DenseValue value{llvm::SmallVector<int64_t>(shape), width, nullptr, nullptr};
  if (value.bytes() >= kMappedBytes) {
    // Fresh pages are zero. Huge pages are requested, because a page fault per small page costs more than filling it.
    const auto size = static_cast<size_t>(value.bytes());
    void* pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages != MAP_FAILED) {
      madvise(pages, size, MADV_HUGEPAGE);
      in_memory += value.bytes();
      *writable = static_cast<char*>(pages);
      value.data = *writable;
      value.owner = std::shared_ptr<const void>(pages, [size](const void* at) {
        munmap(const_cast<void*>(at), size);
        in_memory -= static_cast<int64_t>(size);
      });
      return value;
    }
  }
  std::shared_ptr<char[]> bytes(new char[std::max<int64_t>(value.bytes(), 1)]());
  *writable = bytes.get();
  value.data = bytes.get();
  value.owner = std::shared_ptr<const void>(bytes, bytes.get());
  return value;
}

llvm::SmallVector<int64_t> rowMajorStrides(llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

int64_t denseBytesInMemory() { return in_memory; }

int parallelLoop(llvm::ArrayRef<int64_t> extents, llvm::ArrayRef<int64_t> strides) {
  int64_t span = 0;  // extent covered by all loops with smaller strides
  int outer = -1;
  for (size_t d = 0; d < extents.size(); ++d) {
    span += (extents[d] - 1) * strides[d];
    if (extents[d] > 1 && (outer < 0 || strides[d] > strides[outer])) outer = static_cast<int>(d);
  }
  if (outer < 0 || span - (extents[outer] - 1) * strides[outer] >= strides[outer]) return -1;
  return outer;
}

void copyStrided(llvm::ArrayRef<int64_t> extents, int64_t width, const char* from, const StridedAccess& read, char* to,
                 const StridedAccess& write) {
  int64_t bytes = width;
  for (int64_t extent : extents) bytes *= extent;
  const int apart = bytes >= kMinParallelWork ? parallelLoop(extents, write.strides) : -1;
  if (apart < 0) return copyLoops(extents, width, from, read, to, write);
  parallelFor(extents[apart], [&](int64_t begin, int64_t end) {
    llvm::SmallVector<int64_t> piece(extents);
    piece[apart] = end - begin;
    copyLoops(piece, width, from + begin * read.strides[apart] * width, read, to + begin * write.strides[apart] * width,
              write);
  });
}

}  // namespace tessera::compiler
