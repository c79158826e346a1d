#include "server/operator_catalog.h"

#include <utility>

#include "proto/support/status_macros.h"
#include "server/canonical.h"

namespace tessera::server {

absl::Status OperatorCatalog::announce(const v1::RegisterWorkerRequest& request) {
  if (request.operators().empty()) {
    return absl::OkStatus();
  }
  v1::ListOperatorsResponse table;
  *table.mutable_operators() = request.operators();
  table.set_compiler_version(request.compiler_version());
  std::string bytes = canonicalBytes(table);
  const std::lock_guard lock(mutex_);
  if (operators_ != nullptr && bytes == announced_) {
    return absl::OkStatus();
  }
  TESSERA_ASSIGN_OR_RETURN(operators_, storage::OperatorList::create(request.operators()));
  announced_ = std::move(bytes);
  compiler_version_ = request.compiler_version();
  return absl::OkStatus();
}

absl::StatusOr<v1::ListOperatorsResponse> OperatorCatalog::list(const storage::ListQuery& query) {
  v1::ListOperatorsResponse response;
  std::shared_ptr<storage::OperatorList> operators;
  {
    const std::lock_guard lock(mutex_);
    operators = operators_;
    response.set_compiler_version(compiler_version_);
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
