#include "storage/memory/list.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "proto/support/status_macros.h"
#include "storage/filter_check.h"

namespace tessera::storage {
namespace {

using Op = CheckedComparison::Op;

size_t indexOf(const Entity& entity, const Field* field) { return static_cast<size_t>(field - entity.fields.data()); }

/// Whether the text contains the pieces in order, the first at its start and the last at its end (unless `anywhere`).
bool matchesPieces(std::string_view text, const std::vector<std::string>& pieces, bool anywhere) {
  const std::string& last = pieces.back();
  size_t at = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i == 0 && !anywhere) {
      if (!text.starts_with(pieces[0])) return false;
      at = pieces[0].size();
    } else if (i + 1 == pieces.size() && !anywhere) {
      return text.size() >= at + last.size() && text.ends_with(last);
    } else {
      const size_t found = text.find(pieces[i], at);
      if (found == std::string_view::npos) return false;
      at = found + pieces[i].size();
    }
  }
  return true;
}

bool isSet(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return !text->empty();
  if (const auto* real = std::get_if<double>(&value)) return *real != 0;
  return std::get<int64_t>(value) != 0;
}

bool holds(const CheckedComparison& comparison, const Value& found) {
  if (comparison.op == Op::kHasPart || comparison.op == Op::kLacksPart) {
    const bool has = std::get<std::string>(found).find(std::get<std::string>(comparison.value)) != std::string::npos;
    return has == (comparison.op == Op::kHasPart);
  }
  if (comparison.op == Op::kIsSet) return isSet(found);
  if (comparison.op == Op::kContains) {
    const std::string text = absl::AsciiStrToLower(std::get<std::string>(found));
    return comparison.pieces.empty() ? text.find(std::get<std::string>(comparison.value)) != std::string::npos
                                     : matchesPieces(text, comparison.pieces, true);
  }
  if (!comparison.pieces.empty()) {
    return matchesPieces(std::get<std::string>(found), comparison.pieces, false) == (comparison.op == Op::kEqual);
  }
  switch (comparison.op) {
    case Op::kNotEqual:
      return found != comparison.value;
    case Op::kLess:
      return found < comparison.value;
    case Op::kLessEqual:
      return found <= comparison.value;
    case Op::kGreater:
      return found > comparison.value;
    case Op::kGreaterEqual:
      return found >= comparison.value;
    default:
      return found == comparison.value;
  }
}

/// An expression whose comparisons are validated.
class CheckedExpression : public RowFilter {
 public:
  absl::Status check(const Expression& expression, const Entity& entity) {
    kind_ = expression.kind;
    if (kind_ == Expression::Kind::kComparison) {
      TESSERA_ASSIGN_OR_RETURN(comparison_, checkComparison(expression.comparison, entity));
      column_ = indexOf(entity, comparison_.field);
    }
    for (const Expression& child : expression.children) {
      children_.emplace_back();
      TESSERA_RETURN_IF_ERROR(children_.back().check(child, entity));
    }
    return absl::OkStatus();
  }

  bool matches(const std::vector<Value>& columns) const override {
    switch (kind_) {
      case Expression::Kind::kComparison:
        return holds(comparison_, columns[column_]);
      case Expression::Kind::kNot:
        return !children_[0].matches(columns);
      case Expression::Kind::kOr:
        return std::any_of(children_.begin(), children_.end(), [&](const auto& c) { return c.matches(columns); });
      default:
        return std::all_of(children_.begin(), children_.end(), [&](const auto& c) { return c.matches(columns); });
    }
  }

 private:
  Expression::Kind kind_ = Expression::Kind::kAnd;
  std::vector<CheckedExpression> children_;
  CheckedComparison comparison_;
  size_t column_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RowFilter>> makeRowFilter(std::string_view filter, const Entity& entity) {
  TESSERA_ASSIGN_OR_RETURN(Expression parsed, parseFilter(filter));
  auto checked = std::make_unique<CheckedExpression>();
  TESSERA_RETURN_IF_ERROR(checked->check(parsed, entity));
  return checked;
}

bool isVisibleTo(const std::string& project, const Entity& entity, const std::vector<Value>& columns) {
  const Field* field = entity.find("project");
  if (project.empty() || field == nullptr) return true;
  const auto& whose = std::get<std::string>(columns[indexOf(entity, field)]);
  return whose == project || (entity.has_common && whose.empty());
}

bool precedes(const std::vector<OrderTerm>& order, const std::vector<Value>& a, const std::vector<Value>& b) {
  for (size_t i = 0; i < order.size(); ++i) {
    if (a[i] != b[i]) return (a[i] < b[i]) != order[i].descending;
  }
  return false;
}

std::vector<Value> orderColumns(const ListOrder& list, const Entity& entity, const std::vector<Value>& columns) {
  std::vector<Value> by;
  for (const OrderTerm& term : list.order) by.push_back(columns[indexOf(entity, term.field)]);
  return by;
}

}  // namespace tessera::storage
