#include "clients/cli/target_flag.h"

#include <cerrno>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/target/host.h"
#include "compiler/target/target.h"

namespace tessera::client {

absl::StatusOr<v1::Target> readTargetFile(const std::string& path) {
  std::ifstream in(path);
  if (!in) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open the target description ", path));
  std::ostringstream text;
  text << in.rdbuf();
  return compiler::parseTargetText(std::move(text).str());
}

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
  auto target = readTargetFile(flag);
  if (!target.ok()) return target.status();
  *ref.mutable_inline_() = *target;
  return ref;
}

}  // namespace tessera::client
