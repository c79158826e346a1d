#pragma once

#include <string>

#include "compiler/graph/graph.h"
#include "compiler/graph/testing/plan_executor.h"
#include "gtest/gtest.h"
#include "mlir/IR/MLIRContext.h"

namespace tessera::compiler {

/// A test that plans models and compares the plan's results with the model's own.
class PlanTest : public ::testing::Test {
 protected:
  PlanTest();

  /// Parses a module in the importer's form; arguments with `tessera.weight` get seeded bytes.
  ImportedModel parse(const std::string& text);
  /// Plans, runs model and plan on seeded inputs, compares; returns the plan for further checks.
  /// `tolerance` is relative to the output's largest magnitude.
  PlannedGraph check(ImportedModel model, double tolerance = 1e-4);
  PlannedGraph checkText(const std::string& text) { return check(parse(text)); }

  mlir::MLIRContext context_;
  v1::Target target_;  ///< 16 lanes
  GraphOptions options_;
};

}  // namespace tessera::compiler
