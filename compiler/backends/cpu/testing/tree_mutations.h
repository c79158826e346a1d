#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/message.h"
#include "tessera/v1/schedule.pb.h"

namespace tessera::compiler::codegen::testing {

/// All ways to change one field of a tree, each applied to a copy of it: another value, set or cleared; for repeated
/// fields one element removed, duplicated or added, or two swapped. New values come from `random`, many of them copied
/// from elsewhere in the tree.
class Mutations {
 public:
  /// The arguments must outlive this object.
  Mutations(const v1::Schedule& schedule, std::mt19937& random);
  size_t count() const { return places_.size(); }

  /// The tree with the field at `place` changed, and a description of the change.
  std::pair<v1::Schedule, std::string> at(size_t place);

 private:
  using Field = const google::protobuf::FieldDescriptor*;
  using Message = google::protobuf::Message;
  enum class Kind { kOther, kLess, kTwice, kMore, kSwapped };
  struct Place {
    std::vector<std::pair<Field, int>> path;
    Field field;
    int index;  ///< of a repeated field
    Kind kind;
  };

  void collect(const Message& message, const std::vector<std::pair<Field, int>>& path);
  void collectRepeated(const Message& message, Field field, const std::vector<std::pair<Field, int>>& path);
  void change(Message& message, const Place& place);
  void setOther(Message& message, Field field, int index);
  void addElement(Message& message, Field field);
  int64_t otherNumber(int64_t old);
  std::string otherText(const std::string& old);

  const v1::Schedule& schedule_;
  std::mt19937& random_;
  std::vector<Place> places_;
  std::vector<std::string> words_;
  std::vector<int64_t> numbers_;
  std::vector<const Message*> messages_;
};

}  // namespace tessera::compiler::codegen::testing
