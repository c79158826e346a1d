#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/loopnest/nest.h"
#include "tessera/v1/spatial.pb.h"

/// The nests of a kernel (v1::SpatialKernel) after all checks: positions are valid, types agree, every access is within
/// its buffer, and no address computation overflows.
namespace tessera::compiler::simulator {

/// Limits of a kernel. They bound memory and time of the checks, and keep sums of addresses far from overflow.
inline constexpr int kMaxKernelBuffers = 4096, kMaxKernelNests = 4096, kMaxNestLoops = 32, kMaxNestAccesses = 256,
                     kMaxNestOperations = 4096;
inline constexpr int64_t kMaxBufferElements = int64_t{1} << 40, kMaxExtent = int64_t{1} << 31,
                         kMaxNestPoints = int64_t{1} << 48;

/// An element of a buffer as a function of the loops.
struct SpatialAccess {
  int buffer = 0;
  v1::DataType dtype = v1::DATA_TYPE_F32;  ///< the buffer's
  std::vector<loopnest::Subscript> subscripts;
  std::vector<int64_t> strides;  ///< in elements, one per subscript
  int64_t offset = 0;
  loopnest::Subscript position;  ///< offset + sum of strides[d] * subscripts[d]
  loopnest::Range range;         ///< of `position`
};

struct SpatialOperation {
  std::string name;
  std::vector<int> operands;
  v1::DataType dtype = v1::DATA_TYPE_F32;
  std::string constant;
  int loop = 0;
  SpatialAccess access;  ///< of a load: buffer, dtype, strides and offset
};

struct SpatialNest {
  std::string name;
  std::vector<loopnest::Loop> loops;
  int outputs = 0;
  std::vector<SpatialAccess> accesses;
  std::vector<SpatialOperation> body;
  std::vector<int> yields;

  double points() const;
  v1::DataType typeOf(int value) const;
  /// Whether the body uses what an output holds before the point.
  bool reads(int access) const;
  std::vector<int64_t> extents() const;
  std::vector<std::string> loopNames() const;
};

struct CheckedKernel {
  int operands = 0;                 ///< number of leading buffers that are operands
  std::vector<int64_t> elements;    ///< of each buffer
  std::vector<v1::DataType> types;  ///< of each buffer
  std::vector<SpatialNest> nests;
  int64_t bytesOf(int buffer) const;  ///< saturated
};

/// Fails with INVALID_ARGUMENT naming the nest, and the loop, access or operation at fault. The schedule is not looked
/// at.
absl::StatusOr<CheckedKernel> checkKernel(const v1::SpatialKernel& kernel);

/// The loops along which the points of a nest may run in any order and at once: each moves every output, and no two
/// points with different indices in these loops write, or write and read, the same element. One entry per loop; all
/// false if that cannot be shown.
std::vector<bool> parallelLoopsOf(const SpatialNest& nest);

}  // namespace tessera::compiler::simulator
