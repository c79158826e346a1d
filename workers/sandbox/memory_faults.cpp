#include "workers/sandbox/memory_faults.h"

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>

#include "workers/exit_codes.h"

namespace tessera::worker {
namespace {

// std::thread throws if there is no address space for its stack.
[[noreturn]] void onTerminate() {
  if (std::exception_ptr error = std::current_exception()) {
    try {
      std::rethrow_exception(error);
    } catch (const std::bad_alloc&) {
      exitOutOfMemory();
    } catch (const std::system_error& system) {
      if (system.code() == std::errc::resource_unavailable_try_again) exitOutOfMemory();
    } catch (...) {
      std::abort();
    }
  }
  std::abort();
}

}  // namespace

void exitOutOfMemory() {
  // Do not allocate, and use no stream.
  constexpr char kText[] = "out of memory: an allocation failed under the address space limit\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
  _exit(kTaskOutOfMemory);
}

void exitWhenMemoryRunsOut() {
  std::set_new_handler(exitOutOfMemory);
  std::set_terminate(onTerminate);
}

}  // namespace tessera::worker
