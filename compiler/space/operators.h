#pragma once

#include <span>

namespace tessera::compiler::space {

/// An operator of the thesis's table 4.2 as a tensor expression, with the table's figures.
struct Operator {
  const char* name;  ///< the table's abbreviation
  const char* what;
  const char* text;                ///< compiler/import/expression/syntax.h
  int spatial, reductions, nodes;  ///< #sl, #rl, #node of the table; 0: not in the table
};

/// The table contradicts itself: C2D also counts the loops of its padding node (8/3 with 2 nodes: 4 and 4), while GRP,
/// DEP and DIL have the same two nodes and count one (4/3); and DEP has three reductions where a depthwise convolution
/// has two. Contains the table's twelve operators, and two of FlexTensor's for which libraries have no code:
/// block-circulant products and shifts. One case each, of a size in the table's range.
std::span<const Operator> operators();

}  // namespace tessera::compiler::space
