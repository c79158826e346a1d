#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::storage {

/// A statement in PostgreSQL's dialect.
struct PostgresStatementText {
  std::string sql;
  bool reads = false;   ///< SELECT
  bool writes = false;  ///< INSERT, UPDATE or DELETE
  /// May violate a constraint by the content of the transaction, which then continues.
  bool may_violate = false;
  /// May return more rows than the caller steps over, so the rows are fetched in parts.
  bool streamed = false;
  /// A page of rows that the caller may leave early.
  bool pages = false;
  /// Parameters, from 0, that are patterns of GLOB and become patterns of LIKE.
  std::vector<int> globs;
};

/// Translates a statement of the store (storage/sql/queries.h, storage/list_query.h) from SQLite's dialect: numbers the
/// parameters, removes the index hints, which PostgreSQL does not have, and replaces the functions and operators of the
/// lists' filters. A statement whose tables differ is replaced as a whole.
PostgresStatementText toPostgres(std::string_view sqlite);

/// Translates a pattern of GLOB to one of LIKE. `*` is the only wildcard of the filters; brackets quote one character.
std::string likeOfGlob(std::string_view glob);

}  // namespace tessera::storage
