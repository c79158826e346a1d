// import_operators: prints the page of documentation on what is imported.
//   build/release/bin/import_operators > compiler/import/OPERATORS.md
#include <iostream>

#include "compiler/import/operator_table.h"

int main() {
  std::cout << tessera::compiler::operatorTableMarkdown();
  return 0;
}
