#include "clients/cli/target_flag.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/cpp/local_file.h"
#include "compiler/target/host.h"
#include "compiler/target/target.h"
#include "proto/support/status_macros.h"

namespace tessera::client {

absl::StatusOr<std::string> readTargetText(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return absl::InvalidArgumentError(absl::StrCat(path, " is a folder; the file of a target description is wanted"));
  std::ifstream in(path);
  if (!in) return fileError(errno, absl::StrCat("cannot open the target description ", path));
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

absl::StatusOr<v1::Target> readTargetFile(const std::string& path) {
  TESSERA_ASSIGN_OR_RETURN(auto text, readTargetText(path));
  return compiler::parseTargetText(text);
}

absl::StatusOr<v1::TargetRef> resolveTarget(const std::string& flag) {
  v1::TargetRef ref;
  if (flag == "host") {
    TESSERA_ASSIGN_OR_RETURN(auto host, compiler::detectHostTarget());
    *ref.mutable_inline_() = std::move(host);
    return ref;
  }
  std::error_code error;
  const bool named_as_file = absl::StrContains(flag, '/') || absl::EndsWith(flag, ".textproto");
  // "npu.txt" is a file if it exists in this folder; a word without a '.' is a name, even if such a file exists.
  if (!named_as_file && !(absl::StrContains(flag, '.') && std::filesystem::exists(flag, error))) {
    ref.set_name(flag);
    return ref;
  }
  TESSERA_ASSIGN_OR_RETURN(auto target, readTargetFile(flag));
  *ref.mutable_inline_() = target;
  return ref;
}

absl::StatusOr<v1::Target> describedTarget(const CommandLine& line, const std::string& flag) {
  if (const v1::Target* builtin = compiler::findBuiltinTarget(flag)) return *builtin;
  TESSERA_ASSIGN_OR_RETURN(v1::TargetRef ref, resolveTarget(flag));
  if (ref.has_inline_()) {
    const absl::Status status =
        compiler::statusOfProblems(ref.inline_().name(), compiler::validateTarget(ref.inline_()));
    return status.ok() ? absl::StatusOr<v1::Target>(std::move(*ref.mutable_inline_())) : status;
  }
  TESSERA_ASSIGN_OR_RETURN(auto channel, line.connect());
  v1::GetTargetRequest request;
  request.set_name(flag);
  TESSERA_ASSIGN_OR_RETURN(auto answer,
                           channel->call(channel->targets(), &v1::TargetService::Stub::GetTarget, request));
  return std::move(*answer.mutable_target());
}

}  // namespace tessera::client
