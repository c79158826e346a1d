#include "server/access/access.h"

#include <initializer_list>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/limits.h"

namespace tessera::server {

bool may(v1::Role role, Right right) {
  static const std::map<v1::Role, std::set<Right>> kRights = {
      {v1::READER, {Right::kLook, Right::kFetch}},
      {v1::CLIENT, {Right::kLook, Right::kFetch, Right::kStore, Right::kSubmit}},
      {v1::WORKER, {Right::kFetch, Right::kStore, Right::kWork}},
      {v1::OPERATOR, {Right::kLook, Right::kFetch, Right::kStore, Right::kSubmit, Right::kWork, Right::kAdminister}},
  };
  const auto rights = kRights.find(role);
  return rights != kRights.end() && rights->second.contains(right);
}

int highestPriority(v1::Role role) { return role == v1::OPERATOR ? Limits::kMaxPriority : Limits::kMaxClientPriority; }

std::string describe(v1::Role role) {
  return role == v1::ROLE_UNSPECIFIED
             ? "nobody known"
             : absl::StrCat(role == v1::OPERATOR ? "an " : "a ", absl::AsciiStrToLower(v1::Role_Name(role)));
}

}  // namespace tessera::server
