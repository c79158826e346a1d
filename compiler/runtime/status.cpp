#include "compiler/runtime/status.h"

#include <cstdio>
#include <cstring>
#include <system_error>

namespace tessera::compiler {

RuntimeStatus runtimeError(tessera_status code, const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return {code, text};
}

RuntimeStatus systemError(const std::string& what, int error_number) {
  return {TESSERA_IO_ERROR, what + ": " + std::generic_category().message(error_number)};
}

}  // namespace tessera::compiler
