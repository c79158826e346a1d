#include "server/operator_catalog.h"

#include <utility>

#include "proto/support/status_macros.h"
#include "server/canonical.h"

namespace tessera::server {
namespace {
/// Name of the table among the registry's values.
constexpr char kValueName[] = "operators";
}  // namespace

absl::Status OperatorCatalog::announce(const v1::RegisterWorkerRequest& request) {
  if (request.operators().empty()) {
    return absl::OkStatus();
  }
  v1::ListOperatorsResponse table;
  *table.mutable_operators() = request.operators();
  table.set_compiler_version(request.compiler_version());
  std::string bytes = canonicalBytes(table);
  {
    const std::lock_guard lock(mutex_);
    if (operators_ != nullptr && bytes == announced_) {
      return absl::OkStatus();
    }
  }
  if (registry_.isShared()) {
    TESSERA_RETURN_IF_ERROR(registry_.setValue(kValueName, bytes));
  }
  return take(table, std::move(bytes));
}

absl::Status OperatorCatalog::take(const v1::ListOperatorsResponse& table, std::string bytes) {
  const std::lock_guard lock(mutex_);
  TESSERA_ASSIGN_OR_RETURN(operators_, storage::OperatorList::create(table.operators()));
  announced_ = std::move(bytes);
  compiler_version_ = table.compiler_version();
  return absl::OkStatus();
}

absl::StatusOr<v1::ListOperatorsResponse> OperatorCatalog::list(const storage::ListQuery& query) {
  v1::ListOperatorsResponse response;
  std::shared_ptr<storage::OperatorList> operators;
  const auto look = [&] {
    const std::lock_guard lock(mutex_);
    operators = operators_;
    response.set_compiler_version(compiler_version_);
  };
  look();
  if (operators == nullptr && registry_.isShared()) {
    v1::ListOperatorsResponse table;
    if (auto bytes = registry_.value(kValueName); bytes.ok() && table.ParseFromString(*bytes)) {
      TESSERA_RETURN_IF_ERROR(take(table, *std::move(bytes)));
      look();
    }
  }
  if (operators == nullptr) {
    return absl::UnavailableError(
        "no worker has registered since this server started, and the table of operators is the workers'; start one "
        "with tessera-worker, or tesserad with --workers, and ask again");
  }
  TESSERA_ASSIGN_OR_RETURN(const storage::Page<v1::OperatorInfo> page, operators->list(query));
  response.mutable_operators()->Assign(page.items.begin(), page.items.end());
  response.set_next_page_token(page.next_page_token);
  return response;
}

}  // namespace tessera::server
