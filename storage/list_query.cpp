#include "storage/list_query.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/messages/failure.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "storage/filter_sql.h"

namespace tessera::storage {
namespace {

constexpr int kDefaultPageSize = 50;
constexpr int kMaxPageSize = 1000;
constexpr size_t kMaxOrderBytes = 512;

absl::Status invalid(const char* field, const std::string& found, const std::string& accepted) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_attribute(field);
  failure.set_found(found);
  failure.set_accepted(accepted);
  failure.set_message(absl::StrCat(field, ": found ", found, "; accepted: ", accepted));
  return failureStatus(failure);
}

absl::StatusOr<OrderTerm> parseTerm(const std::string& term, const Entity& entity) {
  const std::vector<std::string> words = absl::StrSplit(term, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  const Field* field = words.empty() ? nullptr : entity.find(words[0]);
  if (field && field->type == FieldType::kLabels) {
    return invalid("order_by", "a label", "another field: labels are for filters");
  }
  if (!field) {
    return invalid("order_by", absl::StrCat("the unknown field \"", words.empty() ? "" : words[0], "\""),
                   absl::StrCat(entity.fieldNames(), ", each once, separated by commas"));
  }
  const std::string direction = words.size() > 1 ? absl::AsciiStrToLower(words[1]) : "asc";
  if (words.size() > 2 || (direction != "asc" && direction != "desc")) {
    return invalid("order_by", absl::StrCat("\"", term, "\""), "a field, then nothing, asc or desc");
  }
  return OrderTerm{field, direction == "desc"};
}

/// Restricts the rows to those after `last` in the order. With one direction this is a row comparison, for which an
/// index can be used; mixed directions are expanded: a > ? OR (a = ? AND (b < ? OR (b = ? AND ...))).
void addKeyset(const std::vector<OrderTerm>& order, const std::vector<Value>& last, Condition& condition) {
  const bool uniform = std::all_of(order.begin(), order.end(),
                                   [&](const OrderTerm& term) { return term.descending == order[0].descending; });
  // (a, b) > (?, ?) can use an index on (a, b); the expanded form below cannot.
  if (uniform) {
    std::string columns;
    std::string marks;
    for (const OrderTerm& term : order) {
      absl::StrAppend(&columns, columns.empty() ? "" : ", ", term.field->column());
      absl::StrAppend(&marks, marks.empty() ? "?" : ", ?");
    }
    absl::StrAppend(&condition.sql, " AND (", columns, order[0].descending ? ") < (" : ") > (", marks, ")");
    condition.values.insert(condition.values.end(), last.begin(), last.end());
    return;
  }
  absl::StrAppend(&condition.sql, " AND (");
  for (size_t i = 0; i < order.size(); ++i) {
    const std::string& column = order[i].field->column();
    absl::StrAppend(&condition.sql, column, order[i].descending ? " < ?" : " > ?");
    condition.values.push_back(last[i]);
    if (i + 1 == order.size()) break;
    absl::StrAppend(&condition.sql, " OR (", column, " = ? AND (");
    condition.values.push_back(last[i]);
  }
  absl::StrAppend(&condition.sql, std::string(2 * (order.size() - 1) + 1, ')'));
}

}  // namespace

absl::StatusOr<std::vector<OrderTerm>> parseOrderBy(std::string_view order_by, const Entity& entity) {
  if (order_by.size() > kMaxOrderBytes) {
    return invalid("order_by", absl::StrCat(order_by.size(), " bytes"), absl::StrCat("at most ", kMaxOrderBytes));
  }
  std::string text(absl::StripAsciiWhitespace(absl::string_view(order_by.data(), order_by.size())));
  if (text.empty()) text = entity.default_order;
  std::vector<OrderTerm> order;
  const std::vector<std::string> terms = absl::StrSplit(text, ',');
  for (const std::string& term : terms) {
    TESSERA_ASSIGN_OR_RETURN(OrderTerm parsed, parseTerm(term, entity));
    for (const OrderTerm& earlier : order) {
      if (earlier.field == parsed.field) {
        return invalid("order_by", absl::StrCat("\"", parsed.field->name, "\" twice"), "each field once");
      }
    }
    order.push_back(parsed);
    // The key is unique: later terms have no effect.
    if (parsed.field->name == entity.key && !entity.key_of_project) return order;
  }
  std::vector<std::string> unique = {entity.key};
  if (entity.key_of_project) unique.emplace_back("project");
  for (const std::string& name : unique) {
    const Field* field = entity.find(name);
    if (std::ranges::find(order, field, &OrderTerm::field) == order.end()) {
      order.push_back({field, order.back().descending});
    }
  }
  return order;
}

absl::StatusOr<ListOrder> resolveOrder(const ListQuery& query, const Entity& entity, const std::string& token_key) {
  if (query.page_size < 0) {
    return invalid("page_size", absl::StrCat(query.page_size), "0 (meaning 50) to 1000");
  }
  TESSERA_ASSIGN_OR_RETURN(std::vector<OrderTerm> order, parseOrderBy(query.order_by, entity));
  ListOrder resolved;
  resolved.page_size = query.page_size == 0 ? kDefaultPageSize : std::min(query.page_size, kMaxPageSize);
  resolved.order = std::move(order);
  for (const OrderTerm& term : resolved.order) {
    absl::StrAppend(&resolved.ordering, resolved.ordering.empty() ? "" : ", ", term.field->column(),
                    term.descending ? " DESC" : "");
  }
  resolved.fingerprint =
      sha256Hex(absl::StrCat(entity.table, "\n", resolved.ordering, "\n", query.project, "\n", query.filter))
          .substr(0, 32);
  if (query.page_token.empty()) return resolved;
  TESSERA_ASSIGN_OR_RETURN(std::vector<Value> last, readPageToken(query.page_token, resolved.fingerprint, token_key));
  if (last.size() != resolved.order.size()) {
    return invalid("page_token", absl::StrCat("a token of ", last.size(), " values"),
                   "next_page_token of the previous answer; or start again without one");
  }
  resolved.has_last = true;
  resolved.last = std::move(last);
  return resolved;
}

void restrictTo(const std::string& project, const Entity& entity, Condition& condition) {
  if (project.empty() || entity.find("project") == nullptr) return;
  condition.sql = absl::StrCat(entity.has_common ? "project IN ('', ?)" : "project = ?", " AND (", condition.sql, ")");
  condition.values.insert(condition.values.begin(), project);
}

absl::StatusOr<ListPlan> planList(const ListQuery& query, const Entity& entity, const std::string& token_key) {
  TESSERA_ASSIGN_OR_RETURN(Condition condition, compileFilter(query.filter, entity));
  restrictTo(query.project, entity, condition);
  TESSERA_ASSIGN_OR_RETURN(ListOrder resolved, resolveOrder(query, entity, token_key));
  ListPlan plan;
  plan.page_size = resolved.page_size;
  plan.order = std::move(resolved.order);
  plan.fingerprint = std::move(resolved.fingerprint);
  if (resolved.has_last) addKeyset(plan.order, resolved.last, condition);
  std::string columns;
  for (const OrderTerm& term : plan.order) absl::StrAppend(&columns, ", ", term.field->column());
  plan.sql = absl::StrCat("SELECT body", columns, " FROM ", entity.table, " WHERE ", condition.sql, " ORDER BY ",
                          resolved.ordering, " LIMIT ?");
  plan.values = std::move(condition.values);
  plan.values.emplace_back(int64_t{plan.page_size} + 1);
  return plan;
}

}  // namespace tessera::storage
