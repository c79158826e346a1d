#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/spatial/shared_cache.h"
#include "tessera/v1/spatial.pb.h"
#include "tessera/v1/target.pb.h"

/// Kernels of described chips: scheduled, checked, run on bytes and timed.
namespace tessera::compiler::simulator {

/// Options of scheduleKernel().
struct KernelScheduleOptions {
  bool scalar = false;  ///< no instructions: every nest runs on a vector unit (CompileOptions.opt_level 1)
};

/// Chooses how each nest of the kernel runs on the chip. Candidates are instructions and mappings (AMOS; thesis,
/// chapter 5) if the nest is a sum of products of the instruction's element types that starts from zero, and the vector
/// units; the lowest simulated time wins. Sums that the body rounds to f16 or bf16 at every step count as sums of an
/// instruction that rounds them once; they run on a vector unit only if no instruction takes them. A nest that needs
/// one result of such sums at each point runs on them in an inner memory (epilogue.h), if that is faster. Sets
/// kernel.schedule and kernel.refusal. Deterministic. Errors: FAILED_PRECONDITION naming the nest if neither can run
/// it.
absl::Status scheduleKernel(v1::SpatialKernel& kernel, const v1::Target& target,
                            const KernelScheduleOptions& options = {});

/// Cost of one run of a kernel. `steps` has one entry per nest, in the order of the leaves; the time of a follower is
/// part of its product's.
using KernelCost = v1::SimulatedRun;

/// A kernel that is ready to run. Loading checks everything, because kernels are read from untrusted files.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;

  /// Fails with INVALID_ARGUMENT naming the nest, and the access or the path of the tile, at fault. `target` must pass
  /// validateTarget.
  static absl::StatusOr<std::unique_ptr<LoadedKernel>> load(const v1::SpatialKernel& kernel, const v1::Target& target);

  /// Runs the kernel on the bytes of its operands, in the order of SpatialKernel.buffers: arguments are read, results
  /// are written completely. Every operand has exactly the size of its buffer. Errors name the nest and the point:
  /// OUT_OF_RANGE for a load outside of its buffer, INTERNAL for a program that leaves its memories. One call at a
  /// time.
  virtual absl::Status run(std::span<uint8_t* const> operands) = 0;

  /// The kernel as text: for each nest its program (program.h), or its unit and tiles.
  virtual std::string text() const = 0;

  /// Time, energy and traffic of one run; they do not depend on the data. A copy reads an element of a buffer once,
  /// also if windows in it overlap. `cache` holds what earlier kernels left, and holds what this one leaves afterwards;
  /// `tensors` identifies each operand in it.
  virtual absl::StatusOr<KernelCost> cost(SharedCache& cache, std::span<const int64_t> tensors) = 0;

  /// The cost of a run of this kernel alone.
  virtual absl::StatusOr<KernelCost> cost() = 0;
};

}  // namespace tessera::compiler::simulator
