#pragma once

#include <string>

#include "proto/messages/project.h"
#include "storage/store.h"

namespace tessera::storage {

/// What an artifact, a target or a reference to a blob is stored under: ids and names are unique within a project.
/// Of what is everybody's (an empty project) and of the default project the id itself: neither an id nor a project has
/// a slash, so that no two things have one key.
inline std::string storedKey(const std::string& project, const std::string& id) {
  return project.empty() || project == kDefaultProject ? id : project + "/" + id;
}

/// The same for references to blobs, of which each names its project.
inline std::string holdKey(const std::string& project, const std::string& sha256) { return project + "/" + sha256; }

/// What the last use of a project's blob, hold or artifact of this name is asked and noted under.
inline std::string useKey(Kind kind, const std::string& project, const std::string& name) {
  return kind == Kind::kHold ? holdKey(project, name) : kind == Kind::kArtifact ? storedKey(project, name) : name;
}

}  // namespace tessera::storage
