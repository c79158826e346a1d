#include "server/target_catalog.h"

#include <spdlog/spdlog.h>

#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/target/target.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"
#include "server/request_checks.h"

namespace tessera::server {
namespace {

constexpr std::string_view kHost = "host";  // the client's own machine, which only the client can describe

absl::Status unknownTarget(const std::string& field, const std::string& name) {
  const bool host = name == kHost;
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_TARGET);
  failure.set_message(host ? absl::StrCat(field, ": host is the machine of whoever asks, which the service cannot see")
                           : absl::StrCat(field, ": there is no target ", name));
  failure.set_attribute(field);
  failure.set_found(name);
  failure.set_accepted("a name that ListTargets shows, or a description written out");
  failure.set_fix(host ? "send the machine written out, as `tessera targets --show host` describes it"
                       : "choose one of the listed targets, register yours, or send it written out");
  return failureStatus(failure);
}

/// Setting of the store: the names of the built-in targets that a server has stored, separated by spaces.
constexpr char kBuiltinNames[] = "builtin_targets";
/// Targets that became built in with the release that began to record their names.
constexpr const char* kAddedBeforeNamesWereRecorded[] = {"cloud", "edge", "tpu-like"};

v1::GetTargetResponse targetResponse(const std::string& project, const v1::Target& target) {
  v1::GetTargetResponse response;
  *response.mutable_target() = target;
  response.set_hash(compiler::targetHash(target));
  const v1::Target* builtin = compiler::findBuiltinTarget(target.name());
  response.set_builtin(builtin != nullptr && compiler::targetHash(*builtin) == response.hash());
  if (!response.builtin()) {
    response.set_project(project);
  }
  return response;
}

}  // namespace

absl::Status TargetCatalog::storeBuiltins() {
  TESSERA_RETURN_IF_ERROR(store_.transact([](storage::Transaction& tx) -> absl::Status {
    // Rows without a project are built-in targets, or targets of callers without a project. The names that earlier
    // releases stored as built-in ones tell them apart.
    TESSERA_ASSIGN_OR_RETURN(const std::string recorded, tx.setting(kBuiltinNames));
    std::set<std::string> before = absl::StrSplit(recorded, ' ', absl::SkipEmpty());
    if (recorded.empty()) {
      for (const v1::Target& target : compiler::builtinTargets()) {
        before.insert(target.name());
      }
      for (const char* name : kAddedBeforeNamesWereRecorded) {
        before.erase(name);
      }
    }
    for (const v1::Target& target : compiler::builtinTargets()) {
      const absl::StatusOr<v1::Target> stored = tx.getTarget("", target.name());
      if (!stored.ok() && !absl::IsNotFound(stored.status())) {
        return stored.status();
      }
      const bool own = stored.ok() && !before.contains(target.name()) &&
                       compiler::targetHash(*stored) != compiler::targetHash(target);
      if (own) {
        continue;
      }
      TESSERA_RETURN_IF_ERROR(tx.putTarget("", target));
      before.insert(target.name());
    }
    return tx.putSetting(kBuiltinNames, absl::StrJoin(before, " "));
  }));
  return findKept();
}

absl::Status TargetCatalog::findKept() {
  storage::ListQuery query;
  query.page_size = 1000;
  do {
    TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
      TESSERA_ASSIGN_OR_RETURN(const storage::Page<storage::StoredTarget> page, reader.listTargets(query));
      for (const storage::StoredTarget& stored : page.items) {
        const v1::Target* builtin = compiler::findBuiltinTarget(stored.target.name());
        if (builtin == nullptr || compiler::targetHash(*builtin) == compiler::targetHash(stored.target)) {
          continue;
        }
        kept_.emplace(stored.project, stored.target.name());
        spdlog::warn(
            "target {} of project '{}' has the name of a target that is built in since this release; the "
            "project keeps its own",
            stored.target.name(), stored.project);
      }
      query.page_token = page.next_page_token;
      return absl::OkStatus();
    }));
  } while (!query.page_token.empty());
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const v1::Target>> TargetCatalog::find(const std::string& project,
                                                                      const std::string& name) {
  if (const v1::Target* builtin = compiler::findBuiltinTarget(name); builtin != nullptr && !isKept(project, name)) {
    return std::shared_ptr<const v1::Target>(std::shared_ptr<void>(),
                                             builtin);  // not owned: built-in targets live forever
  }
  auto target = std::make_shared<v1::Target>();
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(*target, reader.getTarget(project, name));
    return absl::OkStatus();
  }));
  return target;
}

absl::StatusOr<std::shared_ptr<const v1::Target>> TargetCatalog::resolve(const std::string& project,
                                                                         const v1::TargetRef& ref) {
  if (ref.has_inline_()) {
    TESSERA_RETURN_IF_ERROR(compiler::statusOfProblems(ref.inline_().name(), compiler::validateTarget(ref.inline_())));
    return std::make_shared<const v1::Target>(ref.inline_());
  }
  TESSERA_RETURN_IF_ERROR(checkText("compile.target.name", ref.name(), Limits::kMaxNameLength, false));
  auto target = find(project, ref.name());
  return absl::IsNotFound(target.status()) ? unknownTarget("compile.target.name", ref.name()) : target;
}

absl::StatusOr<v1::GetTargetResponse> TargetCatalog::get(const std::string& project, const std::string& name) {
  if (name == kHost) {
    return unknownTarget("name", name);
  }
  TESSERA_ASSIGN_OR_RETURN(const std::shared_ptr<const v1::Target> target, find(project, name));
  return targetResponse(project, *target);
}

absl::StatusOr<v1::ListTargetsResponse> TargetCatalog::list(const storage::ListQuery& query) {
  v1::ListTargetsResponse response;
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(const storage::Page<storage::StoredTarget> page, reader.listTargets(query));
    for (const storage::StoredTarget& stored : page.items) {
      *response.add_targets() = targetResponse(stored.project, stored.target);
    }
    response.set_next_page_token(page.next_page_token);
    return absl::OkStatus();
  }));
  return response;
}

absl::StatusOr<v1::RegisterTargetResponse> TargetCatalog::add(const std::string& project, const v1::Target& target) {
  TESSERA_RETURN_IF_ERROR(compiler::statusOfProblems(target.name(), compiler::validateTarget(target)));
  v1::RegisterTargetResponse response;
  response.set_hash(compiler::targetHash(target));
  const auto taken = [&] {
    return absl::AlreadyExistsError(
        absl::StrCat("target ", target.name(), " exists with other content; register yours under another name"));
  };
  if (target.name() == kHost) {
    return fieldError("target.name", "host", "any other name: host is the machine a request comes from");
  }
  if (const v1::Target* builtin = compiler::findBuiltinTarget(target.name());
      builtin != nullptr && !isKept(project, target.name())) {
    if (compiler::targetHash(*builtin) != response.hash()) {
      return taken();
    }
    return response;
  }
  TESSERA_RETURN_IF_ERROR(store_.transact([&](storage::Transaction& tx) -> absl::Status {
    response.set_created(false);
    const auto known = tx.getTarget(project, target.name());
    if (known.ok()) {
      return compiler::targetHash(*known) == response.hash() ? absl::OkStatus() : taken();
    }
    if (!absl::IsNotFound(known.status())) {
      return known.status();
    }
    response.set_created(true);
    return tx.putTarget(project, target);
  }));
  return response;
}

}  // namespace tessera::server
