#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace tessera::storage {

/// Visits the end of each element of an XML document, with its path from the root ("ListBucketResult/Contents/Key") and
/// its text (empty if it has children). Understands the answers of S3 services: attributes, comments and declarations
/// are skipped, predefined entities and character references are decoded; CDATA sections and DTDs are rejected.
/// DATA_LOSS if the document is malformed or deeper than 16 elements.
absl::Status forEachXmlElement(std::string_view document,
                               const std::function<void(const std::string& path, const std::string& text)>& visit);

/// Text of the first element with this path; empty if there is none or the document is malformed.
std::string xmlText(std::string_view document, const std::string& path);

}  // namespace tessera::storage
