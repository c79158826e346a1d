# cmake -DOUT=... -DVERSION=... -DLLVM=... -DFILES="a;b" -P fingerprint.cmake
set(all "${LLVM}")
foreach(file ${FILES})
  file(SHA256 ${file} digest)
  string(APPEND all ${digest})
endforeach()
string(SHA256 digest "${all}")
string(SUBSTRING ${digest} 0 12 digest)
file(WRITE ${OUT} "#include \"proto/version/version.h\"\n\nnamespace tessera {\n
const char* compilerVersion() { return \"${VERSION}+${digest}\"; }
const char* releaseVersion() { return \"${VERSION}\"; }
const char* llvmVersion() { return \"${LLVM}\"; }\n
}  // namespace tessera\n")
