#include "clients/cli/target_flag.h"

#include <cerrno>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/target/host.h"
#include "compiler/target/target.h"

namespace tessera::client {

absl::StatusOr<v1::TargetRef> resolveTarget(const std::string& flag) {
  v1::TargetRef ref;
  if (flag == "host") {
    auto host = compiler::detectHostTarget();
    if (!host.ok()) return host.status();
    *ref.mutable_inline_() = std::move(*host);
    return ref;
  }
  if (!absl::StrContains(flag, '/') && !absl::EndsWith(flag, ".textproto")) {
    ref.set_name(flag);
    return ref;
  }
  std::ifstream in(flag);
  if (!in) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open the target description ", flag));
  std::ostringstream text;
  text << in.rdbuf();
  auto target = compiler::parseTarget(std::move(text).str());
  if (!target.ok()) return target.status();
  *ref.mutable_inline_() = *target;
  return ref;
}

}  // namespace tessera::client
