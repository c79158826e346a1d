// import_operators: prints the documentation page of the importer's operators.
//   build/release/bin/import_operators > compiler/import/OPERATORS.md
#include <iostream>

#include "compiler/import/operator_table.h"

int main() {
  std::cout << tessera::compiler::operatorTableMarkdown();
  return 0;
}
