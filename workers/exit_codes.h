#pragma once

/// Exit codes of tessera-task. 0: result.pb is complete (it may hold a Failure). Any code that is not listed, and any
/// signal, is a crash.
namespace tessera::worker {

constexpr int kTaskOutOfMemory = 120;   ///< an allocation failed under the address space limit
constexpr int kTaskCannotStart = 121;   ///< wrong arguments, unreadable task.pb, or no sandbox
constexpr int kTaskCannotReport = 122;  ///< result.pb could not be written
constexpr int kTaskOtherBuild = 123;    ///< the program is of another build than the one its worker started with
constexpr int kTaskExecFailed = 127;    ///< the supervisor could not start the task binary

}  // namespace tessera::worker
