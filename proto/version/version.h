#pragma once

namespace tessera {

/// Release plus a fingerprint of the compiler's sources and of LLVM, e.g. "0.1.0+3fa2c19b7e55".
/// Two binaries with equal strings emit equal bytes for equal inputs.
const char* compilerVersion();

/// The release alone, e.g. "0.1.0".
const char* releaseVersion();

/// LLVM's version, e.g. "22.1.8".
const char* llvmVersion();

}  // namespace tessera
