#pragma once

#include <string>

#include "compiler/cost/breakdown.h"

namespace tessera::client {

/// `"breakdown":{...}`: energy of operations, and for each level energy and busy cycles of its ports.
std::string breakdownJson(const compiler::cost::Breakdown& breakdown);

/// A table for people, outermost level first.
std::string breakdownTable(const compiler::cost::Breakdown& breakdown);

}  // namespace tessera::client
