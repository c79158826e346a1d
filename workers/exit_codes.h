#pragma once

/// Exit codes that carry meaning between processes. Everything else that ends a process is a crash.
namespace tessera::worker {

/// Of tessera-task. 0 means: result.pb is whole (it may hold a Failure).
constexpr int kTaskOutOfMemory = 120;   ///< an allocation failed under the address space limit
constexpr int kTaskCannotStart = 121;   ///< bad arguments, unreadable task.pb, or no sandbox
constexpr int kTaskCannotReport = 122;  ///< result.pb could not be written
constexpr int kTaskExecFailed = 127;    ///< the supervisor could not start the task binary

/// Of tessera-worker. 0 means: it was asked to drain, and has.
constexpr int kWorkerFailed = 1;
constexpr int kWorkerUsage = 2;
constexpr int kWorkerVersionMismatch = 3;  ///< the server runs another compiler: starting again cannot help
constexpr int kWorkerScratchUnusable = 4;  ///< the scratch folder is in use by another worker, or not writable
constexpr int kWorkerStopped = 5;          ///< stopped at once; a task may have been abandoned

}  // namespace tessera::worker
