#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/support/status_macros.h"
#include "storage/columns.h"
#include "storage/entity.h"
#include "storage/list_query.h"
#include "storage/memory/table.h"
#include "storage/store.h"

/// Lists over tables in memory, with the same rules as SQLite's.
namespace tessera::storage {

/// A filter that was validated against an entity.
class RowFilter {
 public:
  virtual ~RowFilter() = default;
  /// `columns` are in the order of the entity's fields.
  virtual bool matches(const std::vector<Value>& columns) const = 0;
};
absl::StatusOr<std::unique_ptr<RowFilter>> makeRowFilter(std::string_view filter, const Entity& entity);

/// Whether the project may see a row; equivalent of restrictTo().
bool isVisibleTo(const std::string& project, const Entity& entity, const std::vector<Value>& columns);

/// Whether `a` precedes `b`; both contain the order's fields.
bool precedes(const std::vector<OrderTerm>& order, const std::vector<Value>& a, const std::vector<Value>& b);
/// Extracts the order's fields of a row.
std::vector<Value> orderColumns(const ListOrder& list, const Entity& entity, const std::vector<Value>& columns);

/// A page ends at this size, so that a list of jobs with inline tensors fits in a gRPC message (4 MiB).
inline constexpr size_t kMemoryPageBytes = 2 << 20;

template <typename Message>
size_t bytesOf(const Message& message) {
  return message.ByteSizeLong();
}
inline size_t bytesOf(const StoredTarget& stored) { return stored.target.ByteSizeLong(); }

/// `messageOf(row)` returns the message of a table's row.
template <typename Message, typename Row, typename MessageOf>
absl::StatusOr<Page<Message>> pageOfTable(const Table<std::string, Row>& table, const Entity& entity,
                                          const ListQuery& query, const std::string& token_key, MessageOf messageOf) {
  TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<RowFilter> filter, makeRowFilter(query.filter, entity));
  TESSERA_ASSIGN_OR_RETURN(ListOrder list, resolveOrder(query, entity, token_key));
  struct Found {
    std::vector<Value> by;
    const Message* message;
  };
  std::vector<Found> found;
  for (const auto& [key, row] : table.rows()) {
    const Message& message = messageOf(*row);
    const std::vector<Value> columns = columnsOf(message);
    if (!filter->matches(columns) || !isVisibleTo(query.project, entity, columns)) continue;
    Found item{orderColumns(list, entity, columns), &message};
    if (!list.has_last || precedes(list.order, list.last, item.by)) found.push_back(std::move(item));
  }
  std::sort(found.begin(), found.end(),
            [&](const Found& a, const Found& b) { return precedes(list.order, a.by, b.by); });
  Page<Message> page;
  size_t bytes = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (static_cast<int>(page.items.size()) == list.page_size || bytes >= kMemoryPageBytes) {
      page.next_page_token = makePageToken(list.fingerprint, found[i - 1].by, token_key);
      break;
    }
    page.items.push_back(*found[i].message);
    bytes += bytesOf(*found[i].message);
  }
  return page;
}

}  // namespace tessera::storage
