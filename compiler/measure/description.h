#pragma once

#include <string>

#include "compiler/measure/measure.h"

namespace tessera::compiler {

/// "12.3 bytes a cycle (median of 31, deviation 0.4 %)", and whether the figure is noisy and why.
std::string figureText(const Figure& figure);

/// The measured description as a text proto to keep and edit: each figure with its method and noise, and a list of the
/// figures that are the family's or the closest built-in chip's. `when` is part of the first line.
std::string describe(const Measured& measured, const std::string& when);

}  // namespace tessera::compiler
