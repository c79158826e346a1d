#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "compiler/artifact/zip_writer.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/plan.pb.h"

/// The parts of an artifact that describe it. They need neither LLVM nor the objects of its kernels.
namespace tessera::compiler {

/// Alignment in bytes of the entries that are mapped from the file: code and weights.
inline constexpr uint32_t kArtifactPage = 4096;

/// Returns the part of a plan that determines its code. Two models that differ in their weights only have the same.
v1::Plan planOfCode(const v1::Plan& plan);

/// Appends the last entries, plan.pb, manifest.pb and manifest.json, and closes the file. `plan` is a serialized
/// v1::Plan.
absl::Status finishArtifact(ZipWriter& zip, const std::string& plan, const v1::Manifest& manifest);

}  // namespace tessera::compiler
