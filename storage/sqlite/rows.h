#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "storage/list_query.h"
#include "storage/sqlite/database.h"

/// From rows to messages. In every statement here the message is column 0.
namespace tessera::storage {

template <typename Message>
absl::StatusOr<Message> messageOf(const Statement& row) {
  Message message;
  const std::string_view body = row.bytes(0);
  if (message.ParseFromArray(body.data(), static_cast<int>(body.size()))) return message;
  return absl::DataLossError(
      absl::StrCat("a stored ", message.GetTypeName(), " of ", body.size(), " bytes cannot be read; restore a backup"));
}

/// The single row; NOT_FOUND naming `what` when there is none.
template <typename Message>
absl::StatusOr<Message> oneMessage(Statement statement, const std::string& what) {
  absl::StatusOr<bool> row = statement.step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::NotFoundError(absl::StrCat("there is no ", what));
  return messageOf<Message>(statement);
}

template <typename Message>
absl::StatusOr<std::vector<Message>> allMessages(Statement statement) {
  std::vector<Message> messages;
  while (true) {
    absl::StatusOr<bool> row = statement.step();
    if (!row.ok()) return row.status();
    if (!*row) return messages;
    absl::StatusOr<Message> message = messageOf<Message>(statement);
    if (!message.ok()) return message.status();
    messages.push_back(*std::move(message));
  }
}

/// A page ends early at this size, so that a list of jobs with inline tensors fits a gRPC message (4 MiB).
inline constexpr size_t kPageBytes = 2 << 20;

/// `read(row, plan)` makes an item of a row: column 0 is the message, those of the plan's order follow.
template <typename Item, typename Read>
absl::StatusOr<Page<Item>> pageOf(Database& database, const std::string& token_key, const Entity& entity,
                                  const ListQuery& query, Read read) {
  absl::StatusOr<ListPlan> plan = planList(query, entity, token_key);
  if (!plan.ok()) return plan.status();
  Statement statement = database.prepareOnce(plan->sql);
  for (const Value& value : plan->values) statement.bind(value);
  Page<Item> page;
  std::vector<Value> last;
  size_t bytes = 0;
  while (true) {
    absl::StatusOr<bool> row = statement.step();
    if (!row.ok()) return row.status();
    if (!*row) return page;
    if (static_cast<int>(page.items.size()) == plan->page_size || bytes >= kPageBytes) break;
    absl::StatusOr<Item> item = read(statement, *plan);
    if (!item.ok()) return item.status();
    page.items.push_back(*std::move(item));
    bytes += statement.bytes(0).size();
    last.clear();
    for (size_t i = 0; i < plan->order.size(); ++i) last.push_back(statement.value(static_cast<int>(i) + 1));
  }
  page.next_page_token = makePageToken(plan->fingerprint, last, token_key);
  return page;
}

template <typename Message>
absl::StatusOr<Page<Message>> pageOf(Database& database, const std::string& token_key, const Entity& entity,
                                     const ListQuery& query) {
  return pageOf<Message>(database, token_key, entity, query,
                         [](const Statement& row, const ListPlan&) { return messageOf<Message>(row); });
}

}  // namespace tessera::storage
