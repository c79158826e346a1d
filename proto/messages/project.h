#pragma once

#include <string>

/// Projects own all jobs, artifacts, records, registered targets and references to blobs.
namespace tessera {

/// Project of credentials without a project, and of data from before projects existed.
inline constexpr char kDefaultProject[] = "default";
/// Call metadata that selects the project an operator acts for.
inline constexpr char kProjectMetadata[] = "tessera-project";
/// Metadata value for all projects, allowed in list calls.
inline constexpr char kEveryProject[] = "-";

template <typename Message>
std::string projectOf(const Message& message) {
  return message.project().empty() ? kDefaultProject : message.project();
}

/// A lower-case letter, then at most 62 of a-z, 0-9 and '-'.
inline bool isProjectName(const std::string& name) {
  return !name.empty() && name.size() <= 63 && name[0] >= 'a' && name[0] <= 'z' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
}

}  // namespace tessera
