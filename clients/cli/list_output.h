#pragma once

#include <iostream>
#include <string>
#include <vector>

#include "clients/cli/command.h"
#include "clients/cli/output.h"

namespace tessera::client {

/// One list command from call to output: pages fetched, then a table, or as JSON
/// {"<plural>": [...], "next_page_token": "..."}. `rowOf` gives the table's cells of one item.
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

}  // namespace tessera::client
