#pragma once

#include <string>
#include <vector>

namespace tessera::worker {

/// The argument that makes a task program serve.
inline constexpr char kServeFlag[] = "--serve";
/// Behind it: many tasks will come, for which more may be made ready than one task would gain by (huge_pages.h).
inline constexpr char kManyFlag[] = "--many";

/// For a task program that was started with kServeFlag: waits for requests at descriptor 3 and becomes one more process
/// for each, having said there that it is ready and of `build` (proto/version), a child of this one's parent as if that
/// had executed the program, but with its libraries linked already (50 ms of processor time for a compiler). Returns in
/// the new processes only, set up (child_setup.h), with the arguments asked for. Ends with the other end of the
/// descriptor. Call it before the first thread is started and before anything that a task may change is read.
std::vector<std::string> serveForks(const std::string& build);

}  // namespace tessera::worker
