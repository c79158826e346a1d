// Untrusted bytes as MLIR text give a valid module or a typed error.
#include <cstdio>
#include <cstdlib>

#include "compiler/import/import.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "proto/messages/failure.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const MemoryFile file(data, size);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  const auto imported = compiler::importMlir(context, file.path(), {});
  if (imported.ok()) {
    if (mlir::failed(mlir::verify(*imported->module))) std::abort();
    return 0;
  }
  const v1::Failure failure = failureOf(imported.status());
  if (failure.reason() == v1::Failure::INTERNAL || failure.message().empty()) {
    std::fprintf(stderr, "untyped error: %s\n", failure.message().c_str());
    std::abort();
  }
  return 0;
}
