// libFuzzer target: any bytes at all are offered to the importer as a model. It must give a module or a typed
// error; a crash, a sanitizer's finding, an invalid module or more than the memory limit is a bug. So is a check of
// the same bytes that comes to another verdict.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "compiler/import/import.h"
#include "mlir/IR/MLIRContext.h"
#include "proto/failure.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  using namespace tessera;
  const int fd = memfd_create("model", 0);
  if (fd < 0 || write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    const std::string path = absl::StrCat("/proc/self/fd/", fd);
    auto imported = compiler::importOnnx(context, path, {});
    if (!imported.ok()) {
      const v1::Failure failure = failureOf(imported.status());
      if (failure.reason() == v1::Failure::INTERNAL || failure.message().empty()) {
        std::fprintf(stderr, "untyped error: %s\n", failure.message().c_str());
        std::abort();
      }
    }
    auto checked = compiler::checkOnnx(context, path, {});
    const bool good = checked.ok() && checked->problems().empty();
    if (good != imported.ok()) {
      std::fprintf(stderr, "import: %s\ncheck: %s\n", imported.status().ToString().c_str(),
                   checked.ok() ? checked->ShortDebugString().c_str() : checked.status().ToString().c_str());
      std::abort();
    }
  }
  close(fd);
  return 0;
}
