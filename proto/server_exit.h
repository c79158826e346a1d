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

}  // namespace tessera::server
