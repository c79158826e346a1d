#pragma once

#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/command.h"
#include "clients/cli/output.h"

namespace tessera::client {

/// A complete list command: fetches pages and prints a table, or with JSON {"<plural>": [...], "next_page_token":
/// "..."}. `rowOf` returns the table's cells for one item.
template <typename Request, typename Call, typename ItemsOf, typename RowOf>
int printList(const CommandLine& line, const ListFlags& flags, const std::string& plural,
              const std::vector<std::string>& headings, Call&& call, ItemsOf&& itemsOf, RowOf&& rowOf) {
  std::vector<std::vector<std::string>> rows;
  std::string json;
  auto token = forEachPage<Request>(flags, call, [&](const auto& page) {
    for (const auto& item : itemsOf(page)) {
      if (line.json) {
        json += (json.empty() ? "" : ",") + toJson(item);
      } else {
        rows.push_back(rowOf(item));
      }
    }
    return static_cast<int>(itemsOf(page).size());
  });
  if (!token.ok()) return reportError(token.status(), line.json);
  if (line.json) {
    std::cout << "{\"" << plural << "\":[" << json << "],\"next_page_token\":" << jsonString(*token) << "}\n";
    return 0;
  }
  std::cout << table(headings, rows);
  if (!token->empty()) std::cerr << "more with --page-token " << *token << " (or --limit 0)\n";
  return 0;
}

/// Lists built-in items if connectIfThere() found no service: in their own order, marked as built in ("from" in JSON, a
/// line on standard error).
template <typename Items, typename RowOf>
int printBuiltin(const CommandLine& line, const ListFlags& flags, const std::string& plural,
                 const std::vector<std::string>& headings, const Items& items, RowOf&& rowOf) {
  const std::string nobody = absl::StrCat("no service answers at ", line.server);
  if (!flags.filter.empty() || !flags.page_token.empty() || flags.order_by != flags.default_order) {
    return reportError(absl::UnavailableError(absl::StrCat(
                           nobody, ", and only one can filter and order; name it with --server or TESSERA_SERVER")),
                       line.json);
  }
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> entries;
  for (const auto& item : items) {
    if (flags.limit > 0 && static_cast<int>(rows.size() + entries.size()) == flags.limit) break;
    if (line.json) {
      entries.push_back(toJson(item));
    } else {
      rows.push_back(rowOf(item));
    }
  }
  if (line.json) {
    std::cout << "{\"" << plural << "\":[" << absl::StrJoin(entries, ",")
              << R"(],"next_page_token":"","from":"built-in"})" << "\n";
    return 0;
  }
  std::cout << table(headings, rows);
  std::cerr << nobody << ": these are the " << plural << " of this program\n";
  return 0;
}

}  // namespace tessera::client
