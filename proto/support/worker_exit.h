#pragma once

/// Exit codes of tessera-worker, for the program that starts it. Any other end is a crash.
namespace tessera::worker {

/// 0: drained on request.
constexpr int kWorkerFailed = 1;
constexpr int kWorkerUsage = 2;  ///< wrong arguments; a restart does not help
/// The server, or the installed task program, has another compiler. A restart does not help.
constexpr int kWorkerVersionMismatch = 3;
constexpr int kWorkerScratchUnusable = 4;  ///< the scratch folder is in use by another worker or not writable
constexpr int kWorkerStopped = 5;          ///< stopped at once; a task may have been abandoned

}  // namespace tessera::worker
