#pragma once

#include <cstdarg>
#include <string>

#include "compiler/runtime/tessera.h"

namespace tessera::compiler {

/// The result of a runtime operation: a code of the C interface and, on failure, one sentence. Replaces absl::Status,
/// since libtessera_rt depends on libc and zlib only.
class [[nodiscard]] RuntimeStatus {
 public:
  RuntimeStatus() = default;
  RuntimeStatus(tessera_status code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == TESSERA_OK; }
  tessera_status code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  tessera_status code_ = TESSERA_OK;
  std::string message_;
};

/// A failure with a printf-formatted sentence.
RuntimeStatus runtimeError(tessera_status code, const char* format, ...) __attribute__((format(printf, 2, 3)));

/// An IO_ERROR that ends with the text of `error_number`, e.g. "open model.tsra: No such file or directory".
RuntimeStatus systemError(const std::string& what, int error_number);

}  // namespace tessera::compiler
