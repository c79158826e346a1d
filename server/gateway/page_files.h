#pragma once

#include <span>
#include <string_view>

namespace tessera::server::gateway {

/// A file of the web page (clients/web) or the documentation (clients/docs), as of the build of this program. Page and
/// API are therefore of one release, no request reads a file from disk, and nothing has to be installed.
struct PageFile {
  std::string_view path;  ///< "/web/main.js"
  std::string_view type;
  std::string_view content;
  std::string_view sha256;
};

std::span<const PageFile> pageFiles();

}  // namespace tessera::server::gateway
