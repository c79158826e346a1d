#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/messages/project.h"
#include "tessera/v1/admin_service.pb.h"

/// Roles and rights.
namespace tessera::server {

/// The right that a call needs.
enum class Right {
  kRead,       ///< read jobs, artifacts, records, targets, workers
  kFetch,      ///< download blobs
  kStore,      ///< upload blobs
  kSubmit,     ///< create jobs, and cancel one's own
  kWork,       ///< lease tasks, report results
  kAdminister  ///< anything that concerns others: their jobs, workers, tokens, retention
};

/// Whether the role has the right. The only table of rights.
bool may(v1::Role role, Right right);

/// The highest priority that a job of this role can have. A client may lower a job's priority, not raise it.
int highestPriority(v1::Role role);

/// The caller of a call.
struct Caller {
  std::string name;  ///< of the credential; of an anonymous caller its address, "ipv4:10.0.0.7"
  v1::Role role = v1::ROLE_UNSPECIFIED;
  bool anonymous = true;                  ///< no credential
  std::string project = kDefaultProject;  ///< owner of the objects that it sees and creates
  bool all_projects = false;              ///< lists include all projects, as an operator requested
  std::string credential = "none";        ///< "token token-5", "certificate tessera://client/ada"
  std::string from;                       ///< "ipv4:10.0.0.7:41234"
};

/// Whether the caller can see objects of this project. Workers serve all projects.
bool sees(const Caller& caller, const std::string& project);
/// The project to which the caller's lists are restricted; empty: none.
std::string scopeOf(const Caller& caller);
/// The caller's project. INVALID_ARGUMENT if it requested all projects.
absl::StatusOr<std::string> oneProject(const Caller& caller);
/// NOT_FOUND with the text that the store uses for missing objects, so that a caller learns nothing of other projects.
absl::Status notFound(const std::string& what, const std::string& id);

/// "a client" and so on, for messages.
std::string describe(v1::Role role);

}  // namespace tessera::server
