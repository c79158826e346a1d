#pragma once

#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <system_error>

#include "compiler/runtime/session.h"
#include "compiler/runtime/status.h"
#include "compiler/runtime/tessera.h"

/// Shared by the files of the C interface. The structs are the handles of tessera.h.

struct tessera_artifact {
  std::shared_ptr<const tessera::compiler::LoadedArtifact> loaded;
};

struct tessera_session {
  int threads = 1;

  /// The session of the next run. A caller's pointer keeps it alive, even if it is replaced meanwhile.
  std::shared_ptr<tessera::compiler::Session> current() const {
    const std::lock_guard lock(mutex);
    return session;
  }
  void replace(std::shared_ptr<tessera::compiler::Session> next) {
    const std::lock_guard lock(mutex);
    session.swap(next);  // the previous one is destroyed after the lock is released, unless a run still uses it
  }
  /// The session of the latest run, which holds the extents of its results; before any run, that of the next one.
  std::shared_ptr<tessera::compiler::Session> latest() const {
    const std::lock_guard lock(mutex);
    return ran ? ran : session;
  }
  void hasRun(std::shared_ptr<tessera::compiler::Session> now) {
    const std::lock_guard lock(mutex);
    ran.swap(now);
  }

 private:
  mutable std::mutex mutex;
  std::shared_ptr<tessera::compiler::Session> session, ran;
};

namespace tessera::compiler {

/// Stores the error of this thread; returns its code.
tessera_status report(const RuntimeStatus& status);
/// INVALID_ARGUMENT with this sentence.
tessera_status invalidArgument(const char* what);

/// Runs a body that returns a RuntimeStatus and may throw exceptions of the standard library.
template <typename Body>
tessera_status guarded(Body body) {
  try {
    return report(body());
  } catch (const std::bad_alloc&) {
    return report(RuntimeStatus(TESSERA_OUT_OF_MEMORY, "out of memory"));
  } catch (const std::system_error& error) {
    return report(RuntimeStatus(TESSERA_IO_ERROR, std::string("the system refused: ") + error.what()));
  }
}

}  // namespace tessera::compiler
