#pragma once

#include <span>
#include <string_view>

namespace tessera::server::gateway {

/// A file of the web page (clients/web) or the documentation (clients/docs), as it was when this program was built:
/// they and the API are always of one release, nothing is looked up on a disk by what a stranger asks for, and nothing
/// needs installing.
struct PageFile {
  std::string_view path;  ///< "/web/main.js"
  std::string_view type;
  std::string_view content;
  std::string_view sha256;
};

std::span<const PageFile> pageFiles();

}  // namespace tessera::server::gateway
