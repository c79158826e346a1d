#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tessera::storage {

/// Steps that undo a transaction; the newest is last.
class UndoLog {
 public:
  void add(std::function<void()> step) { steps_.push_back(std::move(step)); }
  size_t steps() const { return steps_.size(); }
  /// Undoes all but the first `kept` steps.
  void rollBack(size_t kept = 0) {
    for (; steps_.size() > kept; steps_.pop_back()) steps_.back()();
  }
  void forget() { steps_.clear(); }

 private:
  std::vector<std::function<void()>> steps_;
};

/// An ordered table with undo.
template <typename Key, typename Row>
class Table {
 public:
  explicit Table(UndoLog& undo) : undo_(undo) {}

  const Row* find(const Key& key) const {
    const auto row = rows_.find(key);
    return row == rows_.end() ? nullptr : row->second.get();
  }
  bool contains(const Key& key) const { return rows_.contains(key); }

  void put(const Key& key, Row row) {
    std::shared_ptr<const Row>& place = rows_[key];
    undo_.add([this, key, before = place] { restore(key, before); });
    place = std::make_shared<const Row>(std::move(row));
  }
  void erase(const Key& key) {
    const auto row = rows_.find(key);
    if (row == rows_.end()) return;
    undo_.add([this, key, before = row->second] { restore(key, before); });
    rows_.erase(row);
  }

  using Rows = std::map<Key, std::shared_ptr<const Row>>;
  const Rows& rows() const { return rows_; }
  /// Iterates from the first key that is not less than `key`.
  typename Rows::const_iterator from(const Key& key) const { return rows_.lower_bound(key); }

 private:
  void restore(const Key& key, const std::shared_ptr<const Row>& before) {
    if (before) {
      rows_[key] = before;
    } else {
      rows_.erase(key);
    }
  }

  UndoLog& undo_;
  Rows rows_;
};

/// An ordered set, used as a secondary index.
template <typename Key>
class Index : public Table<Key, bool> {
 public:
  using Table<Key, bool>::Table;
  void set(const Key& key, bool present) {
    if (present == this->contains(key)) return;
    if (present) {
      this->put(key, true);
    } else {
      this->erase(key);
    }
  }
};

}  // namespace tessera::storage
