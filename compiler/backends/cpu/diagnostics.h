#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "proto/messages/failure.h"

namespace tessera::compiler::codegen {

/// Collects MLIR's diagnostics during its lifetime, so that an error names the cause of a failure.
class Diagnostics {
 public:
  explicit Diagnostics(mlir::MLIRContext& context)
      : handler_(&context, [this](mlir::Diagnostic& diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && text_.size() < 4096)
            absl::StrAppend(&text_, text_.empty() ? "" : "; ", diagnostic.str());
          return mlir::success();
        }) {}

  /// INTERNAL, because the compiler itself produces workloads: a fault in one is a fault of the compiler.
  absl::Status failure(const std::string& what) const {
    return failureStatus(v1::Failure::INTERNAL, text_.empty() ? what : absl::StrCat(what, ": ", text_));
  }

 private:
  std::string text_;
  mlir::ScopedDiagnosticHandler handler_;
};

}  // namespace tessera::compiler::codegen
