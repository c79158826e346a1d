#pragma once

#include <string>
#include <vector>

#include "compiler/ptx/machine.h"
#include "compiler/ptx/plan.h"

/// An operator as a kernel of a chip whose threads execute instructions together: from its loops to PTX, and to what
/// the text computes.
namespace tessera::compiler::ptx {

struct Question {
  std::string instruction;  ///< by name; empty: whichever has the kernel of least estimated time
  bool swizzled = true;
  std::vector<std::string> epilogue = {};  ///< steps, as epilogueOf() takes them
};

struct Kernel {
  Plan plan;
  std::string name, text;  ///< of one entry, without heading()
  size_t mappings = 0;     ///< that have a kernel
};

/// The mapping and instruction of least estimated time, as text. Element types are the operator's; results of 16 bits
/// are summed in f32 where an instruction does. FAILED_PRECONDITION says for each instruction why there is none;
/// INVALID_ARGUMENT what is wrong with the epilogue.
absl::StatusOr<Kernel> kernelOf(const intrinsic::Nest& software, const v1::Target& target, const std::string& name,
                                const Question& question = {});

/// Kernels of `most` plans (or as many as there are), evenly spread over the order of estimated times of all mappings,
/// instructions and tiles, the fastest first: what an estimate is compared with measurements on. Named `name` and a
/// number. Else as kernelOf().
absl::StatusOr<std::vector<Kernel>> kernelsOf(const intrinsic::Nest& software, const v1::Target& target,
                                              const std::string& name, int64_t most, const Question& question = {});

/// How far a result may be from the exact sum, as a share of the sum of its products' magnitudes: (1 + u)^k - 1, u the
/// unit roundoff of what is summed in, k the calls of a sum, what is added later and its last rounding. 0 for integers.
double boundOf(const Plan& plan);

struct Checked {
  int64_t blocks = 0;  ///< that were run
  int64_t results = 0, wrong = 0;
  double largest_error = 0, largest_share = 0;  ///< of floating-point results; share of the error in its bound
  std::string first_wrong;
  Run run;
};

/// Runs the kernel's text (machine.h) on tensors drawn from `seed`, and compares with the operator's own loops:
/// integers exactly, others within boundOf(). Of more than `most_points` products some blocks are run, evenly spread.
absl::StatusOr<Checked> check(const Kernel& kernel, const v1::Target& target, uint64_t seed, int64_t most_points);

}  // namespace tessera::compiler::ptx
