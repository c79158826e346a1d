#pragma once

/// Exit codes of tesserad, read by whoever starts it.
namespace tessera::server {

/// 0 means: it was asked to drain, and has.
constexpr int kServerFailed = 1;
constexpr int kServerUsage = 2;  ///< its arguments are wrong: starting again cannot help
constexpr int kServerOtherBuild =
    3;  ///< its worker or task program is of another build: to be built or installed together
/// Its data folder is of a newer release, of another program or damaged: somebody has to look, starting again cannot
/// help.
constexpr int kServerOtherData = 4;

/// Third line of DATA/tesserad.build, behind the build and the process, of a tesserad that ends with the command or
/// program that started it: whoever else used it may start the next one at once.
constexpr const char* kEndsWithParent = "ends with its parent";

}  // namespace tessera::server
