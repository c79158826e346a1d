#pragma once

#include <string>

#include "compiler/measure/measure.h"

namespace tessera::compiler {

/// "12.3 bytes a cycle (median of 31, deviation 0.4 %)", and whether that is noisy and why.
std::string figureText(const Figure& figure);

/// What was measured as a text proto to keep and to edit: every figure with how it was taken and its noise, and which
/// ones are the family's or the closest built-in chip's. `when` stands in its first line.
std::string describe(const Measured& measured, const std::string& when);

}  // namespace tessera::compiler
