#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/message.h"
#include "tessera/v1/schedule.pb.h"

namespace tessera::compiler::codegen::testing {

/// Every way to change one field of a tree, each applied to a copy of it. New values come from `random`.
class Mutations {
 public:
  Mutations(const v1::Schedule& schedule, std::mt19937& random);
  size_t count() const { return places_.size(); }

  /// The tree with the field at `place` changed, and what was changed.
  std::pair<v1::Schedule, std::string> at(size_t place);

 private:
  struct Place {
    std::vector<std::pair<const google::protobuf::FieldDescriptor*, int>> path;
    const google::protobuf::FieldDescriptor* field;
    int index;  ///< of a repeated field
  };
  void collect(const google::protobuf::Message& message,
               const std::vector<std::pair<const google::protobuf::FieldDescriptor*, int>>& path);
  void change(google::protobuf::Message& message, const google::protobuf::FieldDescriptor* field, int index);

  const v1::Schedule& schedule_;
  std::mt19937& random_;
  std::vector<Place> places_;
};

}  // namespace tessera::compiler::codegen::testing
