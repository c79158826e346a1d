#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// Sets the number at a place of a description, "memory[0].line_bytes"; an integer to the nearest, at least 1. The
/// place exists: messages are made, entries of lists are not.
void setField(v1::Target& target, const std::string& place, double value);

/// The description as a text proto, with lines of comment in front of fields, by their places.
std::string commentedText(const v1::Target& target, const std::map<std::string, std::vector<std::string>>& comments);

}  // namespace tessera::compiler
