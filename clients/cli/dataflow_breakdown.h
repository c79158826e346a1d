#pragma once

#include <string>

#include "compiler/cost/breakdown.h"
#include "compiler/cost/dataflow.h"

namespace tessera::client {

/// A figure with 15 digits: words are whole numbers below 2^53.
std::string figureText(double value);

/// `"breakdown":{...}`: energy of operations, and for each level energy and busy cycles of its ports.
std::string breakdownJson(const compiler::cost::Breakdown& breakdown);

/// `"levels":[...]`: for each level and tensor the words read, filled, updated and drained, and the footprint.
std::string levelsJson(const compiler::cost::DataflowCost& cost);

/// Tables for people, outermost level first.
std::string movementTable(const compiler::cost::DataflowCost& cost);
std::string breakdownTable(const compiler::cost::Breakdown& breakdown);

}  // namespace tessera::client
