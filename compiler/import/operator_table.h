#pragma once

#include <string>
#include <vector>

#include "tessera/v1/operator_service.pb.h"

namespace tessera::compiler {

/// The importer's table as data, sorted by domain, name and version. An entry that is right for every version
/// from its first on ends with the newest version that models may import.
std::vector<v1::OperatorInfo> operatorTable();

/// The same as a page of documentation (OPERATORS.md).
std::string operatorTableMarkdown();

}  // namespace tessera::compiler
