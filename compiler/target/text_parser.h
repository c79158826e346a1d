#pragma once

#include <google/protobuf/text_format.h>

#include "compiler/target/target.h"

namespace tessera::compiler {

/// parseTargetText that also fills `tree`, if given, with the positions of all fields.
absl::StatusOr<v1::Target> parseTargetText(const std::string& given, google::protobuf::TextFormat::ParseInfoTree* tree);

}  // namespace tessera::compiler
