#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/messages/project.h"
#include "tessera/v1/admin_service.pb.h"

/// Who may do what.
namespace tessera::server {

/// What a call does, as far as permission to do it goes.
enum class Right {
  kLook,       ///< at jobs, artifacts, records, targets, workers
  kFetch,      ///< the content of blobs
  kStore,      ///< blobs
  kSubmit,     ///< jobs; and end one's own
  kWork,       ///< lease tasks, report results
  kAdminister  ///< everything that concerns others: their jobs, workers, tokens, what is kept
};

/// Whether whoever has this role may do that: the one table of it.
bool may(v1::Role role, Right right);

/// The highest priority a job of this role can have. A client may step back, but not before the others.
int highestPriority(v1::Role role);

/// Who makes a call.
struct Caller {
  std::string name;  ///< of the credential; of a stranger where the call comes from, "ipv4:10.0.0.7"
  v1::Role role = v1::ROLE_UNSPECIFIED;
  bool anonymous = true;                  ///< without any credential
  std::string project = kDefaultProject;  ///< whose things it sees and makes
  bool every_project = false;             ///< lists are of all projects: an operator has asked for that
  std::string credential = "none";        ///< "token token-5", "certificate tessera://client/ada"
  std::string from;                       ///< "ipv4:10.0.0.7:41234"
};

/// Whether a thing of this project is the caller's to see. Workers serve all projects.
bool sees(const Caller& caller, const std::string& project);
/// What lists of this caller are restricted to; empty: nothing.
std::string scopeOf(const Caller& caller);
/// The caller's project; INVALID_ARGUMENT where it asks for all of them at a time.
absl::StatusOr<std::string> oneProject(const Caller& caller);
/// NOT_FOUND, in the store's words for what is not there: nobody learns what others have.
absl::Status notThere(const std::string& what, const std::string& id);

/// "a client", for messages.
std::string describe(v1::Role role);

}  // namespace tessera::server
