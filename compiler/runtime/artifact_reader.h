#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/runtime/status.h"
#include "compiler/runtime/zip_directory.h"

/// Reads artifact files without protobuf or MLIR (format: tessera/v1/artifact.proto). Needs libc and zlib.
namespace tessera::compiler {

/// Names of an artifact's entries.
inline constexpr std::string_view kManifestEntry = "manifest.pb";  ///< a serialized v1::Manifest
inline constexpr std::string_view kManifestJsonEntry = "manifest.json";
inline constexpr std::string_view kRequirementsEntry = "target.txt";  ///< see Requirements
inline constexpr std::string_view kCodeEntry = "code.so";
inline constexpr std::string_view kKernelsEntry = "kernels.pb";  ///< a serialized v1::SpatialProgram, in place of code
inline constexpr std::string_view kSourceEntry = "kernels.cl";   ///< OpenCL C, in place of code
inline constexpr std::string_view kLaunchesEntry =
    "launches.pb";  ///< a serialized v1::OpenClProgram, with kSourceEntry
inline constexpr std::string_view kWeightsEntry = "weights.bin";
inline constexpr std::string_view kPlanEntry = "plan.pb";  ///< a serialized v1::Plan

/// An artifact's bytes and their directory. Immutable after opening; copies share the bytes.
class ArtifactFile {
 public:
  /// Map the file read-only; `fd` stays the caller's. Fail with IO_ERROR or CORRUPT.
  static RuntimeStatus open(const std::string& path, ArtifactFile* file);
  static RuntimeStatus openFd(int fd, ArtifactFile* file);
  /// The bytes must outlive the ArtifactFile and its copies.
  static RuntimeStatus fromMemory(std::span<const uint8_t> bytes, ArtifactFile* file);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// Null when there is no such entry.
  const ZipEntry* find(std::string_view name) const;
  /// Contents of an entry of this file, without checking them.
  std::span<const uint8_t> bytes(const ZipEntry& entry) const { return bytes_.subspan(entry.offset, entry.size); }
  /// Contents after checking the checksum. Fails with CORRUPT when the entry is missing or damaged.
  RuntimeStatus read(std::string_view name, std::span<const uint8_t>* contents) const;
  RuntimeStatus readText(std::string_view name, std::string* contents) const;

 private:
  RuntimeStatus readDirectory();

  std::shared_ptr<const void> mapping_;  // null for memory of the caller's
  std::span<const uint8_t> bytes_;
  std::vector<ZipEntry> entries_;
};

/// Requirements on the host, as in target.txt: the first line is "tessera-requirements 1", then one "triple <triple>"
/// line, and one "feature <LLVM name>" line for each feature; for a program of a described chip instead "simulated
/// <name of the target>", of an OpenCL device "opencl <name of the target>". Can be read before any code is loaded.
struct Requirements {
  std::string triple;
  std::vector<std::string> features;
  std::string simulated = {};  ///< the described chip; then only the simulator runs the artifact, no host does
  std::string opencl = {};     ///< the described OpenCL device; then a device runs the artifact, not the host
};
RuntimeStatus parseRequirements(std::string_view text, Requirements* requirements);
std::string printRequirements(const Requirements& requirements);

/// Fails with INCOMPATIBLE, naming the architecture or every missing feature. Requests registers from the kernel that
/// it grants on request only (hostFeature).
RuntimeStatus checkHost(const Requirements& requirements);

}  // namespace tessera::compiler
