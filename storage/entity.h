#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/value.h"

namespace tessera::storage {

enum class FieldType { kText, kInteger, kReal, kTime, kBoolean, kEnum, kLabels };

/// A field that filters and orders can use.
struct Field {
  struct EnumValue {
    std::string name;
    int64_t number;
  };
  std::string name;
  FieldType type;
  std::vector<EnumValue> values = {};  ///< kEnum
  std::string stored = {};             ///< column name; empty: the field's name
  /// The value of most rows ("" or a number). The field's indices are partial: they leave out rows with this value, so
  /// only comparisons with other values can use them.
  std::optional<Value> usual = std::nullopt;
  /// Name of the field in filters, for messages.
  std::string shown() const { return type == FieldType::kLabels ? name + ".KEY" : name; }
  const std::string& column() const { return stored.empty() ? name : stored; }
};

/// Describes a kind of rows that can be listed: its table, and the fields by which lists are filtered and ordered. It
/// is data, so that a new field is one line.
struct Entity {
  std::string table;
  std::string key;  ///< the unique field; every order ends with it, which makes the order total
  std::string default_order;
  std::vector<Field> fields;
  bool key_of_project = false;  ///< the key is unique within a project only; the order then ends with the project
  bool has_common = false;      ///< rows without a project are visible to all projects

  /// Finds a field by its name in a filter; "labels.team" finds "labels".
  const Field* find(std::string_view name) const;
  /// "id, state, ...", for messages.
  std::string fieldNames() const;
};

const Entity& jobEntity();
const Entity& artifactEntity();
const Entity& recordEntity();
const Entity& targetEntity();
const Entity& workerEntity();
const Entity& taskEntity();
const Entity& operatorEntity();
const Entity& serverEntity();

/// Values of the column jobs.kind: the field numbers of Job.spec.
inline constexpr int64_t kCompileKind = 5;
inline constexpr int64_t kExecuteKind = 6;
inline constexpr int64_t kProfileKind = 7;
inline constexpr int64_t kAnalyzeKind = 22;
inline constexpr int64_t kTuneKind = 26;

}  // namespace tessera::storage
