#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/hls/program.h"

/// Designs as C++17 for high-level synthesis: the pragmas are those of Vitis HLS, and a compiler without them runs the
/// same functions as a program.
namespace tessera::compiler::hls {

struct SourceFile {
  std::string name, text;
};

/// NAME.h, the top function; NAME.cpp, the engines; NAME_test.cpp, a test bench with a main function that compares the
/// design with the operator's plain loops on random data. The test bench also has
///
///   extern "C" void NAME_run(void* const* buffers);
///   extern "C" void NAME_reference(void* const* buffers);
///
/// with the buffers of the kernel in their order. Errors: UNIMPLEMENTED naming the type or operation without a C++
/// form.
absl::StatusOr<std::vector<SourceFile>> sourcesOf(const Program& program, const Device& device);

}  // namespace tessera::compiler::hls
