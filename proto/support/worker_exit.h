#pragma once

/// Exit codes of tessera-worker, read by whoever starts it. Everything else that ends it is a crash.
namespace tessera::worker {

/// 0 means: it was asked to drain, and has.
constexpr int kWorkerFailed = 1;
constexpr int kWorkerUsage = 2;  ///< its arguments are wrong: starting again cannot help
constexpr int kWorkerVersionMismatch =
    3;  ///< the server runs another compiler, or tasks do now: a start alone cannot help
constexpr int kWorkerScratchUnusable = 4;  ///< the scratch folder is in use by another worker, or not writable
constexpr int kWorkerStopped = 5;          ///< stopped at once; a task may have been abandoned

}  // namespace tessera::worker
