#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/entity.h"
#include "storage/filter_sql.h"
#include "storage/page_token.h"
#include "storage/store.h"

namespace tessera::storage {

struct OrderTerm {
  const Field* field;
  bool descending;
};

/// AIP-132: "create_time desc, name". The entity's key is appended (in the last term's direction), so that
/// the order is total. INVALID_ARGUMENT naming what was found and the accepted fields.
absl::StatusOr<std::vector<OrderTerm>> parseOrderBy(std::string_view order_by, const Entity& entity);

/// What a query asks for besides its filter, checked.
struct ListOrder {
  int page_size = 0;
  std::vector<OrderTerm> order;
  std::string ordering;     ///< "create_time DESC, id DESC"
  std::string fingerprint;  ///< of entity, filter and order; binds page tokens to them
  bool has_last = false;
  std::vector<Value> last;  ///< the last item of the page before, by the order's fields
};
/// INVALID_ARGUMENT names what is wrong with page size, order or page token.
absl::StatusOr<ListOrder> resolveOrder(const ListQuery& query, const Entity& entity, const std::string& token_key);

/// One page as a statement: column 0 is the message, the order's fields follow. It asks for one row more
/// than the page holds, to know whether there is a next page.
struct ListPlan {
  std::string sql;
  std::vector<Value> values;
  int page_size = 0;
  std::vector<OrderTerm> order;
  std::string fingerprint;  ///< of entity, filter and order; binds page tokens to them
};

/// Leaves to a condition only what the project may see; empty: all. Entities without projects are everybody's.
void restrictTo(const std::string& project, const Entity& entity, Condition& condition);

/// Pages go by the last item's fields (keyset), not by an offset: items inserted meanwhile move nothing.
absl::StatusOr<ListPlan> planList(const ListQuery& query, const Entity& entity, const std::string& token_key);

}  // namespace tessera::storage
