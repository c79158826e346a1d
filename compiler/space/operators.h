#pragma once

#include <span>

namespace tessera::compiler::space {

/// An operator of the thesis's table 4.2 as a tensor expression, and what the table says of it.
struct Operator {
  const char* name;  ///< the table's abbreviation
  const char* what;
  const char* text;                ///< compiler/import/expression/syntax.h
  int spatial, reductions, nodes;  ///< #sl, #rl, #node of the table; 0: it is not in it
};

/// The table contradicts itself: C2D counts the loops of its border's node as well (8/3 with 2 nodes: 4 and 4), GRP,
/// DEP and DIL have the same two nodes and count one (4/3); and DEP has three sums where a depthwise convolution has
/// two. The table's twelve, and the two of FlexTensor that the libraries have no code for: block-circulant products and
/// shifts. One case each, of a size in the table's range.
std::span<const Operator> operators();

}  // namespace tessera::compiler::space
