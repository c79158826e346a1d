#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// Sets the number at a path of a description, "memory[0].line_bytes"; integers are rounded, to at least 1. Creates
/// messages on the path, but list entries must exist.
void setField(v1::Target& target, const std::string& place, double value);

/// The description as a text proto, with comment lines before fields, by path.
std::string commentedText(const v1::Target& target, const std::map<std::string, std::vector<std::string>>& comments);

}  // namespace tessera::compiler
