#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "storage/list_query.h"
#include "storage/sql/database.h"
#include "storage/sql/queries.h"
#include "storage/store.h"

/// Conversion of rows to messages, and derived lookup keys. Column 0 of each statement is the message.
namespace tessera::storage {

/// Key by which actions with an equal key component are found. It contains only a prefix of the hash; false matches are
/// harmless, because candidates are compared in full.
inline std::string sharedComponent(const std::string& project, const v1::KeyComponent& component) {
  return absl::StrCat(component.name(), " ", component.hash().substr(0, 16), " ", project);
}

template <typename Message>
absl::StatusOr<Message> messageOf(const Statement& row) {
  Message message;
  const std::string_view body = row.bytes(0);
  if (message.ParseFromArray(body.data(), static_cast<int>(body.size()))) return message;
  return absl::DataLossError(
      absl::StrCat("a stored ", message.GetTypeName(), " of ", body.size(), " bytes cannot be read; restore a backup"));
}

/// Returns the message of the single row; NOT_FOUND names `what` if there is none.
template <typename Message>
absl::StatusOr<Message> oneMessage(Statement statement, const std::string& what) {
  TESSERA_ASSIGN_OR_RETURN(bool row, statement.step());
  if (!row) return absl::NotFoundError(absl::StrCat("there is no ", what));
  return messageOf<Message>(statement);
}

template <typename Message>
absl::StatusOr<std::vector<Message>> allMessages(Statement statement) {
  std::vector<Message> messages;
  while (true) {
    TESSERA_ASSIGN_OR_RETURN(bool row, statement.step());
    if (!row) return messages;
    TESSERA_ASSIGN_OR_RETURN(Message message, messageOf<Message>(statement));
    messages.push_back(std::move(message));
  }
}

/// Adds the parts of a task that are stored in separate rows.
inline absl::Status addParts(Database& database, v1::Task& task) {
  Statement part = database.prepare(sql::kTaskParts);
  part.bind(task.id());
  while (true) {
    TESSERA_ASSIGN_OR_RETURN(bool row, part.step());
    if (!row) return absl::OkStatus();
    const std::string_view body = part.bytes(0);
    if (!task.MergeFromString({body.data(), body.size()})) {
      return absl::DataLossError(
          absl::StrCat("a part of the stored task ", task.id(), " cannot be read; restore a backup"));
    }
  }
}

/// Returns the complete task of a row.
inline absl::StatusOr<v1::Task> taskOf(Database& database, const Statement& row) {
  absl::StatusOr<v1::Task> task = messageOf<v1::Task>(row);
  if (!task.ok()) return task;
  TESSERA_RETURN_IF_ERROR(addParts(database, *task));
  return task;
}

inline absl::StatusOr<v1::Task> oneTask(Database& database, Statement statement, const std::string& what) {
  TESSERA_ASSIGN_OR_RETURN(bool row, statement.step());
  if (!row) return absl::NotFoundError(absl::StrCat("there is no ", what));
  return taskOf(database, statement);
}

inline absl::StatusOr<std::vector<v1::Task>> allTasks(Database& database, Statement statement) {
  absl::StatusOr<std::vector<v1::Task>> tasks = allMessages<v1::Task>(std::move(statement));
  if (!tasks.ok()) return tasks;
  for (v1::Task& task : *tasks) {
    TESSERA_RETURN_IF_ERROR(addParts(database, task));
  }
  return tasks;
}

/// A page ends at this size, so that a list of jobs with inline tensors fits in a gRPC message (4 MiB).
inline constexpr size_t kPageBytes = 2 << 20;

inline size_t sizeOf(const google::protobuf::Message& item) { return item.ByteSizeLong(); }
inline size_t sizeOf(const StoredTarget& item) { return item.target.ByteSizeLong(); }

/// `read(row, plan)` converts a row to an item. Column 0 is the message, followed by the fields of the plan's order.
template <typename Item, typename Read>
absl::StatusOr<Page<Item>> pageOf(Database& database, const std::string& token_key, const Entity& entity,
                                  const ListQuery& query, Read read) {
  TESSERA_ASSIGN_OR_RETURN(ListPlan plan, planList(query, entity, token_key));
  Statement statement = database.prepareOnce(plan.sql);
  for (const Value& value : plan.values) statement.bind(value);
  Page<Item> page;
  std::vector<Value> last;
  size_t bytes = 0;
  while (true) {
    TESSERA_ASSIGN_OR_RETURN(bool row, statement.step());
    if (!row) return page;
    if (static_cast<int>(page.items.size()) == plan.page_size || bytes >= kPageBytes) break;
    TESSERA_ASSIGN_OR_RETURN(Item item, read(statement, plan));
    bytes += sizeOf(item);
    page.items.push_back(std::move(item));
    last.clear();
    for (size_t i = 0; i < plan.order.size(); ++i) last.push_back(statement.value(static_cast<int>(i) + 1));
  }
  page.next_page_token = makePageToken(plan.fingerprint, last, token_key);
  return page;
}

template <typename Message>
absl::StatusOr<Page<Message>> pageOf(Database& database, const std::string& token_key, const Entity& entity,
                                     const ListQuery& query) {
  return pageOf<Message>(database, token_key, entity, query,
                         [](const Statement& row, const ListPlan&) { return messageOf<Message>(row); });
}

}  // namespace tessera::storage
