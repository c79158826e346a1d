// Arbitrary text as tensor expressions gives a valid module or a typed error. A text whose inputs have symbolic extents
// is tried again with a value for each; otherwise nearly all texts would end at the first unbound dimension.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "compiler/import/expression/bounds.h"
#include "compiler/import/expression/syntax.h"
#include "compiler/import/import.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "proto/messages/failure.h"
#include "tests/fuzz/memory_file.h"

namespace {

using namespace tessera;
using namespace tessera::compiler;

[[noreturn]] void report(const char* what, const std::string& details) {
  std::fprintf(stderr, "%s: %s\n", what, details.c_str());
  std::abort();
}

/// Reason of the rejection; UNSPECIFIED if the text was accepted.
v1::Failure::Reason tryImport(const std::string& path, const ImportOptions& options) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto imported = importExpression(context, path, options);
  if (imported.ok()) {
    if (mlir::failed(mlir::verify(*imported->module))) report("an invalid module", path);
    return v1::Failure::REASON_UNSPECIFIED;
  }
  const v1::Failure failure = failureOf(imported.status());
  if (failure.reason() == v1::Failure::INTERNAL || failure.message().empty()) {
    report("untyped error", failure.message());
  }
  return failure.reason();
}

/// A shape for each input: numbers as written, symbols as 1 to 7, equal for equal names.
std::map<std::string, std::vector<int64_t>> shapesFor(const expression::Program& program) {
  expression::Constants constants;
  for (const expression::Param& param : program.params) {
    if (auto value = evaluate(*param.value, constants); value.ok()) constants.emplace(param.name, *value);
  }
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const expression::Input& input : program.inputs) {
    std::vector<int64_t>& shape = shapes[input.name];
    shape.clear();
    for (const expression::NodePtr& extent : input.shape) {
      const auto value = evaluate(*extent, constants);
      shape.push_back(value.ok() ? *value : static_cast<int64_t>(std::hash<std::string>()(extent->name) % 7 + 1));
    }
  }
  return shapes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  if (tryImport(file.path(), {}) != v1::Failure::UNBOUND_DIMENSION) return 0;
  const auto program = expression::parse({reinterpret_cast<const char*>(data), size});
  if (!program.ok()) report("accepted once, refused the second time", std::string(program.status().message()));
  tryImport(file.path(), {.input_shapes = shapesFor(*program), .external_data = {}});
  return 0;
}
