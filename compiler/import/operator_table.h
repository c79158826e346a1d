#pragma once

#include <string>
#include <vector>

#include "tessera/v1/operator_service.pb.h"

namespace tessera::compiler {

/// Returns the importer's table as data, sorted by domain, name and version. An entry without a last version ends with
/// the newest version that models may import.
std::vector<v1::OperatorInfo> operatorTable();

/// Returns the table as a page of documentation (OPERATORS.md).
std::string operatorTableMarkdown();

}  // namespace tessera::compiler
