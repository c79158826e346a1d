#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "proto/messages/failure.h"

namespace tessera::compiler::codegen {

/// Collects what MLIR reports while it is alive, so that a failure says more than that something failed.
class Diagnostics {
 public:
  explicit Diagnostics(mlir::MLIRContext& context)
      : handler_(&context, [this](mlir::Diagnostic& diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && text_.size() < 4096)
            absl::StrAppend(&text_, text_.empty() ? "" : "; ", diagnostic.str());
          return mlir::success();
        }) {}

  /// INTERNAL: a workload is the compiler's own product, so what is wrong with it is the compiler's fault.
  absl::Status failure(const std::string& what) const {
    return failureStatus(v1::Failure::INTERNAL, text_.empty() ? what : absl::StrCat(what, ": ", text_));
  }

 private:
  std::string text_;
  mlir::ScopedDiagnosticHandler handler_;
};

}  // namespace tessera::compiler::codegen
