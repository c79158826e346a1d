// libFuzzer target: arbitrary bytes are a model for the importer. It must return a module or a typed error. A crash, a
// sanitizer finding, an invalid module or more memory than the limit is a bug, and so is a check of the same bytes with
// another result.
#include <cstdio>
#include <cstdlib>

#include "compiler/import/import.h"
#include "mlir/IR/MLIRContext.h"
#include "proto/messages/failure.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const MemoryFile file(data, size);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto imported = compiler::importOnnx(context, file.path(), {});
  if (!imported.ok()) {
    const v1::Failure failure = failureOf(imported.status());
    if (failure.reason() == v1::Failure::INTERNAL || failure.message().empty()) {
      std::fprintf(stderr, "untyped error: %s\n", failure.message().c_str());
      std::abort();
    }
    auto checked = compiler::checkOnnx(context, file.path(), {});
    const bool good = checked.ok() && checked->problems().empty();
    if (good != imported.ok()) {
      std::fprintf(stderr, "import: %s\ncheck: %s\n", imported.status().ToString().c_str(),
                   checked.ok() ? checked->ShortDebugString().c_str() : checked.status().ToString().c_str());
      std::abort();
    }
  }
  return 0;
}
