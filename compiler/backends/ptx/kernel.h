#pragma once

#include <string>
#include <vector>

#include "compiler/backends/ptx/machine.h"
#include "compiler/backends/ptx/plan.h"

/// Compiles an operator to a PTX kernel of a chip whose threads execute instructions together, and checks what the text
/// computes.
namespace tessera::compiler::ptx {

struct Question {
  std::string instruction;  ///< by name; empty: the one with the lowest estimated time
  bool swizzled = true;
  std::vector<std::string> epilogue = {};  ///< steps, as epilogueOf() takes them
};

struct Kernel {
  Plan plan;
  std::string name, text;  ///< one entry point, without heading()
  size_t mappings = 0;     ///< number of mappings that have a kernel
};

/// Writes the kernel of the mapping and instruction with the lowest estimated time. Element types are the operator's;
/// results of 16 bits are summed in f32 if an instruction supports that. Errors: FAILED_PRECONDITION giving, for each
/// instruction, the reason why there is no kernel; INVALID_ARGUMENT for a faulty epilogue.
absl::StatusOr<Kernel> kernelOf(const loopnest::Nest& software, const v1::Target& target, const std::string& name,
                                const Question& question = {});

/// Writes kernels for `most` plans (or all, if fewer), evenly spaced in the order of estimated time over all mappings,
/// instructions and tiles, fastest first: for comparing estimates with measurements. Named `name` plus a number. Errors
/// as kernelOf().
absl::StatusOr<std::vector<Kernel>> kernelsOf(const loopnest::Nest& software, const v1::Target& target,
                                              const std::string& name, int64_t most, const Question& question = {});

/// Bound of the distance of a result from the exact sum, relative to the sum of its products' magnitudes: (1 + u)^k -
/// 1, where u is the unit roundoff of the accumulator and k counts the calls of a sum, the epilogue's additions and the
/// last rounding. 0 for integers.
double boundOf(const Plan& plan);

struct Checked {
  int64_t blocks = 0;  ///< that were run
  int64_t results = 0, wrong = 0;
  /// of floating-point results; largest_error_ratio: error divided by its bound
  double largest_error = 0, largest_error_ratio = 0;
  std::string first_wrong;
  Run run;
};

/// Runs the kernel's text (machine.h) on random tensors from `seed` and compares with the operator's own loops:
/// integers exactly, others within boundOf(). With more than `most_points` products only some blocks, evenly spread,
/// are run.
absl::StatusOr<Checked> check(const Kernel& kernel, const v1::Target& target, uint64_t seed, int64_t most_points);

}  // namespace tessera::compiler::ptx
