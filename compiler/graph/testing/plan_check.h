#pragma once

#include <string>

#include "compiler/graph/graph.h"
#include "gtest/gtest.h"
#include "mlir/IR/MLIRContext.h"

namespace tessera::compiler {

/// A test fixture that plans models and compares every rewrite and the plan with the interpreted model
/// (verification::GraphCheck).
class PlanTest : public ::testing::Test {
 protected:
  PlanTest();

  /// Parses a module in the importer's form; arguments with `tessera.weight` get seeded bytes.
  ImportedModel parse(const std::string& text);
  /// Plans the model. The test fails unless every step was interpreted and correct. Returns the plan for further
  /// checks.
  PlannedGraph check(ImportedModel model);
  PlannedGraph checkText(const std::string& text) { return check(parse(text)); }

  mlir::MLIRContext context_;
  v1::Target target_;  ///< 16 lanes
  GraphOptions options_;
};

}  // namespace tessera::compiler
