#pragma once

#include <string>
#include <vector>

namespace tessera::worker {

/// Argument that starts a task program as a fork server.
inline constexpr char kServeFlag[] = "--serve";
/// Further argument: many tasks are expected, so a longer preparation is worth it (huge_pages.h).
inline constexpr char kManyFlag[] = "--many";

/// Main loop of a task program that was started with kServeFlag. Sends its `build` (proto/version) on descriptor 3 when
/// it is ready, then waits there for requests and forks a process for each. The process becomes a child of this
/// program's parent, as if that had executed the program, but with its libraries already linked (50 ms of CPU time for
/// a compiler). Returns only in the new processes, set up (child_setup.h), with the requested arguments. Ends when the
/// other end of the descriptor is closed. Call it before the first thread is started and before anything is read that a
/// task may change.
std::vector<std::string> serveForks(const std::string& build);

}  // namespace tessera::worker
