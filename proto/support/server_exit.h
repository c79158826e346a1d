#pragma once

/// Exit codes of tesserad, for the program that starts it.
namespace tessera::server {

/// 0: drained on request.
constexpr int kServerFailed = 1;
constexpr int kServerUsage = 2;  ///< wrong arguments; a restart does not help
/// The worker or task program is of another build; build or install them together.
constexpr int kServerOtherBuild = 3;
/// The data folder is of a newer release or another program, or is damaged. A restart does not help; an operator must
/// look.
constexpr int kServerOtherData = 4;

/// Third line of DATA/tesserad.build, after the build and the process id, if tesserad ends with its parent process.
/// Other users of that server may start a new one at once.
constexpr const char* kExitsWithParent = "ends with its parent";

}  // namespace tessera::server
