#pragma once

#include <string>

#include "compiler/import/expression/syntax.h"

namespace tessera::compiler::expression {

/// The expression in the syntax of syntax.h, with the parentheses it needs and no others.
std::string print(const Node& node);

/// "C[i, j] += A[i, k] * B[k, j] where k < 4", without the semicolon.
std::string print(const Statement& statement);

/// One declaration or statement a line. parse() reads the result back to an equal program.
std::string print(const Program& program);

}  // namespace tessera::compiler::expression
