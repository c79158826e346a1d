// Untrusted bytes as an artifact file: the directory, each entry's checksum, target.txt.
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "compiler/artifact/zip_writer.h"
#include "compiler/runtime/artifact_reader.h"

using tessera::compiler::ArtifactFile;
using tessera::compiler::Requirements;
using tessera::compiler::ZipEntry;
using tessera::compiler::ZipWriter;

namespace {

std::string writeSample(bool zip64) {
  const std::string path = "/tmp/artifact_fuzz." + std::to_string(getpid());
  ZipWriter zip;
  if (!zip.open(path, zip64).ok()) __builtin_trap();
  const bool written = zip.add("target.txt", "tessera-requirements 1\ntriple x86_64-linux\nfeature avx2\n").ok() &&
                       zip.add("code.so", "code", 64).ok() && zip.add("manifest.pb", "m").ok() && zip.finish().ok();
  if (!written) __builtin_trap();
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  unlink(path.c_str());
  return bytes;
}

const std::string& sample(bool zip64) {
  static const std::string samples[] = {writeSample(false), writeSample(true)};
  return samples[zip64];
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

/// Starts from well-formed files: random bytes alone almost never contain a zip directory.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  const std::string& fresh = sample(seed % 2 == 0);
  if ((size < 22 || seed % 16 == 0) && fresh.size() <= max_size) {
    std::copy(fresh.begin(), fresh.end(), data);
    size = fresh.size();
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ArtifactFile file;
  if (!ArtifactFile::fromMemory({data, size}, &file).ok()) return 0;
  for (const ZipEntry& entry : file.entries()) {
    // All entries that the reader accepts are inside the file.
    if (entry.offset > size || entry.size > size - entry.offset) __builtin_trap();
    std::string contents;
    if (!file.readText(entry.name, &contents).ok()) continue;
    Requirements requirements;
    if (parseRequirements(contents, &requirements).ok()) (void)checkHost(requirements);
  }
  return 0;
}
