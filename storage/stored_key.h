#pragma once

#include <string>

#include "proto/messages/project.h"
#include "storage/store.h"

namespace tessera::storage {

/// Key under which an artifact, target or blob reference is stored; ids and names are unique only within a project.
/// Items of all projects (empty project) and of the default project are stored under their id. Neither ids nor project
/// names contain a slash, so keys are unique.
inline std::string storedKey(const std::string& project, const std::string& id) {
  return project.empty() || project == kDefaultProject ? id : project + "/" + id;
}

/// Key of a project's reference to a blob; always contains the project.
inline std::string blobReferenceKey(const std::string& project, const std::string& sha256) {
  return project + "/" + sha256;
}

/// Key under which the last use of a blob, of a project's reference to a blob, or of an artifact is stored.
inline std::string useKey(Kind kind, const std::string& project, const std::string& name) {
  return kind == Kind::kBlobReference ? blobReferenceKey(project, name)
         : kind == Kind::kArtifact    ? storedKey(project, name)
                                      : name;
}

}  // namespace tessera::storage
