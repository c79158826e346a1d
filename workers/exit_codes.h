#pragma once

/// Exit codes of tessera-task. Everything else that ends it is a crash.
namespace tessera::worker {

/// 0 means: result.pb is whole (it may hold a Failure).
constexpr int kTaskOutOfMemory = 120;   ///< an allocation failed under the address space limit
constexpr int kTaskCannotStart = 121;   ///< bad arguments, unreadable task.pb, or no sandbox
constexpr int kTaskCannotReport = 122;  ///< result.pb could not be written
constexpr int kTaskOtherBuild = 123;    ///< it is of another build than its worker began with
constexpr int kTaskExecFailed = 127;    ///< the supervisor could not start the task binary

}  // namespace tessera::worker
