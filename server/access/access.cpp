#include "server/access/access.h"

#include <initializer_list>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/limits.h"
#include "server/request_checks.h"

namespace tessera::server {

bool may(v1::Role role, Right right) {
  static const std::map<v1::Role, std::set<Right>> kRights = {
      {v1::READER, {Right::kRead, Right::kFetch}},
      {v1::CLIENT, {Right::kRead, Right::kFetch, Right::kStore, Right::kSubmit}},
      {v1::WORKER, {Right::kFetch, Right::kStore, Right::kWork}},
      {v1::OPERATOR, {Right::kRead, Right::kFetch, Right::kStore, Right::kSubmit, Right::kWork, Right::kAdminister}},
  };
  const auto rights = kRights.find(role);
  return rights != kRights.end() && rights->second.contains(right);
}

int highestPriority(v1::Role role) { return role == v1::OPERATOR ? Limits::kMaxPriority : Limits::kMaxClientPriority; }

bool sees(const Caller& caller, const std::string& project) {
  return caller.all_projects || caller.role == v1::WORKER || caller.project == project;
}

std::string scopeOf(const Caller& caller) { return caller.all_projects ? "" : caller.project; }

absl::StatusOr<std::string> oneProject(const Caller& caller) {
  if (caller.all_projects) {
    return fieldError(kProjectMetadata, kEveryProject, "the name of one project: all of them are for lists");
  }
  return caller.project;
}

absl::Status notFound(const std::string& what, const std::string& id) {
  return absl::NotFoundError(absl::StrCat("there is no ", what, " \"", id, "\""));
}

std::string describe(v1::Role role) {
  return role == v1::ROLE_UNSPECIFIED
             ? "nobody known"
             : absl::StrCat(role == v1::OPERATOR ? "an " : "a ", absl::AsciiStrToLower(v1::Role_Name(role)));
}

}  // namespace tessera::server
