#pragma once

#include <string>

/// Whose things are whose. Every job, artifact, record, registered target and reference to a blob is a project's.
namespace tessera {

/// That of credentials which name none, and of what was stored before there were projects.
inline constexpr char kDefaultProject[] = "default";
/// In a call's metadata, the project an operator speaks for ...
inline constexpr char kProjectMetadata[] = "tessera-project";
/// ... or, in lists, all of them.
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
