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

/// Parses an AIP-132 order: "create_time desc, name". The entity's key is appended (in the direction of the last term),
/// so that the order is total. INVALID_ARGUMENT with the text found and the accepted fields.
absl::StatusOr<std::vector<OrderTerm>> parseOrderBy(std::string_view order_by, const Entity& entity);

/// The validated parts of a query other than the filter.
struct ListOrder {
  int page_size = 0;
  std::vector<OrderTerm> order;
  std::string ordering;     ///< "create_time DESC, id DESC"
  std::string fingerprint;  ///< hash of entity, filter and order; page tokens are valid for this one only
  bool has_last = false;
  std::vector<Value> last;  ///< order fields of the previous page's last item
};
/// INVALID_ARGUMENT for a wrong page size, order or page token.
absl::StatusOr<ListOrder> resolveOrder(const ListQuery& query, const Entity& entity, const std::string& token_key);

/// A statement that returns one page: column 0 is the message, followed by the order's fields. It fetches one row more
/// than the page holds, to detect whether another page follows.
struct ListPlan {
  std::string sql;
  std::vector<Value> values;
  int page_size = 0;
  std::vector<OrderTerm> order;
  std::string fingerprint;  ///< hash of entity, filter and order; page tokens are valid for this one only
};

/// Adds the restriction to items that the project may see; empty: all items. Entities without projects are visible to
/// all.
void restrictTo(const std::string& project, const Entity& entity, Condition& condition);

/// Uses keyset pagination (the last item's fields, not an offset), so that insertions do not shift pages.
absl::StatusOr<ListPlan> planList(const ListQuery& query, const Entity& entity, const std::string& token_key);

}  // namespace tessera::storage
